package control

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"

	"github.com/bmatcuk/doublestar/v4"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/checks"
	"sallyport.dev/sallyport/internal/inspect"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/internal/screen"
)

// validate runs each check in a fresh sandbox on the very tree that would be published, and where the change
// edits tests or runner configuration, also with the base's put back. As many at once as policy says; the
// journal has them in policy's order.
func (d *driver) validate(ctx context.Context) error {
	at, err := d.attempt(ctx)
	if err != nil {
		return err
	}
	if len(at.Imported.Changes) == 0 || inspect.Worst(at.Report.Findings) == sallyport.SeverityBlock {
		return nil // decided without running anything
	}
	if err := d.stage(ctx, sallyport.AttemptValidating); err != nil {
		return err
	}
	if err := d.setUpChange(ctx, at.Imported); err != nil {
		return err
	}
	done := map[string]bool{}
	for _, r := range at.Report.Checks {
		done[r.Name] = true
	}
	var todo []sallyport.Check
	for _, k := range d.m.Checks {
		if !done[k.Name] {
			todo = append(todo, k)
		}
	}
	return d.judgeAll(ctx, todo, at.Imported)
}

// judgeAll judges and records. The first error ends it; what was judged before it is recorded.
func (d *driver) judgeAll(ctx context.Context, todo []sallyport.Check, im *lifecycle.Imported) error {
	type judged struct {
		r   sallyport.CheckResult
		err error
	}
	answers := make([]chan judged, len(todo))
	for i := range answers {
		answers[i] = make(chan judged, 1)
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	slots := make(chan struct{}, max(d.m.Parallel, 1))
	wg.Go(func() {
		for i, k := range todo {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				for _, a := range answers[i:] { // whoever waits for them waits for nothing
					a <- judged{err: context.Cause(ctx)}
				}
				return
			}
			wg.Go(func() {
				defer func() { <-slots }()
				r, err := d.judgeOnce(ctx, k, im)
				answers[i] <- judged{r, err}
			})
		}
	})
	for i := range todo {
		a := <-answers[i]
		if a.err != nil {
			return a.err
		}
		if err := d.record(ctx, journal.Record{Type: lifecycle.AttemptCheck, Data: a.r}); err != nil {
			return err
		}
	}
	return nil
}

// judgeOnce is judge, or what an earlier Attempt's was on the very same. One that has to be run again and gives
// another answer than before is flaky, whichever Attempt it was that asked before.
func (d *driver) judgeOnce(ctx context.Context, k sallyport.Check, im *lifecycle.Imported) (sallyport.CheckResult, error) {
	if d.isCancelled() {
		return sallyport.CheckResult{}, errCancelled
	}
	before, err := d.known(ctx, k, im)
	if err != nil {
		return sallyport.CheckResult{}, err
	}
	if before != nil && before.reusable() {
		if before.Attempt != d.id { // else a driver that died before it could record it
			before.Result.Reused = before.Attempt
		}
		return before.Result, nil
	}
	r, err := d.judge(ctx, k, im)
	if d.isCancelled() && (err == nil || errors.Is(err, context.Canceled)) {
		return r, errCancelled // a check that was stopped says nothing of the change
	}
	if err != nil {
		return r, err
	}
	return d.remember(ctx, k, im, r)
}

// judge is everything observed of one check. Where a damaged checkout spoiled it, nothing was recorded, and it is
// observed anew on another.
func (d *driver) judge(ctx context.Context, k sallyport.Check, im *lifecycle.Imported) (r sallyport.CheckResult, err error) {
	for range 3 {
		if r, err = d.observe(ctx, k, im); err == nil || reasonOf(err).Code != checkoutDamaged {
			break
		}
	}
	return r, err
}

func (d *driver) observe(ctx context.Context, k sallyport.Check, im *lifecycle.Imported) (sallyport.CheckResult, error) {
	r := sallyport.CheckResult{Name: k.Name, Run: k.Run, Status: sallyport.CheckNotRun, Exit: -1, StatusBy: "keeper", Controls: []sallyport.Control{}}
	if !applies(k, im.Changes) {
		r.Message = "the change touches nothing that its when: names"
		return r, nil
	}
	base, err := d.onBase(ctx, k) // first: it also warms the caches
	if err != nil {
		return r, err
	}
	o, err := d.runAgain(ctx, k, im.Tree, &r)
	if err != nil {
		return r, err
	}
	r.BaseStatus, r.BaseTally = base.Status, base.Tally
	r.Trees = append(r.Trees, sallyport.Tried{For: "result", Tree: im.Tree})
	if r.Status == sallyport.CheckPassed && base.Tally != nil && base.Tally.Tests > 0 && o.Tally == nil {
		r.Status = sallyport.CheckFailed
		r.Message = fmt.Sprintf("it ended with 0 and told of no test; on the base it told of %d (%s)", base.Tally.Tests, base.Tally.Format)
	}
	back, err := d.putBack(ctx, k, im.Changes)
	if err != nil {
		return r, err
	}
	if len(back) > 0 {
		tree, err := d.store.Compose(ctx, im.Tree, d.m.BaseTree, back)
		if err != nil {
			return r, err
		}
		again, err := d.runCheck(ctx, trial{Check: k, Tree: tree, Purpose: sallyport.PurposeValidate, Log: d.logOf(k, "base-tests")})
		if err != nil {
			return r, err
		}
		r.BaseTests = again.Status
		r.Trees = append(r.Trees, sallyport.Tried{For: "base-tests", Tree: tree})
		r.Message = also(r.Message, "the change edits what this check runs by: "+list(back, 5))
	}
	if r.Status != sallyport.CheckPassed {
		return r, nil // nothing that a control shows would change it
	}
	err = d.control(ctx, k, im, base, o, &r)
	return r, err
}

