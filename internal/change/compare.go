package change

import (
	"context"
	"fmt"
	"path"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

// comparison is of a cached folder with its manifest, beside what is already done with the folder.
type comparison struct {
	stop func()
	done chan struct{}
	err  error // once done
}

// compare begins. damaged is called before the comparison ends, if there is a difference.
func (m *manifest) compare(root string, damaged func()) *comparison {
	ctx, stop := context.WithCancel(context.Background())
	c := &comparison{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		if c.err = m.verify(ctx, root); sallyport.CodeOf(c.err) == sallyport.CodeCorrupt {
			damaged()
		}
	}()
	return c
}

// wait is how the comparison ended. An end of ctx is an error and does not end it.
func (c *comparison) wait(ctx context.Context) error {
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end stops it and returns once it touches nothing any more.
func (c *comparison) end() {
	c.stop()
	<-c.done
}

// verify compares root with the manifest, until ctx is done. CodeCorrupt names the first difference.
//
// One thread, as a sandbox is being started beside it; each folder is opened once, and its names are looked up
// in it and not by their whole paths.
func (m *manifest) verify(ctx context.Context, root string) error {
	top, err := openFolder(unix.AT_FDCWD, root)
	if err != nil {
		return differs(".", err)
	}
	defer unix.Close(top)
	at, in := -1, ""
	defer func() { unix.Close(at) }()
	return m.each(func(dir, name string, want fileStat) error {
		if at < 0 || dir != in {
			if err := ctx.Err(); err != nil {
				return err
			}
			unix.Close(at)
			if at, err = openFolder(top, dir); err != nil {
				return differs(dir, err)
			}
			in = dir
		}
		var st unix.Stat_t
		if err := unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil || statOf(&st, m.anyCtime) != want {
			return differs(path.Join(dir, name), err)
		}
		return nil
	})
}

func openFolder(at int, name string) (int, error) {
	return unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

func differs(path string, err error) error {
	return &sallyport.Error{Op: "compare checkout", Code: sallyport.CodeCorrupt, Subject: fmt.Sprintf("%+q", path), Message: "is not as it was written", Err: err}
}
