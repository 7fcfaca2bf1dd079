package credential

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"sallyport.dev/sallyport"
)

// The lock of the npm package proper-lockfile, which Claude Code 2.1.197 uses with these times: a folder that exists
// while it is held, whose time its holder renews. One that was not renewed for toolStale is nobody's.
const (
	toolStale = 10 * time.Second
	toolRenew = 3 * time.Second
)

// toolLock makes the folder, as the tool would, and waits while somebody else renews it.
func toolLock(ctx context.Context, name, dir string) (release func(), err error) {
	fail := func(why string) (func(), error) {
		return nil, failure(sallyport.CodeUnavailable, name, fmt.Sprintf("cannot take the tool's lock %s: %s", dir, why), "wait until the tool has refreshed its login")
	}
	deadline := time.Now().Add(lockWait)
	for {
		err := os.Mkdir(dir, 0o755)
		if err == nil {
			return renewed(dir), nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return fail(err.Error())
		}
		fi, err := os.Lstat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return fail(err.Error())
		case !fi.IsDir():
			return fail("it is no folder")
		case time.Since(fi.ModTime()) > toolStale:
			if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fail(err.Error())
			}
			continue
		case time.Now().After(deadline):
			return fail("somebody holds it")
		}
		select {
		case <-ctx.Done():
			return fail("nobody waits any more")
		case <-time.After(lockEvery):
		}
	}
}

// renewed keeps the folder's time new until it is released.
func renewed(dir string) (release func()) {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		t := time.NewTicker(toolRenew)
		defer t.Stop()
		for {
			select {
			case <-stop:
				return
			case now := <-t.C:
				_ = os.Chtimes(dir, now, now) // where it is gone somebody took it for stale; ours ends soon
			}
		}
	})
	return func() {
		close(stop)
		wg.Wait()
		_ = os.Remove(dir)
	}
}