// runAgain runs the check on the tree, and after a failure as often as policy says: a pass then is flaky. r is
// filled with what was observed.
func (d *driver) runAgain(ctx context.Context, k sallyport.Check, tree sallyport.ObjectID, r *sallyport.CheckResult) (outcome, error) {
	var o outcome
	for n := 0; n <= k.Retries; n++ {
		name := "validate"
		if n > 0 {
			name = fmt.Sprintf("validate-%d", n+1)
		}
		var err error
		if o, err = d.runCheck(ctx, trial{Check: k, Tree: tree, Purpose: sallyport.PurposeValidate, Log: d.logOf(k, name)}); err != nil {
			return o, err
		}
		r.Runs = append(r.Runs, sallyport.Run{Status: o.Status, Exit: o.Exit, Seconds: o.Seconds})
		if o.Status == sallyport.CheckPassed || d.isCancelled() {
			break
		}
	}
	r.Status, r.StatusBy, r.Exit, r.Seconds, r.Message, r.Tail, r.Tests = o.Status, o.By, o.Exit, o.Seconds, o.Message, o.Tail, o.Tally
	if len(r.Runs) == 1 {
		r.Runs = nil
	} else if o.Status == sallyport.CheckPassed {
		r.Status, r.Message = sallyport.CheckFlaky, fmt.Sprintf("it passed on run %d, after it had failed on the same tree", len(r.Runs))
	}
	return o, nil
}

// also is one statement after another.
func also(said, more string) string {
	if said == "" || more == "" {
		return said + more
	}
	return said + "; " + more
}

// logOf is the name of the log of one of a check's runs.
func (d *driver) logOf(k sallyport.Check, run string) string {
	return "check-" + k.Name + "-" + run + d.rerun
}

func list(paths []string, most int) string {
	shown := paths
	if len(shown) > most {
		shown = shown[:most]
	}
	s := screen.Line(strings.Join(shown, ", "))
	if n := len(paths) - len(shown); n > 0 {
		s += fmt.Sprintf(" and %d more", n)
	}
	return s
}

// applies reports whether the change touches what the check is for.
func applies(k sallyport.Check, changes []sallyport.Change) bool {
	if len(k.When) == 0 {
		return true
	}
	for _, c := range changes {
		for _, g := range k.When {
			if ok, _ := doublestar.Match(g, c.Path); ok {
				return true
			}
		}
	}
	return false
}

// namedFiles are the words of a check's command, as paths: what it names is what it is judged by.
func namedFiles(k sallyport.Check) map[string]bool {
	named := map[string]bool{}
	for _, w := range strings.FieldsFunc(k.Run, func(r rune) bool { return strings.ContainsRune(" \t\n'\"=;&|<>()", r) }) {
		named[path.Join(k.Dir, w)] = true
	}
	return named
}

// judgedBy reports whether a check is judged by the file: a test, what its runner loads by itself, or a file
// that its command names.
func judgedBy(k sallyport.Check, named map[string]bool, p string) bool {
	if named[p] || inspect.IsTest(p, k.Tests) {
		return true
	}
	_, _, ok := checks.Loaded(p)
	return ok
}

// putBack are the changed paths that the check is judged by, those included that only their content gives away.
func (d *driver) putBack(ctx context.Context, k sallyport.Check, changes []sallyport.Change) ([]string, error) {
	named := namedFiles(k)
	var back []string
	for _, c := range changes {
		by := judgedBy(k, named, c.Path)
		if !by && (c.NewMode == "100644" || c.NewMode == "100755") && c.Size <= maxFaultFile {
			content, err := d.store.ReadBlob(ctx, c.NewID, maxFaultFile)
			if err != nil {
				return nil, err
			}
			_, _, by = checks.LoadedContent(c.Path, content)
		}
		if by {
			back = append(back, c.Path)
		}
	}
	return back, nil
}
