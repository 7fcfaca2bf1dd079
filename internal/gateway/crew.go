package gateway

import "sync"

// crew counts who is at work, so that Close can wait for them and nobody begins after it.
type crew struct {
	mu     sync.Mutex
	n      int
	closed chan struct{} // nil: open
	gone   bool
}

// enter reports whether work may begin; then leave must follow.
func (c *crew) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed != nil {
		return false
	}
	c.n++
	return true
}

func (c *crew) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n--
	c.settle()
}

// close lets nobody in any more; the channel is closed when nobody is inside.
func (c *crew) close() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed == nil {
		c.closed = make(chan struct{})
	}
	c.settle()
	return c.closed
}

func (c *crew) settle() {
	if c.closed != nil && c.n == 0 && !c.gone {
		c.gone = true
		close(c.closed)
	}
}
