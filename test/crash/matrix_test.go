//go:build amd64

package crash_test

import (
	"crypto/sha256"
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
	update  = flag.Bool("update", false, "rewrite testdata/effects.golden")
	whole   = flag.Bool("matrix", false, "all of the crash matrix, and its table in docs/RELIABILITY.md")
	results = flag.String("results", "", "a file for the results of the crash matrix: what is in it is not tried again")
	only    = flag.String("points", "", "only the points of the crash matrix with this text")
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
	n       int // its number
	began   time.Time
	seconds float64
	result  fault.Result
	said    string // by the command line
	end     string // how it ended, in a few words
}

func (c *trial) String() string {
	return fmt.Sprintf("%s: %s, at the %d. time: %s", c.name, c.Point, c.Time, c.Column)
}

var read sync.Once
var known *fault.Symbols

// symbols are read once.
func symbols(t *testing.T) *fault.Symbols {
	t.Helper()
	read.Do(func() { known = fault.ReadSymbols(testkit.Symbols(t)) })
	return known
}

// watched runs a scene's command line and looks at one kind of process.
func (s *scene) watched(w *world.World, p fault.Party, stop *fault.Stop) (fault.Result, string) {
	w.T.Helper()
	said, err := os.Create(filepath.Join(w.Dir, "said"))
	w.Must(err)
	defer said.Close()
	cmd := w.Verb(s.args(w, p)...)
	cmd.Stdout, cmd.Stderr = said, said
	o := fault.Options{Party: p, Symbols: symbols(w.T), Stop: stop, Words: &fault.Words{Roots: []fault.Root{
		{Path: w.State, Name: "state"}, {Path: w.Repo, Name: "repo"}, {Path: filepath.Join(w.Home, ".config", "sallyport", "publisher"), Name: "publisher"}, {Path: w.Home, Name: "home"}, {Path: w.Dir, Name: "world"}}}}
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

// TestMatrix has each party come to each of its effects, and be killed before it and after it, or be told that it failed, whether
// it did or not. The effects are those that a run of the program shows; testdata/effects.golden lists them, and a run with another
// one fails. The whole takes long: `make crash`. Without -matrix some are tried.
func TestMatrix(t *testing.T) {
	able(t)
	began := time.Now()
	if programs, symbols := filepath.Base(testkit.Programs(t)), filepath.Base(testkit.Symbols(t)); programs+"-symbols" != symbols {
		t.Fatalf("the sources were edited meanwhile: %s, %s", programs, symbols)
	}
	every := record(t)
	trials := slices.Clone(every)
	if *only != "" {
		trials = slices.DeleteFunc(trials, func(c *trial) bool { return !strings.Contains(c.String(), *only) })
	} else if !*whole {
		trials = slice(t, trials)
	}
	if *results != "" {
		have := kept(t)
		trials = slices.DeleteFunc(trials, func(c *trial) bool {
			r, ok := have[c.record().key()]
			return ok && r.End != "FAILED"
		})
	}
	t.Logf("recorded in %v; %d trials", time.Since(began).Round(time.Second), len(trials))
	next := make(chan *trial)
	go func() {
		defer close(next)
		for _, c := range trials {
			next <- c
		}
	}()
	t.Run("trials", func(t *testing.T) {
		for i := range 4 { // parallel tests would not come in this order
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				for c := range next {
					t.Run(fmt.Sprintf("%04d", c.n), c.try)
				}
			})
		}
	})
	report(t, every, trials, time.Since(began))
}

// TestColumns: each column does what it says, at one call. Told that a folder could not be made, the program looks, and finds it.
func TestColumns(t *testing.T) {
	able(t)
	s := &scene{args: func(*world.World, fault.Party) []string { return []string{"ps"} }}
	for column, want := range map[fault.Column]struct {
		made bool
		code int
	}{fault.Before: {false, -1}, fault.After: {true, -1}, fault.Lost: {true, 0}, fault.Refused: {false, 1}} {
		w := world.New(t)
		r, said := s.watched(w, fault.Command, &fault.Stop{Point: fault.Point{Party: fault.Command, By: "control.Open", Call: "mkdir", On: "state/manifests"}, Time: 1, Column: column})
		_, err := os.Stat(filepath.Join(w.State, "manifests"))
		if !r.Hit || (err == nil) != want.made || r.Code != want.code || want.code == 1 && !strings.Contains(said, "manifests") {
			t.Errorf("%s: come to %v, made %v, exit %d\n%s", column, r.Hit, err == nil, r.Code, said)
		}
	}
}

