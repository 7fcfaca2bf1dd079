package cli

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"sallyport.dev/sallyport/internal/screen"
)

// Console is the user's terminal. OpenConsole makes the real one.
type Console interface {
	// Raw switches to raw mode; the result switches back and may be called again.
	Raw() (restore func(), err error)
	Size() (cols, rows int)
	// Resized tells when Size has changed, until stop.
	Resized() (events <-chan struct{}, stop func())
	// Input is a fresh reader of keys. Closing it ends a Read that waits, so that it takes no key of a later
	// reader.
	Input() (io.ReadCloser, error)
	Output() io.Writer
}

// restorer remembers how the terminal is brought back: every way out of the program passes it.
type restorer struct {
	mu sync.Mutex
	f  func()
}

func (r *restorer) set(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.f = f
}

// restore acts once per set.
func (r *restorer) restore() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.f != nil {
		r.f()
		r.f = nil
	}
}

// errDetached ends a session by the user's detach keys.
var errDetached = errors.New("detached")

// session lends the user's terminal to f, filtered, until f returns. Whatever happens the terminal is in its
// old mode and reset afterwards, before anything of ours is written. With keys the detach keys end it with
// errDetached.
func (a *app) session(ctx context.Context, keys bool, f func(context.Context, Terminal) error) error {
	in, err := a.Console.Input()
	if err != nil {
		return err
	}
	defer in.Close()
	restore, err := a.Console.Raw()
	if err != nil {
		return err
	}
	out := &touched{w: a.Console.Output()}
	a.terminal.set(func() {
		restore()
		if out.used.Load() { // else there is nothing to reset, and the cursor may stay where it is
			_, _ = io.WriteString(a.Console.Output(), screen.Reset)
		}
	})
	defer a.terminal.restore()
	resized, stop := a.Console.Resized()
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t := Terminal{In: in, Out: screen.NewTerminalFilter(out), Size: a.Console.Size, Resized: resized}
	if keys {
		t.In = &detachReader{r: in, detach: func() { cancel(errDetached) }}
	}
	err = f(ctx, t)
	if cause := context.Cause(ctx); errors.Is(cause, errDetached) {
		return errDetached
	}
	return err
}

// touched remembers whether anything was written.
type touched struct {
	w    io.Writer
	used atomic.Bool
}

func (t *touched) Write(p []byte) (int, error) {
	t.used.Store(true)
	return t.w.Write(p)
}
