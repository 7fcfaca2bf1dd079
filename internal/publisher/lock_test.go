package publisher

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// long is a moment at which nothing has been used for long.
func long() time.Time { return time.Now().Add(unusedFor + time.Hour) }

// Removing a lock's file gives it to nobody who does not have it: one that was opened before is no lock any more.
func TestLockWhileItIsCollected(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "locks"), 0o700); err != nil {
		t.Fatal(err)
	}
	p := &Publisher{config: Config{State: dir}, options: Options{Now: time.Now}}
	q := &Publisher{config: Config{State: dir}, options: Options{Now: long}}
	var inside, collected atomic.Int64
	var holders, collector sync.WaitGroup
	stop := make(chan struct{})
	collector.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			q.collect()
			if len(q.inState("locks")) == 0 {
				collected.Add(1)
			}
		}
	})
	for range 4 {
		holders.Go(func() {
			for range 60 {
				release, err := p.lock(t.Context(), "it")
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d have it", n)
				}
				time.Sleep(100 * time.Microsecond)
				inside.Add(-1)
				release()
			}
		})
	}
	holders.Wait()
	close(stop)
	collector.Wait()
	if collected.Load() == 0 {
		t.Error("nothing was ever collected")
	}
}

// TestUnusedIsCollected: a mirror that nothing used for long goes, with its lock and with what a killed Publisher left; one
// that somebody uses stays, and so does what was used lately.
func TestUnusedIsCollected(t *testing.T) {
	s, p, _ := folderStage(t, Options{})
	s.receipt(p, s.accept("one\n", nil))
	mirrors := p.inState("mirrors")
	if len(mirrors) != 1 {
		t.Fatal(mirrors)
	}
	mirror := mirrors[0]
	left := filepath.Join(filepath.Dir(mirror), "new-3141592653") // as they were named once
	if err := os.Mkdir(left, 0o700); err != nil {
		t.Fatal(err)
	}
	p.collect()
	if have := p.inState("mirrors"); len(have) != 2 {
		t.Errorf("what was used just now is gone: %q", have)
	}
	release, err := p.lock(t.Context(), mirrorLock(filepath.Base(mirror)))
	if err != nil {
		t.Fatal(err)
	}
	p.options.Now = long
	p.collect()
	p.collect() // the lock of the old name is one that nobody has
	if have := p.inState("mirrors"); !slices.Equal(have, mirrors) {
		t.Errorf("with the mirror in use: %q", have)
	}
	release()
	p.collect()
	if have := slices.Concat(p.inState("mirrors"), p.inState("locks")); len(have) != 0 {
		t.Errorf("left: %q", have)
	}
	p.options.Now = time.Now
	// The next publication makes what it needs, and nothing is in its way that one before it left half made.
	left = filepath.Join(filepath.Dir(mirror), newMirror+filepath.Base(mirror))
	if err := os.MkdirAll(filepath.Join(left, "HEAD"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.receipt(p, s.accept("two\n", nil))
	if have := p.inState("mirrors"); !slices.Equal(have, mirrors) {
		t.Errorf("%q, expected %q", have, mirrors)
	}
}

// A publication uses its mirror and collects what others left.
func TestPublicationCollects(t *testing.T) {
	s, p, _ := folderStage(t, Options{})
	s.receipt(p, s.accept("one\n", nil))
	mirrors := p.inState("mirrors")
	other := filepath.Join(filepath.Dir(mirrors[0]), "00000000000000000000000000000000")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-unusedFor - time.Hour)
	for _, path := range slices.Concat([]string{mirrors[0], other}, p.inState("locks")) {
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	s.receipt(p, s.accept("two\n", nil))
	if have := p.inState("mirrors"); !slices.Equal(have, mirrors) {
		t.Errorf("%q, expected %q", have, mirrors)
	}
}
