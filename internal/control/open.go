package control

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/evidence"
	"sallyport.dev/sallyport/internal/id"
	"sallyport.dev/sallyport/internal/journal/sqlite"
	"sallyport.dev/sallyport/internal/provider"
)

// Open opens the state folder, making it on first use. CodeUnavailable: it cannot be written; CodeCorrupt: the
// journal is damaged; CodeUnsupported: it is of a newer version.
func Open(ctx context.Context, cfg Config) (*Control, error) {
	for _, d := range []string{"", "attempts", "manifests", "quarantine", "repos", "base-checks", "checks"} {
		if err := os.MkdirAll(filepath.Join(cfg.State, d), 0o700); err != nil {
			return nil, stateError(filepath.Join(cfg.State, d), err)
		}
	}
	if err := checkOwn(cfg.State); err != nil {
		return nil, err
	}
	c := &Control{cfg: cfg, providers: map[string]provider.Provider{}}
	var err error
	if c.factory, err = openFactory(filepath.Join(cfg.State, "factory.json")); err != nil {
		return nil, err
	}
	if c.keys, err = evidence.OpenKeyring(filepath.Join(cfg.State, "keys")); err != nil {
		return nil, err
	}
	list, err := cfg.Providers(c.factory, cfg.State)
	if err != nil {
		return nil, err
	}
	for _, p := range list {
		c.providers[p.Name()] = p
	}
	if c.journal, err = sqlite.Open(filepath.Join(cfg.State, "journal.db"), sqlite.Options{}); err != nil {
		return nil, err
	}
	if cfg.Adopt {
		if err := c.adopt(ctx); err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

// Close closes the journal.
func (c *Control) Close() error { return c.journal.Close() }

// checkOwn refuses a state folder that somebody else could write: keys, journal and quarantine lie in it.
func checkOwn(dir string) error {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return stateError(dir, err)
	}
	if int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return &sallyport.Error{Op: "state folder", Code: sallyport.CodeDenied, Subject: dir, Message: fmt.Sprintf("expected a folder of your own that nobody else can write; it is uid %d's with mode %04o", st.Uid, st.Mode&0o7777),
			Hint: "chown and chmod 700 it, or choose another with SALLYPORT_STATE"}
	}
	return nil
}

func stateError(path string, err error) error {
	return &sallyport.Error{Op: "state folder", Code: sallyport.CodeUnavailable, Subject: path, Message: "cannot be used",
		Hint: "free space or permissions there, or choose another with SALLYPORT_STATE", Err: err}
}

// openFactory reads this state folder's identity, or chooses one.
func openFactory(path string) (sallyport.FactoryID, error) {
	var f struct {
		Factory sallyport.FactoryID `json:"factory"`
	}
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &f)
		if err == nil {
			err = sallyport.CheckID(sallyport.FactoryPrefix, string(f.Factory))
		}
		if err != nil {
			return "", &sallyport.Error{Op: "state folder", Code: sallyport.CodeCorrupt, Subject: path, Message: "expected this factory's id", Err: err}
		}
		return f.Factory, nil
	}
	if !os.IsNotExist(err) {
		return "", stateError(path, err)
	}
	fresh, err := id.New(sallyport.FactoryPrefix)
	if err != nil {
		return "", err
	}
	f.Factory = sallyport.FactoryID(fresh)
	if b, err = json.Marshal(f); err != nil {
		return "", err
	}
	// Exclusive: of two first users one wins, the other reads what it wrote.
	t, err := renameio.TempFile(filepath.Dir(path), path)
	if err != nil {
		return "", stateError(path, err)
	}
	defer t.Cleanup()
	if _, err := t.Write(b); err != nil {
		return "", stateError(path, err)
	}
	if err := t.Sync(); err != nil {
		return "", stateError(path, err)
	}
	if err := os.Link(t.Name(), path); os.IsExist(err) {
		return openFactory(path)
	} else if err != nil {
		return "", stateError(path, err)
	}
	return f.Factory, nil
}

// The state folder's parts.
func (c *Control) attemptFolder(a sallyport.AttemptID) string {
	return filepath.Join(c.cfg.State, "attempts", string(a))
}

func (c *Control) quarantinePath(d sallyport.Digest) string {
	return filepath.Join(c.cfg.State, "quarantine", d.Hex())
}

func (c *Control) manifestPath(d sallyport.Digest) string {
	return filepath.Join(c.cfg.State, "manifests", d.Hex()+".json")
}

// writeDurable writes a file that is whole or absent after any crash.
func writeDurable(path string, b []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return stateError(path, err)
	}
	if err := renameio.WriteFile(path, b, 0o600, renameio.WithTempDir(filepath.Dir(path)) /* not /tmp: what a crash leaves is ours to sweep */); err != nil {
		return stateError(path, err)
	}
	return syncFolder(filepath.Dir(path))
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return stateError(dir, err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return stateError(dir, err)
	}
	return nil
}
