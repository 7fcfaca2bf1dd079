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
		err := copyIn(from, name, filepath.Join(tmp, filepath.FromSlash(name)))
		if errors.Is(err, fs.ErrNotExist) {
			err = d.notice(ctx, "the agent was not given %s: your working tree has no such file", screen.Line(name))
		}
		if err != nil {
			return "", err
		}
	}
	return dir, os.Rename(tmp, dir)
}

// copyIn copies one regular file that lies within from, through no link that leads out of it.
func copyIn(from *os.Root, name, to string) error {
	refuse := func(message string) error {
		return &sallyport.Error{Op: "copy files in", Code: sallyport.CodeInvalid, Subject: path.Clean(name), Message: message, Hint: "change copy: or --copy"}
	}
	fi, err := from.Lstat(name)
	switch {
	case err != nil:
		return err
	case !fi.Mode().IsRegular():
		return refuse("is no regular file")
	case fi.Size() > maxCopy:
		return refuse(fmt.Sprintf("is larger than %d bytes", maxCopy))
	}
	in, err := from.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return stateError(to, err)
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return stateError(to, err)
	}
	_, err = io.Copy(out, io.LimitReader(in, maxCopy))
	if err := errors.Join(err, out.Close()); err != nil {
		return stateError(to, err)
	}
	return nil
}
