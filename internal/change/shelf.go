package change

import (
	"sync"
	"time"
)

// shelf keeps one idle reader of objects for the next who needs one: an Attempt reads at ten places, one
// after the other, and starting git and parsing the base's trees costs more than most of the reads. git looks
// again for packs when it misses an object, so a reader also sees what was written after it was started.
// The zero value is ready for use, and nothing need be closed: what is not used again soon is ended.
type shelf struct {
	mu    sync.Mutex
	idle  *objects
	timer *time.Timer
}

// shelfLife is how long a reader waits: longer than the pauses between the steps of an Attempt without an
// agent, and too short for anybody to wonder what git is running for.
const shelfLife = time.Second

// take returns the idle reader; nil: none.
func (s *shelf) take() *objects {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.idle
	s.idle = nil
	if o != nil {
		s.timer.Stop()
	}
	return o
}

// put keeps o unless another is kept already.
func (s *shelf) put(o *objects) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idle != nil {
		return false
	}
	s.idle = o
	s.timer = time.AfterFunc(shelfLife, func() { s.drop(o) })
	return true
}

// drop ends o if it still waits.
func (s *shelf) drop(o *objects) {
	s.mu.Lock()
	mine := s.idle == o
	if mine {
		s.idle = nil
	}
	s.mu.Unlock()
	if mine {
		o.end()
	}
}
