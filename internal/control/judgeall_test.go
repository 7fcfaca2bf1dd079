package control

import (
	"context"
	"testing"
	"time"

	"sallyport.dev/sallyport"
)

// TestJudgeAllEndsWithItsContext: a driver that was fenced between two checks ends, and does not wait for one that
// nobody starts.
func TestJudgeAllEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	stopped := make(chan struct{})
	close(stopped)
	for range 50 {
		d := &driver{cancelled: stopped}
		done := make(chan error, 1)
		go func() { done <- d.judgeAll(ctx, []sallyport.Check{{Name: "a"}, {Name: "b"}}, nil) }()
		select {
		case err := <-done:
			if err == nil {
				t.Fatal("no error")
			}
		case <-time.After(5 * time.Second):
			t.Fatal("it waits for a check that was never started")
		}
	}
}
