//go:build amd64

package crash_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/internal/testkit"
	"sallyport.dev/sallyport/test/crash/fault"
	"sallyport.dev/sallyport/test/world"
)

var (
	update = flag.Bool("update", false, "rewrite testdata/effects.golden")
	whole  = flag.Bool("matrix", false, "all of the crash matrix, and its table in docs/RELIABILITY.md")
	only   = flag.String("points", "", "only the points of the crash matrix with this text")
)

// scene is a job that is disturbed, and how one is judged afterwards.
type scene struct {
	name    string
	parties []fault.Party
	prepare func(t *testing.T) *world.World
	args    func(w *world.World, p fault.Party) []string
	judge   func(w *world.World, c *trial)
}

// trial is one cell of the matrix: at one point of a job, one thing happens.
type trial struct {
	*scene
	fault.Stop
	n      int // its number
	result fault.Result
	said   string // by the command line
	end    string // how it ended, in a few words
}

func (c *trial) String() string {
	return fmt.Sprintf("%s: %s, at the %d. time: %s", c.name, c.Point, c.Time, c.Column)
}

// watched runs a scene's command line and looks at one kind of process.
func (s *scene) watched(w *world.World, p fault.Party, stop *fault.Stop) (fault.Result, string) {
	w.T.Helper()
	said, err := os.Create(filepath.Join(w.Dir, "said"))
	w.Must(err)
	defer said.Close()
	cmd := w.Verb(s.args(w, p)...)
	cmd.Stdout, cmd.Stderr = said, said
	o := fault.Options{Party: p, Symbols: fault.ReadSymbols(testkit.Symbols(w.T)), Stop: stop, Words: &fault.Words{Roots: []fault.Root{
		{Path: w.State, Name: "state"}, {Path: w.Repo, Name: "repo"}, {Path: w.Home, Name: "home"}, {Path: w.Dir, Name: "world"}}}}
	type end struct {
		r   fault.Result
		err error
	}
	ended := make(chan end, 1)
	go func() {
		r, err := fault.Run(cmd, o)
		ended <- end{r, err}
	}()
	const patience = 100 * time.Second
	var e end
	select {
	case e = <-ended:
	case <-time.After(patience):
		w.T.Errorf("it did not end within %v\n%s", patience, w.Story())
		for _, p := range w.Processes() {
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
		e = <-ended
	}
	w.Must(e.err)
	b, err := os.ReadFile(said.Name())
	w.Must(err)
	return e.r, string(b)
}

// mainJob is the agent that is checked and becomes a branch.
var mainJob = &scene{
	name:    "a branch",
	parties: []fault.Party{fault.Command, fault.Driver, fault.Keeper, fault.Runner},
	prepare: newWorld,
	args: func(w *world.World, p fault.Party) []string {
		args := []string{"run", "--name", "job", "-m", "make it right"}
		if p != fault.Command {
			args = append(args, "-d")
		}
		return append(args, "--", "sh", "-c", agent)
	},
	judge: judgeMainJob,
}

var scenes = []*scene{mainJob}

// TestMatrix has each party come to each of its effects, and be killed before it and after it, or be told that it failed, whether
// it did or not. The effects are those that a run of the program shows; testdata/effects.golden lists them, and a run with another
// one fails. The whole takes long: `make crash`. Without -matrix some are tried, others each day.
func TestMatrix(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("missing capability: only root can trace a keeper")
	}
	began := time.Now()
	trials := record(t)
	if *only != "" {
		trials = slices.DeleteFunc(trials, func(c *trial) bool { return !strings.Contains(c.String(), *only) })
	} else if !*whole {
		trials = slice(t, trials)
	}
	t.Logf("recorded in %v; %d trials", time.Since(began).Round(time.Second), len(trials))
	t.Run("trials", func(t *testing.T) {
		for _, c := range trials {
			t.Run(fmt.Sprintf("%04d", c.n), func(t *testing.T) {
				t.Parallel()
				c.try(t)
			})
		}
	})
	report(t, trials, time.Since(began))
}

// slice is what is tried each time: some of each party, others each day.
func slice(t *testing.T, all []*trial) (some []*trial) {
	const n = 48
	day := time.Now().UTC().YearDay()
	step := max(1, len(all)/n)
	t.Logf("day %d of the year: each %d. of %d", day, step, len(all))
	for i := day % step; i < len(all); i += step {
		some = append(some, all[i])
	}
	return some
}

// try is one trial.
func (c *trial) try(t *testing.T) {
	c.end = "FAILED"
	w := c.prepare(t)
	defer func() {
		if t.Failed() {
			t.Logf("%v\nit was %q, the call had answered %d; the command line ended with %d and said\n%s", c, c.result.Args, c.result.Answer, c.result.Code, c.said)
		}
	}()
	c.result, c.said = c.watched(w, c.Point.Party, &c.Stop)
	if !c.result.Hit {
		c.end = "not come to"
	}
	c.judge(w, c)
	if t.Failed() {
		c.end = "FAILED"
	}
}

// record runs each scene undisturbed, holds what it sees to the list of effects, and makes the trials.
func record(t *testing.T) (trials []*trial) {
	var mu sync.Mutex
	seen := map[string]bool{}
	t.Run("record", func(t *testing.T) {
		for _, s := range scenes {
			for _, p := range s.parties {
				t.Run(s.name+" "+string(p), func(t *testing.T) {
					t.Parallel()
					w := s.prepare(t)
					r, said := s.watched(w, p, nil)
					if r.Code != 0 {
						t.Fatalf("exit %d\n%s", r.Code, said)
					}
					if id := w.Created(); p != fault.Command {
						awaitEnd(w, id)
						accepted(w, id)
					}
					mu.Lock()
					defer mu.Unlock()
					for point, n := range r.Seen {
						seen[point.String()] = true
						trials = append(trials, s.trials(point, *n)...)
					}
				})
			}
		}
	})
	slices.SortFunc(trials, func(a, b *trial) int { return strings.Compare(a.String(), b.String()) })
	for i, c := range trials {
		c.n = i
	}
	golden(t, seen)
	return trials
}

