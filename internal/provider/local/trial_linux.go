package local

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

// A trial is a sandbox of the provider's own: the journal knows nothing of it, and its authority is the process
// that makes it, for as long as that lives. The folder trial-ALLOCATION says so: it is there before anything
// else of the trial, and its maker holds a lock on it.

const trialPrefix = "trial-"

func (p *Provider) trialFolder(a sallyport.AllocationID) string {
	return filepath.Join(p.cfg.Folder, trialPrefix+string(a))
}

// beginTrial makes and locks a trial's folder. end removes it.
func (p *Provider) beginTrial(a sallyport.AllocationID) (dir string, end func(), err error) {
	dir = p.trialFolder(a)
	for {
		if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
			return "", nil, stateError("trial", dir, err)
		}
		lock, err := tryLock(dir)
		if err != nil {
			return "", nil, err
		}
		if lock == nil {
			continue // swept between the two steps, or being swept
		}
		if isStill(lock, dir) {
			return dir, func() { os.RemoveAll(dir); lock.Close() }, nil
		}
		lock.Close()
	}
}

// tryLock locks a folder; nil: somebody else has it, or it is gone.
func tryLock(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, stateError("trial", dir, err)
	}
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		f.Close()
		return nil, nil
	}
	return f, nil
}

// onTrial reports whether a is a trial whose maker lives. One that cannot be looked at is taken for one.
func (p *Provider) onTrial(a sallyport.AllocationID) bool {
	dir := p.trialFolder(a)
	if _, err := os.Lstat(dir); err != nil {
		return false
	}
	lock, _ := tryLock(dir)
	if lock == nil {
		_, err := os.Lstat(dir)
		return err == nil
	}
	lock.Close()
	return false
}

// sweepTrials removes what makers that died have left.
func (p *Provider) sweepTrials(ctx context.Context) error {
	found, err := filepath.Glob(filepath.Join(p.cfg.Folder, trialPrefix+"*"))
	if err != nil {
		return err
	}
	for _, dir := range found {
		a := strings.TrimPrefix(filepath.Base(dir), trialPrefix)
		if sallyport.CheckID(sallyport.AllocationPrefix, a) != nil || p.onTrial(sallyport.AllocationID(a)) {
			continue
		}
		if err := p.Destroy(ctx, p.resource(sallyport.AllocationID(a))); err != nil {
			return err
		}
	}
	return nil
}
