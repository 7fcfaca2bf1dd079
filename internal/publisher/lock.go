package publisher

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

// unusedFor is how long what nothing uses stays. A mirror is only a cache, and a lock that nobody has is only a name.
const unusedFor = 30 * 24 * time.Hour

// lease waits until no other Publisher works for this scope. The kernel gives it back when its holder is gone.
func (p *Publisher) lease(ctx context.Context, s Scope) (release func(), err error) {
	return p.lock(ctx, s.Target+"\x00"+string(s.WorkOrder))
}

// lock waits for what only one Publisher may do at once.
func (p *Publisher) lock(ctx context.Context, what string) (release func(), err error) {
	path := p.lockPath(what)
	for {
		f, err := tryLock(path)
		if err != nil {
			return nil, unavailable("take the lease", err)
		}
		if f != nil {
			now := p.options.Now()
			_ = os.Chtimes(path, now, now) // collect goes by it, and never takes one that somebody has
			return func() { f.Close() }, nil
		}
		select {
		case <-ctx.Done():
			return nil, &sallyport.Error{Op: "take the lease", Code: sallyport.CodeUnavailable, Message: "another Publisher works there", Err: ctx.Err()}
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (p *Publisher) lockPath(what string) string {
	return filepath.Join(p.config.State, "locks", sallyport.Sum([]byte(what)).Hex()[:32])
}

// tryLock takes the lock that is at path. nil: somebody else has it.
func tryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		// It may have been removed since it was opened: then whoever comes next makes another one, and has that.
		var mine, there os.FileInfo
		mine, err = f.Stat()
		if there, _ = os.Stat(path); err == nil && os.SameFile(mine, there) {
			return f, nil
		}
	}
	f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		err = nil
	}
	return nil, err
}

// collect removes the mirrors and locks that nothing has used for long, and what a killed Publisher left beside them. What
// cannot be removed now can be another time: it is in nobody's way, so nothing is said.
func (p *Publisher) collect() {
	for _, path := range p.inState("mirrors") {
		p.drop(p.lockPath(mirrorLock(strings.TrimPrefix(filepath.Base(path), newMirror))), path)
	}
	for _, path := range p.inState("locks") {
		p.drop(path, path)
	}
}

func (p *Publisher) inState(folder string) (paths []string) {
	entries, _ := os.ReadDir(filepath.Join(p.config.State, folder))
	for _, e := range entries {
		paths = append(paths, filepath.Join(p.config.State, folder, e.Name()))
	}
	return paths
}

// drop removes what is at path, if nothing has used it for long and its lock can be had.
func (p *Publisher) drop(lock, path string) {
	if !p.unused(path) {
		return
	}
	f, err := tryLock(lock)
	if err != nil || f == nil {
		return
	}
	defer f.Close()
	if p.unused(path) { // still: somebody may have had it meanwhile
		_ = os.RemoveAll(path)
	}
}

func (p *Publisher) unused(path string) bool {
	fi, err := os.Lstat(path)
	return err == nil && p.options.Now().Sub(fi.ModTime()) > unusedFor
}