// golden holds the effects that were seen to the list of them.
func golden(t *testing.T, seen map[string]bool) {
	t.Helper()
	const path = "testdata/effects.golden"
	known := map[string]bool{}
	b, err := os.ReadFile(path)
	if err != nil && !*update {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		known[strings.TrimSuffix(line, "\n")] = true
	}
	for _, line := range sorted(seen) {
		if !known[line] && !*update {
			t.Errorf("a new effect, which %s does not have (`go test ./test/crash -run TestMatrix -update` adds it, after thought):\n%s", path, line)
		}
		known[line] = true
	}
	if *update {
		if err := os.WriteFile(path, []byte(strings.Join(sorted(known), "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func sorted(m map[string]bool) (all []string) {
	for k := range m {
		if k != "" {
			all = append(all, k)
		}
	}
	slices.Sort(all)
	return all
}

// trials are those of a point: each column at the first time, and where it is come to more often, one at the last.
func (s *scene) trials(p fault.Point, n fault.Seen) (all []*trial) {
	if n.First == 0 {
		return nil // it only ever failed
	}
	add := func(time int, columns ...fault.Column) {
		for _, c := range columns {
			all = append(all, &trial{scene: s, Stop: fault.Stop{Point: p, Time: time, Column: c}})
		}
	}
	switch {
	case p.Call == "start":
		add(n.First, fault.Before, fault.After, fault.Refused) // the kernel does not start a process and say that it did not
	case isCommit(p):
		for i := n.First; i <= n.Last; i++ {
			add(i, fault.Columns...)
		}
		return all
	default:
		add(n.First, fault.Columns...)
	}
	if n.Last > n.First {
		add(n.Last, fault.Before)
	}
	return all
}

// isCommit: the write that makes events of the journal durable. Each of them is another step.
func isCommit(p fault.Point) bool {
	return p.Call == "fsync" && p.Function() == "journal/sqlite.committer.finish" && p.On == "state/journal.db-wal"
}

// judgeMainJob: a killed driver or command line is as if nothing had been; without its sandbox, or told that something failed,
// an Attempt may end in another way, and says why.
func judgeMainJob(w *world.World, c *trial) {
	w.T.Helper()
	if !c.result.Hit {
		if id := w.Created(); id != "" {
			awaitEnd(w, id)
			accepted(w, id)
		}
		return
	}
	if len(w.List()) == 0 { // of the command line's
		if c.Point.Party != fault.Command {
			w.T.Errorf("there is no attempt")
			return
		}
		if !c.Column.Kills() && (c.result.Code == 0 || c.said == "") {
			w.T.Errorf("exit %d, and nothing was begun", c.result.Code)
		}
		tidy(w)
		again(w)
		c.end = "nothing begun"
		return
	}
	id := w.Created()
	if c.Column.Kills() && (c.Point.Party == fault.Driver || c.Point.Party == fault.Command) {
		pickUp(w, c.n, id)
		accepted(w, id)
		c.end = "accepted"
		return
	}
	rep, code := w.Wait(id)
	awaitEnd(w, id)
	if rep.State == sallyport.AttemptAccepted && code == 0 {
		accepted(w, id)
		c.end = "accepted"
		return
	}
	c.end = fmt.Sprintf("%s (%s)", rep.State, rep.Reason.Code)
	endedWell(w, id, rep, code)
	again(w)
}

// endedWell judges an Attempt that could not be completed: it says why, and nothing of it is lost or left.
func endedWell(w *world.World, id sallyport.AttemptID, rep sallyport.Report, code int) {
	w.T.Helper()
	if rep.Reason.Code == "" || rep.Reason.Message == "" {
		w.T.Errorf("%s, exit %d, and no reason: %+v", rep.State, code, rep.Reason)
	}
	if !slices.Contains([]int{10, 20, 30, 40}, code) {
		w.T.Errorf("exit %d, %s: %+v\n%s", code, rep.State, rep.Reason, w.Story())
	}
	if refs := w.Git("for-each-ref", "refs/heads/sallyport/"); refs != "" {
		w.T.Errorf("a branch of what was not published: %s", refs)
	}
	if w.Count(lifecycle.AttemptBundle, "", id) > 0 && len(rep.Changes) == 0 && rep.State != sallyport.AttemptFailed {
		w.T.Errorf("what was collected is not in the report\n%s", w.Story())
	}
	tidy(w)
}

// again: what went wrong once has spoiled nothing for the next one.
func again(w *world.World) {
	w.T.Helper()
	r := w.Sallyport("run", "--name", "again", "--json", "--", "sh", "-c", agent)
	if rep := r.Report(); r.Code != 0 || rep.State != sallyport.AttemptAccepted {
		w.T.Errorf("the next run: exit %d, %s %+v\n%s", r.Code, rep.State, rep.Reason, w.Story())
	}
	tidy(w)
}

// report tells how the trials ended.
func report(t *testing.T, trials []*trial, took time.Duration) {
	count := map[string]int{}
	for _, c := range trials {
		count[fmt.Sprintf("%-10s %-9s %s", c.Point.Party, c.Column, c.end)]++
	}
	var lines []string
	for k, n := range count {
		lines = append(lines, fmt.Sprintf("%s: %d", k, n))
	}
	slices.Sort(lines)
	t.Logf("%d trials in %v\n%s", len(trials), took.Round(time.Second), strings.Join(lines, "\n"))
}
