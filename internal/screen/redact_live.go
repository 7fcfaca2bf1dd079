package screen

import (
	"errors"
	"sync"
	"time"
)

// quietTime is how long a stream must be quiet before a person is shown what is held back of its end.
const quietTime = 50 * time.Millisecond

// live releases a stage's end once its stream is quiet.
type live struct {
	mu     sync.Mutex
	s      *stage
	timer  *time.Timer
	closed bool
	err    error // of a release: the next Write or Close tells it
}

func newLive(s *stage) *live {
	l := &live{s: s}
	l.timer = time.AfterFunc(quietTime, l.quiet)
	return l
}

func (l *live) quiet() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed && l.err == nil {
		l.err = l.s.release()
	}
}

func (l *live) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return 0, l.err
	}
	l.timer.Reset(quietTime)
	return l.s.Write(p)
}

func (l *live) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.timer.Stop()
	return errors.Join(l.err, l.s.Close())
}
