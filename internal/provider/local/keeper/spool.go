package keeper

import (
	"context"
	"io"
	"os"
	"sync"
)

// spool is a command's output on disk: appended by one writer, read by offset by any holder, so that a cut
// connection loses nothing. It keeps at most limit bytes; the rest is counted and dropped.
type spool struct {
	f     *os.File
	limit int64

	mu      sync.Mutex
	size    int64
	dropped int64
	done    bool
	grown   chan struct{} // closed and replaced at each change
}

func newSpool(f *os.File, size, limit int64) *spool {
	return &spool{f: f, size: size, limit: limit, grown: make(chan struct{})}
}

// Write never fails the command for a full disk: what cannot be kept is counted as dropped.
func (s *spool) Write(p []byte) (int, error) {
	keep := p
	s.mu.Lock()
	room := s.limit - s.size
	s.mu.Unlock()
	if int64(len(keep)) > room {
		keep = keep[:max(room, 0)]
	}
	n := 0
	if len(keep) > 0 {
		n, _ = s.f.WriteAt(keep, s.size)
	}
	s.mu.Lock()
	s.size += int64(n)
	s.dropped += int64(len(p) - n)
	s.wake()
	s.mu.Unlock()
	return len(p), nil
}

func (s *spool) wake() { close(s.grown); s.grown = make(chan struct{}) }

// finish says that no more will come; the spool is synced.
func (s *spool) finish() (size, dropped int64) {
	_ = s.f.Sync()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.done {
		s.done = true
		s.wake()
	}
	return s.size, s.dropped
}

// copy sends everything from offset on as it grows, until finish or ctx.
func (s *spool) copy(ctx context.Context, offset int64, w io.Writer) (int64, error) {
	for {
		s.mu.Lock()
		size, done, grown := s.size, s.done, s.grown
		s.mu.Unlock()
		if offset < size {
			n, err := io.Copy(w, io.NewSectionReader(s.f, offset, size-offset))
			offset += n
			if err != nil {
				return offset, err
			}
			continue
		}
		if done {
			return offset, nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return offset, ctx.Err()
		}
	}
}
