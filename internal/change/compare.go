package change

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

// comparison is of a cached folder with its manifest, beside what is already done with the folder.
type comparison struct {
	stop  func()
	begin func()        // repeat: nothing
	read  chan struct{} // closed once m is there, or err says why it is not
	m     *manifest
	done  chan struct{}
	err   error // once done
}

// grace is how long a comparison lets what stands on the folder start: beside a start, one thread that looks at 50,000 files
// makes it slower on two processors (`scripts/bench.sh -only worktree`), and nobody needs its end before the agent's.
const grace = 60 * time.Millisecond

// compare begins after grace, or as soon as somebody waits. record is the open manifest, which is read beside all else too,
// and closed. damaged is called before the comparison ends, if there is a difference or the manifest is none.
func compare(root string, record *os.File, damaged func()) *comparison {
	ctx, stop := context.WithCancel(context.Background())
	needed := make(chan struct{})
	c := &comparison{stop: stop, begin: sync.OnceFunc(func() { close(needed) }), read: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(c.done)
		select {
		case <-needed:
		case <-time.After(grace):
		case <-ctx.Done():
		}
		c.m, c.err = takeIn(record)
		close(c.read)
		if c.err == nil {
			c.err = c.m.verify(ctx, root)
		}
		if sallyport.CodeOf(c.err) == sallyport.CodeCorrupt {
			damaged()
		}
	}()
	return c
}

// manifest waits until it has been read. CodeCorrupt: it is damaged.
func (c *comparison) manifest() (*manifest, error) {
	c.begin()
	<-c.read
	if c.m == nil {
		<-c.done
		return nil, c.err
	}
	return c.m, nil
}

// wait is how the comparison ended, which it hurries on. An end of ctx is an error and does not end it.
func (c *comparison) wait(ctx context.Context) error {
	c.begin()
	return c.watch(ctx)
}

// watch is wait by somebody who is in no hurry.
func (c *comparison) watch(ctx context.Context) error {
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
	top, err := openFolder(ctx, unix.AT_FDCWD, root)
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
			if at, err = openFolder(ctx, top, dir); err != nil {
				return differs(dir, err)
			}
			in = dir
		}
		var st unix.Stat_t
		err := patiently(ctx, func() error { return unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
		if err != nil || statOf(&st, m.anyCtime) != want {
			return differs(path.Join(dir, name), err)
		}
		return nil
	})
}

func openFolder(ctx context.Context, at int, name string) (fd int, err error) {
	err = patiently(ctx, func() error {
		fd, err = unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return err
	})
	return fd, err
}

// lacking is what a machine answers that has no descriptor or no memory to look with: of the folder it says nothing.
var lacking = []error{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EINTR}

func lacks(err error) bool {
	return slices.ContainsFunc(lacking, func(l error) bool { return errors.Is(err, l) })
}

// How long, and how often, a look is repeated that the machine lacks something for.
const (
	lackPatience = 30 * time.Second
	lackPause    = 10 * time.Millisecond
)

// patiently looks until the machine can. CodeUnavailable: not for too long, or until ctx was done.
func patiently(ctx context.Context, look func() error) error {
	var began time.Time
	for {
		err := look()
		if !lacks(err) {
			return err
		}
		if began.IsZero() {
			began = time.Now()
		}
		if time.Since(began) > lackPatience || ctx.Err() != nil {
			return &sallyport.Error{Op: "compare checkout", Code: sallyport.CodeUnavailable, Message: "this machine has nothing left to look with", Err: err}
		}
		time.Sleep(lackPause)
	}
}

// differs is CodeCorrupt, unless nobody could look.
func differs(path string, err error) error {
	if sallyport.CodeOf(err) == sallyport.CodeUnavailable {
		return err
	}
	return &sallyport.Error{Op: "compare checkout", Code: sallyport.CodeCorrupt, Subject: fmt.Sprintf("%+q", path), Message: "is not as it was written", Err: err}
}