// able skips a test where nothing can be traced.
func able(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("missing capability: only root can trace a keeper")
	}
	if err := fault.Able(); err != nil {
		t.Skipf("missing capability: tracing (ptrace): %v", err)
	}
}

// onceFailed are points of which a trial has failed: each of theirs is always tried.
var onceFailed = []fault.Point{
	{Party: fault.Command, Call: "fsync", On: "state/attempts/att_ID", By: "control.syncFolder < control.Control.summarise"},
	{Party: fault.Command, Call: "create", On: "state/attempts/att_ID/driver.log", By: "control.Control.StartDriver"},
	{Party: fault.Driver, Call: "fsync", On: "state/local/.proof.jsonN", By: "provider/local.Provider.proved"},
	{Party: fault.Driver, Call: "write", On: "a socket", By: "publication.writeJSON"},
	{Party: fault.Driver, Call: "rename", On: "state/attempts/att_ID/layers/…", By: "control.driver.layer"},
	{Party: fault.Keeper, Call: "write", On: "state/local/allocations/alc_ID/output", By: "provider/local/keeper.spool.Write"},
}

// slice is what is tried without -matrix: what once failed, and some of each party.
func slice(t *testing.T, all []*trial) (some []*trial) {
	const n = 24
	step := max(1, len(all)/n)
	t.Logf("each %d. of %d", step, len(all))
	for i, c := range all {
		if i%step == 0 || slices.Contains(onceFailed, c.Point) {
			some = append(some, c)
		}
	}
	return some
}

// try is one trial.
func (c *trial) try(t *testing.T) {
	c.end, c.began = "FAILED", time.Now()
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
	c.seconds = time.Since(c.began).Seconds()
	t.Logf("%v: %s", c, c.end)
	c.keep(t)
}

// record runs each scene undisturbed, holds what it sees to the list of effects, and makes the trials.
func record(t *testing.T) (trials []*trial) {
	t.Run("first", func(t *testing.T) { // from now on all know what limits are worth here
		w := coldWorld(t, right)
		id := start(w, agent)
		awaitEnd(w, id)
		accepted(w, id)
	})
	var mu sync.Mutex
	seen := map[string]bool{}
	first := map[fault.Point]int{} // the scene that shows it first
	type show struct {
		scene int
		seen  map[fault.Point]*fault.Seen
	}
	var shown []show
	t.Run("record", func(t *testing.T) {
		for i, s := range scenes {
			for _, p := range s.parties {
				if prefix := s.name + ": " + string(p) + "\t"; strings.Contains(*only, ": ") && !strings.HasPrefix(*only, prefix) {
					continue
				}
				t.Run(s.name+" "+string(p), func(t *testing.T) {
					t.Parallel()
					w := s.prepare(t)
					r, said := s.watched(w, p, nil)
					if r.Code != 0 {
						t.Fatalf("exit %d\n%s", r.Code, said)
					}
					s.judge(w, nil)
					mu.Lock()
					defer mu.Unlock()
					for point := range r.Seen {
						seen[point.String()] = true
						if first[point] == 0 || i+1 < first[point] {
							first[point] = i + 1
						}
					}
					shown = append(shown, show{i, r.Seen})
				})
			}
		}
	})
	for _, x := range shown {
		for point, n := range x.seen {
			if first[point] == x.scene+1 {
				trials = append(trials, scenes[x.scene].trials(point, *n)...)
			}
		}
	}
	// Mixed, but the same each time, and one of each point before the second of any: so a part of them is of all kinds.
	order := func(c *trial) string { h := sha256.Sum256([]byte(c.String())); return string(h[:]) }
	slices.SortFunc(trials, func(a, b *trial) int { return strings.Compare(order(a), order(b)) })
	round := map[*trial]int{}
	of := map[string]int{}
	for _, c := range trials {
		key := c.Point.String()
		if isCommit(c.Point) {
			key += fmt.Sprint(c.Time)
		}
		round[c] = of[key]
		of[key]++
	}
	slices.SortStableFunc(trials, func(a, b *trial) int { return round[a] - round[b] })
	for i, c := range trials {
		c.n = i
	}
	golden(t, seen)
	return trials
}

