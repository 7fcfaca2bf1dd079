package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/screen"
)

// maxCopy bounds one file that a person has the agent given beside the repository.
const maxCopy = 16 << 20

// copies is the layer with the person's files that the agent is given; "" if there are none. It lies above the
// tree for the agent alone: no check sees it, and importBundle keeps it out of the change.
func (d *driver) copies(ctx context.Context) (string, error) {
	if len(d.m.Copies) == 0 {
		return "", nil
	}
	d.layers.Lock()
	defer d.layers.Unlock()
	dir := filepath.Join(d.c.attemptFolder(d.id), "layers", "copies")
	tmp := fmt.Sprintf("%s-%d.tmp", dir, d.current().Fence)
	for _, old := range []string{tmp, dir} {
		if err := os.RemoveAll(old); err != nil {
			return "", stateError(old, err)
		}
	}
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		return "", stateError(tmp, err)
	}
	from, err := os.OpenRoot(d.m.Repository)
	if err != nil {
		return "", &sallyport.Error{Op: "copy files in", Code: sallyport.CodeUnavailable, Subject: d.m.Repository, Err: err}
	}
	defer from.Close()
	for _, name := range d.m.Copies {
		b, err := readCopy(from, name)
		if errors.Is(err, fs.ErrNotExist) {
			if err := d.notice(ctx, "the agent was not given %s: your working tree has no such file", screen.Line(name)); err != nil {
				return "", err
			}
			continue
		}
		if err != nil {
			return "", err
		}
		to := filepath.Join(tmp, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return "", stateError(to, err)
		}
		if err := os.WriteFile(to, b, 0o644); err != nil {
			return "", stateError(to, err)
		}
	}
	if err := os.Rename(tmp, dir); err != nil {
		return "", stateError(dir, err)
	}
	return dir, nil
}

// readCopy reads one regular file that lies within from, through no link that leads out of it. What the agent is
// given and what is masked are both read by it.
func readCopy(from *os.Root, name string) ([]byte, error) {
	refuse := func(message string) error {
		return &sallyport.Error{Op: "copy files in", Code: sallyport.CodeInvalid, Subject: path.Clean(name), Message: message, Hint: "change copy: or --copy"}
	}
	fi, err := from.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, refuse("is no regular file")
	}
	in, err := from.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0) // what took its place must not make anybody wait
	if err != nil {
		return nil, err
	}
	defer in.Close()
	fi, err = in.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		return nil, refuse("is no regular file")
	}
	var b []byte
	if err == nil {
		b, err = io.ReadAll(io.LimitReader(in, maxCopy+1))
	}
	if err != nil {
		return nil, &sallyport.Error{Op: "copy files in", Code: sallyport.CodeUnavailable, Subject: path.Clean(name), Err: err}
	}
	if len(b) > maxCopy {
		return nil, refuse(fmt.Sprintf("is larger than %d bytes", maxCopy))
	}
	return b, nil
}
