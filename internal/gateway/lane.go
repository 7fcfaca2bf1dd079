package gateway

import (
	"sync"
	"sync/atomic"
)

// A stream is carried in few large steps: on two busy processors much of what a relay costs is waking and being woken
// (`scripts/bench.sh -only egress`, with other sizes here). Most connections never have so much to read at once, so a lane
// is narrow until it is full.
const (
	narrow   = 64 << 10
	wide     = 4 << 20
	maxWides = 4 // of all connections together
)

var (
	narrows    = sync.Pool{New: func() any { b := make([]byte, narrow); return &b }}
	wides      = sync.Pool{New: func() any { b := make([]byte, wide); return &b }}
	widesInUse atomic.Int32
)

// lane is the buffer of one direction of a tunnel. What one sandbox sent is never sent to another: a tunnel passes on no
// more than it has just read. The zero value is ready, for one goroutine.
type lane struct {
	held  *[]byte
	wide  bool
	light int // reads in a row for which a narrow buffer had done
}

// maxLight is the patience with a wide lane that carries little.
const maxLight = 16

// buffer is valid until the next call or leave. last is how much the last read brought.
func (l *lane) buffer(last int) []byte {
	switch {
	case l.held == nil:
		l.held = narrows.Get().(*[]byte)
	case !l.wide && last == narrow:
		if widesInUse.Add(1) > maxWides {
			widesInUse.Add(-1)
			break
		}
		l.leave()
		l.held, l.wide = wides.Get().(*[]byte), true
	case l.wide && last > narrow:
		l.light = 0
	case l.wide:
		if l.light++; l.light >= maxLight {
			l.leave()
			l.held = narrows.Get().(*[]byte)
		}
	}
	return *l.held
}

// leave gives the buffer back. Repeat: nothing.
func (l *lane) leave() {
	switch {
	case l.held == nil:
	case l.wide:
		wides.Put(l.held)
		widesInUse.Add(-1)
	default:
		narrows.Put(l.held)
	}
	*l = lane{}
}
