package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"time"
)

// stages of an Attempt in their order.
var stages = []string{"queued", "preparing", "running", "collecting", "inspecting", "validating", "deciding"}

// attempt: everything around an agent that does next to nothing.
func (b *bench) attempt(ctx context.Context) error {
	heading("4. A whole Attempt on 5,000 files, by stage (sallyport run --json; warm base cache)")
	repo, err := b.repository(ctx, 5000)
	if err != nil {
		return err
	}
	noop := b.attempts("the agent changes nothing", repo, "true")
	edit := b.attempts("the agent edits one file, no checks", repo, "echo more >> part00/dir000/file00.txt")
	cs := []contender{noop.contender, edit.contender}
	all, err := race(ctx, b.rounds, 50*time.Second, cs...)
	if err != nil {
		return err
	}
	for _, a := range []*attempts{noop, edit} {
		show(all, a.contender)
		a.show()
	}
	absolute("no-op agent: Attempt, created to ended", noop.attempt[1:], 250*time.Millisecond)
	absolute("one edited file: Attempt, created to ended", edit.attempt[1:], 250*time.Millisecond)
	return nil
}

// attempts are runs of one agent.
type attempts struct {
	contender
	stages  map[string]times
	attempt times // sum of the stages
}

func (b *bench) attempts(name, repo, script string) *attempts {
	a := &attempts{stages: map[string]times{}}
	n := 0
	a.contender = contender{name: name + ": whole program", once: func(ctx context.Context) (time.Duration, error) {
		n++
		cmd := b.sallyport(ctx, repo, "run", "--json", "--name", fmt.Sprintf("%s-%d", map[bool]string{true: "noop", false: "edit"}[script == "true"], n), "--", "sh", "-c", script)
		return a.once1(cmd)
	}}
	return a
}

func (a *attempts) once1(cmd *exec.Cmd) (time.Duration, error) {
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	began := time.Now()
	err := cmd.Run()
	took := time.Since(began)
	// 10: awaiting approval, as no check is defined; 20: rejected, as nothing was changed.
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !slices.Contains([]int{10, 20}, exit.ExitCode()) {
		return 0, fmt.Errorf("%v\n%s", err, log.Bytes())
	}
	var report struct {
		Timings map[string]float64 `json:"timings"`
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		return 0, err
	}
	var sum time.Duration
	for stage, seconds := range report.Timings {
		d := time.Duration(seconds * float64(time.Second))
		a.stages[stage] = append(a.stages[stage], d)
		sum += d
	}
	a.attempt = append(a.attempt, sum)
	return took, nil
}

func (a *attempts) show() {
	for _, s := range stages {
		if t := a.stages[s]; len(t) > 1 {
			fmt.Printf("  %-58s %s\n", "   "+s, t[1:])
		}
	}
	fmt.Printf("  %-58s %s\n", "   the Attempt, created to ended", a.attempt[1:])
}
