package main

import (
	"os"
	"path/filepath"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/internal/provider/local"
)

// providers is the one list of all kinds.
func providers(f sallyport.FactoryID, state string) ([]provider.Provider, error) {
	dir, err := libexec()
	if err != nil {
		return nil, err
	}
	p, err := local.Open(local.Config{Factory: f, Folder: filepath.Join(state, "local"),
		Keeper: filepath.Join(dir, "sallyport-keeper"), Runner: filepath.Join(dir, "sallyport-runner")})
	if err != nil {
		return nil, err
	}
	return []provider.Provider{p}, nil
}

// programs says where this program is, which a selftest starts once more, and where the others are.
func programs() (self, dir string, err error) {
	if dir, err = libexec(); err == nil {
		self, err = os.Executable()
	}
	return self, dir, err
}

// libexec is where the other programs are: $SALLYPORT_LIBEXEC, else beside this one, links resolved.
func libexec() (string, error) {
	if dir := os.Getenv("SALLYPORT_LIBEXEC"); dir != "" {
		return filepath.Abs(dir)
	}
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return "", &sallyport.Error{Op: "find sallyport's programs", Code: sallyport.CodeUnavailable, Message: "this program does not find itself",
			Hint: "set SALLYPORT_LIBEXEC to the folder of sallyport-keeper and sallyport-runner", Err: err}
	}
	return filepath.Dir(self), nil
}
