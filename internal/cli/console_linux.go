package cli

import (
	"io"
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"sallyport.dev/sallyport"
)

// OpenConsole is the terminal behind in and out; nil unless both are one.
func OpenConsole(in, out *os.File) Console {
	if !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())) {
		return nil
	}
	return &console{in: in, out: out}
}

type console struct{ in, out *os.File }

func (c *console) Output() io.Writer { return c.out }

func (c *console) Raw() (func(), error) {
	old, err := term.MakeRaw(int(c.in.Fd()))
	if err != nil {
		return nil, &sallyport.Error{Op: "terminal", Code: sallyport.CodeUnavailable, Message: "the terminal's mode cannot be changed", Err: err}
	}
	return func() { _ = term.Restore(int(c.in.Fd()), old) }, nil
}

func (c *console) Size() (cols, rows int) {
	cols, rows, err := term.GetSize(int(c.out.Fd()))
	if err != nil || cols <= 0 || rows <= 0 {
		return 80, 24
	}
	return cols, rows
}

func (c *console) Resized() (<-chan struct{}, func()) {
	sig, out, quit := make(chan os.Signal, 1), make(chan struct{}, 1), make(chan struct{})
	signal.Notify(sig, unix.SIGWINCH)
	go func() {
		for {
			select {
			case <-quit:
				return
			case <-sig:
				select {
				case out <- struct{}{}:
				default: // one is waiting already, and Size is read when it is taken
				}
			}
		}
	}()
	var once sync.Once
	return out, func() { once.Do(func() { signal.Stop(sig); close(quit) }) }
}

// Input polls before it reads: a descriptor shared with the shell must not be made non-blocking, and a
// blocked read could not be taken back.
func (c *console) Input() (io.ReadCloser, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, &sallyport.Error{Op: "terminal", Code: sallyport.CodeUnavailable, Message: "no pipe", Err: err}
	}
	return &keys{fd: int(c.in.Fd()), wait: p[0], wake: p[1]}, nil
}

type keys struct {
	fd, wait, wake int

	mu     sync.Mutex // held by a Read, which Close waits for before it closes wait
	wakeMu sync.Mutex
	closed bool
}

func (k *keys) Read(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.wait < 0 {
		return 0, io.EOF
	}
	for {
		fds := []unix.PollFd{{Fd: int32(k.fd), Events: unix.POLLIN}, {Fd: int32(k.wait), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err == unix.EINTR {
			continue
		} else if err != nil {
			return 0, err
		}
		if fds[1].Revents != 0 {
			return 0, io.EOF
		}
		n, err := unix.Read(k.fd, p)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		}
		return n, nil
	}
}

// Close ends a waiting Read. Again: nil.
func (k *keys) Close() error {
	k.wakeMu.Lock()
	defer k.wakeMu.Unlock()
	if k.closed {
		return nil
	}
	k.closed = true
	_ = unix.Close(k.wake) // the other end now reads "hung up"
	k.mu.Lock()
	defer k.mu.Unlock()
	err := unix.Close(k.wait)
	k.wait = -1
	return err
}
