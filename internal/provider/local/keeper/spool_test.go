package keeper

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func newTestSpool(t interface {
	TempDir() string
	Fatal(...any)
}, limit int64) *spool {
	f, err := os.Create(filepath.Join(t.TempDir(), "output"))
	if err != nil {
		t.Fatal(err)
	}
	return newSpool(f, 0, limit)
}

// However it is written, the spool keeps exactly the first limit bytes, counts the rest, and a reader from any
// offset gets the same bytes.
func TestSpoolKeepsAPrefix(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		limit := rapid.Int64Range(0, 200).Draw(r, "limit")
		s := newTestSpool(t, limit)
		defer s.f.Close()
		var all []byte
		for _, p := range rapid.SliceOf(rapid.SliceOfN(rapid.Byte(), 0, 50)).Draw(r, "writes") {
			if n, err := s.Write(p); n != len(p) || err != nil {
				r.Fatalf("Write: %d, %v", n, err)
			}
			all = append(all, p...)
		}
		kept := all[:min(int64(len(all)), limit)]
		size, dropped := s.finish()
		if size != int64(len(kept)) || dropped != int64(len(all)-len(kept)) {
			r.Fatalf("kept %d, dropped %d of %d with a limit of %d", size, dropped, len(all), limit)
		}
		from := rapid.IntRange(0, len(kept)).Draw(r, "from")
		var out bytes.Buffer
		next, err := s.copy(context.Background(), int64(from), &out)
		if err != nil || next != size || !bytes.Equal(out.Bytes(), kept[from:]) {
			r.Fatalf("from %d: next %d, %d bytes, %v", from, next, out.Len(), err)
		}
	})
}

func TestSpoolReadersFollowTheWriter(t *testing.T) {
	s := newTestSpool(t, 1<<20)
	var want []byte
	for i := range 2000 {
		want = append(want, byte(i), byte(i>>8))
	}
	outs := make([]bytes.Buffer, 3)
	var wg sync.WaitGroup
	for i := range outs {
		wg.Go(func() {
			if n, err := s.copy(context.Background(), 0, &outs[i]); err != nil || n != int64(len(want)) {
				t.Errorf("reader %d: %d, %v", i, n, err)
			}
		})
	}
	for i := 0; i < len(want); i += 2 {
		if _, err := s.Write(want[i : i+2]); err != nil {
			t.Fatal(err)
		}
	}
	s.finish()
	wg.Wait()
	for i := range outs {
		if !bytes.Equal(outs[i].Bytes(), want) {
			t.Errorf("reader %d got %d of %d bytes", i, outs[i].Len(), len(want))
		}
	}
}

func TestSpoolReaderEndsWithItsContext(t *testing.T) {
	s := newTestSpool(t, 100)
	_, _ = s.Write([]byte("abc"))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	var out bytes.Buffer
	if n, err := s.copy(ctx, 0, &out); !errors.Is(err, context.DeadlineExceeded) || n != 3 || out.String() != "abc" {
		t.Errorf("%d, %v, %q", n, err, out.String())
	}
}

// A disk that takes nothing never fails the command: its output counts as dropped.
func TestSpoolOnAFullDisk(t *testing.T) {
	f, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := newSpool(f, 0, 100)
	if n, err := s.Write([]byte("hello")); n != 5 || err != nil {
		t.Errorf("Write: %d, %v", n, err)
	}
	if size, dropped := s.finish(); size != 0 || dropped != 5 {
		t.Errorf("size %d, dropped %d", size, dropped)
	}
	if n, err := s.copy(t.Context(), 0, io.Discard); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

func used(t *testing.T, dir string, limit int64) int64 {
	t.Helper()
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	var n int64
	walkUsage(d, 0, limit, &n)
	return n
}

func TestUsageCountsBlocksAndFollowsNothing(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	write := func(path string, size int) {
		t.Helper()
		if err := os.WriteFile(path, make([]byte, size), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(outside+"/big", 8<<20)
	empty := used(t, dir, 1<<40)
	if err := errors.Join(os.Symlink(outside, dir+"/link"), os.Mkdir(dir+"/sub", 0o755)); err != nil {
		t.Fatal(err)
	}
	write(dir+"/sub/file", 1<<20)
	hole, err := os.Create(dir + "/hole")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(hole.Truncate(1<<40), hole.Close()); err != nil {
		t.Fatal(err)
	}
	if n := used(t, dir, 1<<40) - empty; n < 1<<20 || n > 1<<20+64<<10 {
		t.Errorf("counted %d for a file of %d", n, 1<<20)
	}
	if n := used(t, dir, 1<<10); n <= 1<<10 {
		t.Errorf("counted %d with a limit of %d", n, 1<<10)
	}
}
