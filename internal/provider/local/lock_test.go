package local

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Whoever waits for a folder's lock while another removes the folder has locked what is nobody's any more: it makes
// the sandbox in a folder that bears the id, is locked, and is nobody else's to enter.
func TestCreateBesideRemove(t *testing.T) {
	b := newBench(t)
	spec, _ := b.spec("echo", "x")
	dir := b.folder(spec.Allocation)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := lockFolder(b.ctx(), dir)
	if err != nil {
		t.Fatal(err)
	}
	made := make(chan error, 1)
	go func() { _, err := b.Create(b.ctx(), spec); made <- err }()
	time.Sleep(100 * time.Millisecond) // until it waits
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-made:
		t.Fatalf("Create did not wait for the lock: %v", err)
	default:
	}
	lock.Close()
	if err := <-made; err != nil {
		t.Fatalf("Create: %v", err)
	}
	fi, err := os.Stat(dir)
	if err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("the folder: %v, %v", fi, err)
	}
	if lock, err = lockFolder(b.ctx(), dir); err != nil {
		t.Fatal(err)
	}
	lock.Close()
	if err := b.Destroy(b.ctx(), b.resource(spec.Allocation)); err != nil {
		t.Fatal(err)
	}
	if left := b.traces(spec.Allocation); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// A trial that finds no descriptor left says so; it does not try for ever.
func TestTrialWithoutDescriptors(t *testing.T) {
	b := newBench(t)
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	tried := make(chan error, 1)
	go func() { _, _, err := b.beginTrial("alc_1111111111111111111111111z"); tried <- err }()
	var err error
	select {
	case err = <-tried:
	case <-time.After(2 * time.Second):
	}
	if rerr := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); rerr != nil {
		t.Fatal(rerr)
	}
	if !errors.Is(err, unix.EMFILE) {
		t.Errorf("%v", err)
	}
	if err := b.sweepTrials(b.ctx()); err != nil {
		t.Error(err)
	}
}
