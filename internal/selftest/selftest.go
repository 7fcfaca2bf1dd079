// Package selftest attacks this host's configuration with the corpus: each case goes through the real main
// job, as the command line does it, in a place of its own, and is judged by what came of it.
//
// It is not a test of one room (those stand beside the rooms), and it decides nothing about anybody's work.
package selftest

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"sallyport.dev/sallyport/internal/corpus"
)

// Status is what came of an attack.
type Status string

// The statuses.
const (
	Held          Status = "held"           // it was made, and did not get through
	NotHeld       Status = "not-held"       // it got through, or nothing shows that it was made
	NotApplicable Status = "not-applicable" // this host does not have what it is about
)

// Outcome is what came of one case.
type Outcome struct {
	Name   string `json:"name"`
	Class  string `json:"class"`
	Status Status `json:"status"`
	Detail string `json:"detail"`
}

// Config is who attacks what.
type Config struct {
	Program string // sallyport itself
	Hostile string // the program that attacks inside (cmd/sallyport-hostile)
	Libexec string // where the other programs are
	Dir     string // below which a place is made; empty: the usual one for temporary files
	Cases   []corpus.Case
	Each    func(Outcome) // told as they end, one at a time
	Say     func(string)  // told what goes on
}

// most bounds how many cases run at once: each is several processes already.
const most = 4

// Run makes every case and returns what came of them, in the corpus's order. Nothing is left behind, also when ctx
// ends. CodeUnsupported: this host cannot run any.
func Run(ctx context.Context, c Config) (all []Outcome, err error) {
	if err := known(c.Cases); err != nil {
		return nil, err
	}
	c.Say("finding out what this host can hold")
	g, err := newGround(ctx, c)
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := g.close(context.WithoutCancel(ctx)); err == nil {
			err = e
		}
	}()
	if err := g.ready(ctx); err != nil {
		return nil, err
	}
	c.Say(fmt.Sprintf("making %d attacks", len(c.Cases)))
	all = make([]Outcome, len(c.Cases))
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, min(most, runtime.NumCPU()))
	for i, k := range c.Cases {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			status, detail := g.try(ctx, k)
			mu.Lock()
			defer mu.Unlock()
			all[i] = Outcome{k.Name, k.Class, status, detail}
			if ctx.Err() == nil {
				c.Each(all[i])
			}
		})
	}
	wg.Wait()
	return all, ctx.Err()
}

// try makes one case.
func (g *ground) try(ctx context.Context, k corpus.Case) (Status, string) {
	if k.Room != "" {
		return InRoom(k)
	}
	if why := g.lacks(ctx, k); why != "" {
		return NotApplicable, why
	}
	w, err := g.attack(ctx, k)
	if err != nil {
		return NotHeld, "the attack could not be made: " + err.Error()
	}
	if wrong := w.judge(k); wrong != "" {
		return NotHeld, wrong
	}
	return Held, w.summary()
}
