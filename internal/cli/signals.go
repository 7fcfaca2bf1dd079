package cli

import (
	"context"
	"os"
	"sync"
	"syscall"
)

// signals hands each signal to whoever can act on it now: a verb that follows an Attempt, else the default,
// which ends the verb.
type signals struct {
	now    chan int // exit at once with this code
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	handler func(os.Signal) // nil: the default
	count   int
	lent    bool // the terminal's interrupts are another program's
}

func newSignals(cancel context.CancelCauseFunc) *signals {
	return &signals{now: make(chan int, 1), cancel: cancel}
}

// listen delivers until stopped. A nil channel delivers nothing.
func (s *signals) listen(c <-chan os.Signal) (stop func()) {
	quit := make(chan struct{})
	go func() {
		for {
			select {
			case <-quit:
				return
			case sig := <-c:
				s.deliver(sig)
			}
		}
	}()
	return func() { close(quit) }
}

func (s *signals) deliver(sig os.Signal) {
	s.mu.Lock()
	lent := s.lent && sig == syscall.SIGINT
	if sig != syscall.SIGHUP && !lent {
		s.count++
	}
	handler, count := s.handler, s.count
	s.mu.Unlock()
	if lent {
		return
	}
	switch {
	case count > 1:
		s.exit(signalCode(sig))
	case handler != nil:
		handler(sig)
	default:
		s.cancel(&exitError{code: signalCode(sig)})
	}
}

// exit ends the program at once.
func (s *signals) exit(code int) {
	select {
	case s.now <- code:
	default: // somebody was faster
	}
}

// take makes f the handler of the first signal until release.
func (s *signals) take(f func(os.Signal)) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handler = f
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.handler = nil
	}
}

// lend leaves Ctrl-C to a program that has the terminal, until release.
func (s *signals) lend() (release func()) {
	set := func(lent bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lent = lent
	}
	set(true)
	return func() { set(false) }
}
