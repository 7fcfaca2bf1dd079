package change

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

// A machine that lacks descriptors for a moment has not seen any damage.
func TestCompareWithoutDescriptors(t *testing.T) {
	f := newFixture(t, SHA1, sampleFiles)
	c := f.checkout(CheckoutOptions{Tree: f.head().Tree})
	defer c.Release()
	record := filepath.Join(filepath.Dir(c.Files), "manifest")
	m, err := os.Open(record)
	if err != nil {
		t.Fatal(err)
	}
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	comparing := compare(c.Files, m, func() { os.Remove(record) })
	ctx, cancel := context.WithTimeout(bg, 50*time.Millisecond)
	defer cancel()
	early := comparing.wait(ctx)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(early, context.DeadlineExceeded) {
		t.Errorf("it came to an end without a descriptor: %v", early)
	}
	if err := comparing.wait(bg); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(record); err != nil {
		t.Errorf("the entry is known as damaged: %v", err)
	}
}

// Nor does one that lacks them take an entry in use for one that is gone.
func TestReopenWithoutDescriptors(t *testing.T) {
	f := newFixture(t, SHA1, sampleFiles)
	c := f.checkout(CheckoutOptions{Tree: f.head().Tree})
	c.Release()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &old) })
	again, err := f.store.Reopen(c.Files, "")
	if err != nil {
		t.Fatal(err)
	}
	defer again.Release()
	if err := again.Verified(bg); err != nil {
		t.Error(err)
	}
}

// It is not waited for ever, nor once nobody wants to know; what else is answered is told at once.
func TestPatiently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, no := range lacking {
			began := time.Now()
			if err := patiently(bg, func() error { return no }); sallyport.CodeOf(err) != sallyport.CodeUnavailable || !errors.Is(err, no) || time.Since(began) < lackPatience {
				t.Errorf("%v: %v after %v", no, err, time.Since(began))
			}
		}
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		began := time.Now()
		if err := patiently(ctx, func() error { return unix.EMFILE }); sallyport.CodeOf(differs("x", err)) != sallyport.CodeUnavailable || time.Since(began) > 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		for _, no := range []error{unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EIO, unix.EACCES} {
			if err := patiently(bg, func() error { return no }); err != no || sallyport.CodeOf(differs("x", err)) != sallyport.CodeCorrupt {
				t.Errorf("%v: %v", no, err)
			}
		}
	})
}

// What nobody could look at is not taken for what nobody uses, be it whole, half-built or half-removed.
func TestEvictWithoutDescriptors(t *testing.T) {
	f := newFixture(t, SHA1, sampleFiles)
	var kept []string
	for _, name := range []string{"files-x.1", "new-1", "trash-1"} {
		path := filepath.Join(f.store.cacheDir(), name)
		// A lock that answers with an error of its own to whoever opens it, root included.
		if err := errors.Join(os.Mkdir(path, 0o700), os.Symlink("lock", filepath.Join(path, "lock"))); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(-time.Hour)
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
		kept = append(kept, path)
	}
	if _, err := f.store.Evict(bg, -1); err != nil {
		t.Fatal(err)
	}
	for _, path := range kept {
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
		if err := os.Remove(filepath.Join(path, "lock")); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(-time.Hour)
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.store.Evict(bg, -1); err != nil {
		t.Fatal(err)
	}
	for _, path := range kept {
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("%s is left without a lock: %v", path, err)
		}
	}
}
