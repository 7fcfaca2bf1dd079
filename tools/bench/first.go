package main

import (
	"context"
	"fmt"
	"time"
)

// first: how long a person looks at nothing.
func (b *bench) first(ctx context.Context) error {
	heading("5. First output of sallyport run on 50,000 files (warm base cache)")
	repo, err := b.repository(ctx, 50000)
	if err != nil {
		return err
	}
	n := 0
	line := contender{name: "first line on the screen", once: func(ctx context.Context) (time.Duration, error) {
		n++
		return firstByte(ctx, b.sallyport(ctx, repo, "run", "--name", fmt.Sprintf("line-%d", n), "--", "true"), "\n", true)
	}}
	said := b.untilAgent("the agent's first byte", repo)
	all, err := race(ctx, min(b.rounds, 9), 25*time.Second, line, said)
	if err != nil {
		return err
	}
	show(all, line, said)
	absolute("first line on the screen", all[line.name], 300*time.Millisecond)
	absolute("the agent's first byte", all[said.name], 300*time.Millisecond)
	return nil
}
