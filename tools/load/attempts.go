package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"sallyport.dev/sallyport"
)

// attempt runs one to its end and says how long that took; anything but acceptance is an error.
func (w *world) attempt(ctx context.Context, name, script string) (time.Duration, error) {
	began := time.Now()
	said, err := output(w.sallyport(ctx, "run", "--json", "--name", name, "-m", "load", "--", "sh", "-c", script))
	if err != nil {
		return 0, err
	}
	var rep sallyport.Report
	if err := json.Unmarshal([]byte(said), &rep); err != nil {
		return 0, fmt.Errorf("%s: %w: %.500s", name, err, said)
	}
	if rep.Decision != sallyport.DecisionAccepted || rep.Branch != "sallyport/"+name {
		return 0, fmt.Errorf("%s: %s, branch %q: %.500s", name, rep.Decision, rep.Branch, said)
	}
	return time.Since(began), nil
}

// holds asks that each branch is there and holds its own file, and that the journal and what it names are whole.
func (w *world) holds(ctx context.Context, names []string) error {
	said, err := w.git(ctx, "for-each-ref", "--format=%(refname:short)", "refs/heads/sallyport/")
	if err != nil {
		return err
	}
	branches := strings.Fields(said)
	slices.Sort(branches)
	want := make([]string, len(names))
	for i, n := range names {
		want[i] = "sallyport/" + n
	}
	slices.Sort(want)
	if !slices.Equal(branches, want) {
		return fmt.Errorf("expected %d branches, found %d", len(want), len(branches))
	}
	for _, n := range names {
		if text, err := w.git(ctx, "cat-file", "-p", "sallyport/"+n+":"+n); err != nil || text != n {
			return errors.Join(fmt.Errorf("branch %s holds %q", n, text), err)
		}
	}
	if _, err := output(w.sallyport(ctx, "fsck")); err != nil {
		return err
	}
	factory, err := factoryOf(w.state)
	if err != nil {
		return err
	}
	return nothingLeft(w.state, factory)
}

// atOnce has all agents alive at one time: each sleeps until a file that the others cannot see says that it may go on,
// which is a time of day here.
func (l *load) atOnce(ctx context.Context) error {
	for _, n := range slices.Compact([]int{max(1, l.parallel/8), l.parallel}) {
		if err := l.some(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

func (l *load) some(ctx context.Context, n int) error {
	w, err := l.world(ctx, fmt.Sprintf("parallel-%d", n))
	if err != nil {
		return err
	}
	if _, err := w.attempt(ctx, "first", "echo first > first"); err != nil { // the proof of the limits, the cached checkout
		return err
	}
	names := []string{"first"}
	// Ample for two processors to start them: the whole of a run is about 0.4 s of one.
	until := time.Now().Add(5*time.Second + time.Duration(n)*600*time.Millisecond)
	began := time.Now()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		name := fmt.Sprintf("p%d", i)
		names = append(names, name)
		wg.Go(func() {
			_, errs[i] = w.attempt(ctx, name, fmt.Sprintf("while [ $(date +%%s) -lt %d ]; do sleep 1; done; echo %s > %s", until.Unix(), name, name))
		})
	}
	most, weights := l.watch(until, w.state)
	wg.Wait()
	took := time.Since(began)
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if most < n {
		return fmt.Errorf("only %d of %d sandboxes were seen at one time", most, n)
	}
	if err := w.holds(ctx, names); err != nil {
		return err
	}
	var parts []string
	var sum int64
	for _, k := range slices.Sorted(func(yield func(string) bool) {
		for k := range weights {
			if !yield(k) {
				return
			}
		}
	}) {
		sum += weights[k]
		parts = append(parts, fmt.Sprintf("%s %.1f", k, float64(weights[k])/1e6/float64(n)))
	}
	fmt.Printf("  %d Attempts at once, all accepted, nothing lost or left: %.0f s in all, %.1f s after the agents went on\n", n, took.Seconds(), time.Since(until).Seconds())
	fmt.Printf("  PSS per Attempt with all agents alive: %.1f MB (%s)\n", float64(sum)/1e6/float64(n), strings.Join(parts, ", "))
	return nil
}

// watch looks each second until then; it returns the most sandboxes seen at one time and what the processes of this
// state folder weighed then.
func (l *load) watch(until time.Time, state string) (most int, weights map[string]int64) {
	for time.Now().Before(until.Add(-time.Second)) {
		time.Sleep(time.Second)
		found, _ := filepath.Glob(filepath.Join(state, "local", "allocations", "*", "started.json"))
		if len(found) <= most {
			continue
		}
		most = len(found)
		ours := map[string]bool{}
		for _, f := range found {
			ours[filepath.Base(filepath.Dir(f))] = true
		}
		programs, _ := filepath.Abs(l.programs)
		weights = weigh(func(args []string) bool {
			return len(args) > 1 && ours[args[1]] || strings.HasPrefix(args[0], programs) || args[0] == "sallyport"
		})
	}
	return most, weights
}

// inARow measures how what stays grows, and whether an Attempt takes longer the more there were.
func (l *load) inARow(ctx context.Context) error {
	w, err := l.world(ctx, "row")
	if err != nil {
		return err
	}
	const steps = 10
	each := max(1, l.row/steps)
	var names []string
	fmt.Println("  attempts   ms each   ps ms   reconcile ms   mounts   cgroups   state files   state MB   journal MB")
	for range steps {
		var took []float64
		for range each {
			name := fmt.Sprintf("r%d", len(names))
			d, err := w.attempt(ctx, name, fmt.Sprintf("echo %s > %s", name, name))
			if err != nil {
				return err
			}
			names, took = append(names, name), append(took, float64(d.Milliseconds()))
		}
		var ms []float64
		for _, verb := range []string{"ps", "reconcile"} {
			began := time.Now()
			if _, err := output(w.sallyport(ctx, verb)); err != nil {
				return err
			}
			ms = append(ms, float64(time.Since(began).Milliseconds()))
		}
		files, bytes := size(w.state)
		_, journal := size(filepath.Join(w.state, "journal.db"))
		mounts, cgroups := counts()
		fmt.Printf("  %8d  %8.0f  %6.0f  %13.0f  %7d  %8d  %12d  %9.1f  %11.1f\n", len(names), median(took), ms[0], ms[1], mounts, cgroups, files, float64(bytes)/1e6, float64(journal)/1e6)
	}
	if err := w.holds(ctx, names); err != nil {
		return err
	}
	fmt.Println("  all accepted, nothing lost or left")
	return nil
}

// counts are the machine's mounts and cgroups.
func counts() (mounts, cgroups int) {
	if b, err := os.ReadFile("/proc/self/mountinfo"); err == nil {
		mounts = strings.Count(string(b), "\n")
	}
	_ = filepath.WalkDir("/sys/fs/cgroup", func(_ string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			cgroups++
		}
		return nil
	})
	return mounts, cgroups
}
