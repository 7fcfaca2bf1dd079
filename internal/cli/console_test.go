package cli

import (
	"io"
	"sync"
)

// fakeConsole is a terminal of pipes that remembers its mode.
type fakeConsole struct {
	out     *lockedBuffer
	keys    chan []byte
	resized chan struct{}

	mu    sync.Mutex
	raw   int // how often entered
	inRaw bool
}

func newConsole() *fakeConsole {
	return &fakeConsole{out: &lockedBuffer{}, keys: make(chan []byte, 16), resized: make(chan struct{}, 1)}
}

func (c *fakeConsole) Raw() (func(), error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw++
	c.inRaw = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.inRaw = false
	}, nil
}

func (c *fakeConsole) mode() (entered int, now bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.raw, c.inRaw
}

func (c *fakeConsole) Size() (int, int)                   { return 100, 40 }
func (c *fakeConsole) Resized() (<-chan struct{}, func()) { return c.resized, func() {} }
func (c *fakeConsole) Output() io.Writer                  { return c.out }

func (c *fakeConsole) Input() (io.ReadCloser, error) {
	return &fakeKeys{c: c, closed: make(chan struct{})}, nil
}

type fakeKeys struct {
	c      *fakeConsole
	once   sync.Once
	closed chan struct{}
}

func (k *fakeKeys) Read(p []byte) (int, error) {
	select {
	case b := <-k.c.keys:
		return copy(p, b), nil
	case <-k.closed:
		return 0, io.EOF
	}
}

func (k *fakeKeys) Close() error {
	k.once.Do(func() { close(k.closed) })
	return nil
}
