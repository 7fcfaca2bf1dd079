package gateway

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"sallyport.dev/sallyport/internal/egress"
)

// tunnel carries bytes both ways until both sides are done, nothing moves, or a limit is met.
type tunnel struct {
	client, upstream io.ReadWriteCloser
	quota            *quota
	pace             pace

	up, down atomic.Int64
	mu       sync.Mutex
	why      egress.Reason // the limit that ended it
}

// run owns both ends and closes them. The Reason is the limit that ended it, "" if none did.
func (t *tunnel) run(live context.Context) egress.Reason {
	defer t.cut()
	defer t.watch()()
	defer time.AfterFunc(t.pace.total, t.cut).Stop()
	defer context.AfterFunc(live, t.cut)()
	done := make(chan struct{})
	go func() {
		t.copy(t.client, t.upstream, t.quota.takeDown, &t.down, ReasonDown)
		close(done)
	}()
	t.copy(t.upstream, t.client, t.quota.takeUp, &t.up, ReasonUp)
	<-done
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.why
}

// cut wakes whoever reads or writes.
func (t *tunnel) cut() {
	_ = t.client.Close()
	_ = t.upstream.Close()
}

// watch cuts a tunnel in which nothing moves. It looks now and then instead of setting a timer at each read, and errs by
// a quarter of the time to the patient side. Its result ends it.
func (t *tunnel) watch() (end func()) {
	every := t.pace.idle / 4
	var mu sync.Mutex
	var ended bool
	var still time.Duration
	last := t.up.Load() + t.down.Load()
	var timer *time.Timer
	look := func() {
		mu.Lock()
		defer mu.Unlock()
		if ended {
			return
		}
		if now := t.up.Load() + t.down.Load(); now != last {
			last, still = now, 0
		} else if still += every; still >= t.pace.idle {
			ended = true
			t.cut()
			return
		}
		timer.Reset(every)
	}
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(every, look)
	return func() {
		mu.Lock()
		defer mu.Unlock()
		ended = true
		timer.Stop()
	}
}

// copy hands an end on as an end and a break as a break: a reset must not look like the whole of an answer.
func (t *tunnel) copy(dst, src io.ReadWriteCloser, take func(int) int, moved *atomic.Int64, limit egress.Reason) {
	var l lane
	defer l.leave()
	for n := 0; ; {
		buf := l.buffer(n)
		var err error
		n, err = src.Read(buf)
		may := take(n)
		if may > 0 {
			if _, wErr := dst.Write(buf[:may]); wErr != nil {
				t.cut()
				return
			}
			moved.Add(int64(may))
		}
		switch {
		case may < n:
			t.spent(limit)
			return
		case err == io.EOF:
			t.finish(dst)
			return
		case err != nil:
			reset(dst)
			t.cut()
			return
		}
	}
}

func (t *tunnel) spent(limit egress.Reason) {
	t.mu.Lock()
	t.why = limit
	t.mu.Unlock()
	reset(t.client)
	reset(t.upstream)
	t.cut()
}

// finish says to dst that no more comes; what cannot be told so is closed.
func (t *tunnel) finish(dst io.ReadWriteCloser) {
	if half, ok := can[interface{ CloseWrite() error }](dst); ok && half.CloseWrite() == nil {
		return
	}
	t.cut()
}

// reset makes the coming Close send a reset instead of an end.
func reset(c any) {
	if tcp, ok := can[interface{ SetLinger(int) error }](c); ok {
		_ = tcp.SetLinger(0)
	}
}

// leave closes c so that what was written arrives: closing over unread bytes would make the kernel send a reset, which
// takes the refusal away before it is read.
func leave(c net.Conn) {
	defer c.Close()
	half, ok := can[interface{ CloseWrite() error }](c)
	if !ok || half.CloseWrite() != nil {
		return
	}
	_ = c.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
	_, _ = io.CopyN(io.Discard, c, 64<<10)
}