// golden holds the effects that were seen to the list of them. A function that makes a call it was never seen to make is a
// new effect; the same call on something else may be what a slow machine shows once in a while, and is only said.
func golden(t *testing.T, seen map[string]bool) {
	t.Helper()
	const path = "testdata/effects.golden"
	known := map[string]bool{}
	b, err := os.ReadFile(path)
	if err != nil && !*update {
		t.Fatal(err)
	}
	calls := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSuffix(line, "\n")
		known[line], calls[callOf(line)] = true, true
	}
	for _, line := range sorted(seen) {
		switch {
		case known[line] || *update:
		case calls[callOf(line)]:
			t.Logf("on something that %s does not have: %s", path, line)
		default:
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

// callOf is a line of the list without what the call was made on.
func callOf(line string) string {
	party, rest, _ := strings.Cut(line, "\t")
	call, rest, _ := strings.Cut(rest, "\t")
	_, function, _ := strings.Cut(rest, "\t")
	return party + " " + call + " " + function
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
	case p.Party == fault.Runner:
		add(n.First, fault.Before, fault.Refused) // it is within a sandbox of its own, which goes with it
		return all
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

// isCommit: what makes events of the journal or the ledger durable, and requests to a forge. Each of them is another step.
func isCommit(p fault.Point) bool {
	return p.Call == "fsync" && (p.Function() == "journal/sqlite.committer.finish" || p.Function() == "publisher.Ledger.Append") && strings.HasSuffix(p.On, ".db-wal") ||
		p.Party == fault.Publisher && p.Call == "write" && p.On == "a socket" && strings.HasPrefix(p.By, "net/http.")
}

// judgeMainJob: a killed driver or command line is as if nothing had been; without its sandbox, or told that something failed,
// an Attempt may end in another way, and says why.
func judgeMainJob(w *world.World, c *trial) {
	w.T.Helper()
	if c == nil || !c.result.Hit {
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
		if c.end = "accepted"; !c.Column.Kills() && rep.Agent.Dropped > 0 { // and it says so
			c.end = "accepted, without what the agent said"
			acceptedSaying(w, id, 0)
			return
		}
		accepted(w, id)
		return
	}
	c.end = fmt.Sprintf("%s (%s)", rep.State, rep.Reason.Code)
	w.T.Logf("%+v", rep.Reason)
	if code == 130 && strings.Contains(rep.Reason.Message, "its driver was not started") {
		cancelledWell(w, id, false) // by the command line
	} else {
		endedWell(w, id, rep, code)
	}
	again(w)
}

// endedWell judges an Attempt that could not be completed: it says why, and nothing of it is lost or left.
func endedWell(w *world.World, id sallyport.AttemptID, rep sallyport.Report, code int) {
	w.T.Helper()
	if rep.Reason.Code == "" || rep.Reason.Message == "" {
		w.T.Errorf("%s, exit %d, and no reason: %+v", rep.State, code, rep.Reason)
	}
	if rep.Reason.Code == "internal" && !strings.Contains(rep.Reason.Message, "journal.db") {
		w.T.Errorf("a reason that is nobody's: %+v", rep.Reason)
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
	script := agent
	if _, err := os.Stat(w.Path(".gitignore")); err == nil && strings.Contains(w.Read("sallyport.yaml"), "setup:") {
		script = setupAgent
	}
	r := w.Sallyport("run", "--name", "again", "--json", "--", "sh", "-c", script)
	if rep := r.Report(); r.Code != 0 || rep.State != sallyport.AttemptAccepted {
		w.T.Errorf("the next run: exit %d, %s %+v\n%s", r.Code, rep.State, rep.Reason, w.Story())
	}
	tidy(w)
}

// TestTracedAndKilledByAnother: what a tracer has just seen may be gone when it looks closer.
func TestTracedAndKilledByAnother(t *testing.T) {
	able(t)
	w := world.New(t)
	w.Sallyport("ps").Want(0)
	for i := range 300 {
		cmd := w.Verb("ps")
		ended := make(chan error, 1)
		go func() {
			_, err := fault.Run(cmd, fault.Options{Party: fault.Command, Symbols: symbols(t), Words: &fault.Words{}})
			ended <- err
		}()
		w.Await("the program", func() bool { return len(ended) > 0 || len(w.Processes()) > 0 })
		time.Sleep(time.Duration(i%100) * 500 * time.Microsecond)
		for _, p := range w.Processes() {
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
		select {
		case err := <-ended:
			w.Must(err)
		case <-time.After(30 * time.Second):
			t.Fatalf("the tracer waits for ever, the %d. time", i+1)
		}
	}
}
