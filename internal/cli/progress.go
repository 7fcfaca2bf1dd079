package cli

import (
	"bytes"
	"context"
	"io"
	"sync"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/screen"
)

// progress is what a person sees while something goes on: screen.Stages behind a gate, which keeps our lines
// back while the terminal belongs to the agent.
type progress struct {
	*screen.Stages
	gate *gate
	stop context.CancelFunc
	done chan struct{}
}

// startProgress begins at began. attempt may be empty: `sallyport logs` then means the newest.
func startProgress(w io.Writer, began time.Time, attempt string) *progress {
	p := &progress{gate: &gate{w: w}, done: make(chan struct{})}
	first := true // Stages asks for its beginning first, and later only under its lock
	p.Stages = screen.NewStages(p.gate, func() time.Time {
		if first {
			first = false
			return began
		}
		return time.Now()
	}, attempt)
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	go p.tick(ctx)
	return p
}

func (p *progress) tick(ctx context.Context) {
	defer close(p.done)
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if !p.gate.held() { // a heartbeat behind the gate would only pile up
				p.Tick()
			}
		}
	}
}

// Close writes what is left. Again: nothing.
func (p *progress) Close() {
	p.stop()
	<-p.done
	p.gate.release()
	_ = p.Stages.Close()
}

// stageWords say what goes on, in a form that "still …" can stand before. States that are ends have none: the
// result page speaks of them.
func stageWords(s sallyport.AttemptState) string {
	switch s {
	case sallyport.AttemptQueued:
		return "waiting for a driver"
	case sallyport.AttemptPreparing:
		return "preparing the sandbox"
	case sallyport.AttemptRunning:
		return "running the agent"
	case sallyport.AttemptCollecting:
		return "collecting the result"
	case sallyport.AttemptInspecting:
		return "inspecting the change"
	case sallyport.AttemptValidating:
		return "checking the change in a fresh sandbox"
	case sallyport.AttemptDeciding:
		return "signing and deciding"
	}
	return ""
}

// maxHeld bounds what waits behind the gate; more is dropped, oldest kept.
const maxHeld = 64 << 10

// gate is a writer that can be held.
type gate struct {
	w io.Writer

	mu   sync.Mutex
	shut bool
	buf  bytes.Buffer
}

func (g *gate) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.shut {
		return g.w.Write(p)
	}
	if g.buf.Len()+len(p) <= maxHeld {
		g.buf.Write(p)
	}
	return len(p), nil
}

func (g *gate) hold() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
}

func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = false
	_, _ = g.buf.WriteTo(g.w)
}

func (g *gate) held() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shut
}
