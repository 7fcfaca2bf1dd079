package control

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bluekeyes/go-gitdiff/gitdiff"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/checks"
	"sallyport.dev/sallyport/internal/inspect"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/internal/screen"
)

// control fills in what shows that a check that passed could have failed, and that it did run. One that is not held
// and required rejects the change; one that is not held and not required was asked for and could not be shown:
// a person decides.
func (d *driver) control(ctx context.Context, k sallyport.Check, im *lifecycle.Imported, base, o outcome, r *sallyport.CheckResult) error {
	r.Controls = slices.Concat(r.Controls, baseControl(k, base), tallyControls(k, base.Tally, o.Tally), untouched(base, o))
	if k.NewTestsOnBase != "" {
		c, err := d.newTestsOnBase(ctx, k, im, r)
		if err != nil {
			return err
		}
		r.Controls = append(r.Controls, c)
	}
	if k.PlantedFault != "" {
		c, err := d.plantedFault(ctx, k, im, base.Witness, r)
		if err != nil {
			return err
		}
		r.Controls = append(r.Controls, c)
	}
	return nil
}

// baseControl: what fails on the base and passes on the change has shown that it can fail.
func baseControl(k sallyport.Check, base outcome) []sallyport.Control {
	switch {
	case k.Base != "":
		return []sallyport.Control{{Name: "base", Held: base.Status == k.Base, Required: true, Detail: fmt.Sprintf("policy wants %s on the base; it %s", k.Base, base.Status)}}
	case base.noticed(false) && !base.Unbuilt && !base.Endless:
		return []sallyport.Control{{Name: "base", Held: true, Detail: "it fails on the base and passes on the change"}}
	}
	return nil
}

// tallyControls are about how many tests ran, by the check's own word.
func tallyControls(k sallyport.Check, base, now *sallyport.Tally) []sallyport.Control {
	var cs []sallyport.Control
	if k.MinTests > 0 {
		c := sallyport.Control{Name: "min-tests", Required: true, Detail: fmt.Sprintf("policy wants %d; its output tells of none that a reader knows", k.MinTests)}
		if now != nil {
			c.Held, c.Detail = now.Tests >= k.MinTests, fmt.Sprintf("policy wants %d; %d ran (%s)", k.MinTests, now.Tests, now.Format)
		}
		cs = append(cs, c)
	}
	if k.TestsNotFewer {
		c := sallyport.Control{Name: "tests-not-fewer", Detail: "its output on the base tells of no tests that a reader knows"}
		switch {
		case base != nil && now != nil:
			c.Required, c.Held, c.Detail = true, now.Tests >= base.Tests, fmt.Sprintf("%d on the base, %d now", base.Tests, now.Tests)
		case base != nil:
			c.Required, c.Detail = true, fmt.Sprintf("%d on the base; now its output tells of none", base.Tests)
		}
		cs = append(cs, c)
	}
	return cs
}

// untouched: a check that rewrites what it is judged by has judged something else than what would be published.
// What it rewrites on the base as well is how it works.
func untouched(base, now outcome) []sallyport.Control {
	var by []string
	for _, p := range now.Touched {
		if !slices.Contains(base.Touched, p) {
			by = append(by, p)
		}
	}
	switch {
	case now.Unseen != "":
		return []sallyport.Control{{Name: "untouched", Detail: "what it wrote while it ran could not be looked through: " + screen.Line(now.Unseen)}}
	case len(by) > 0:
		return []sallyport.Control{{Name: "untouched", Required: true, Detail: "while it ran, files that it is judged by were written: " + list(by, 5)}}
	}
	return nil
}

// newTestsOnBase runs the change's tests on the base's code. They must fail there: a test that passes without
// the change does not test it.
func (d *driver) newTestsOnBase(ctx context.Context, k sallyport.Check, im *lifecycle.Imported, r *sallyport.CheckResult) (sallyport.Control, error) {
	c := sallyport.Control{Name: "new-tests-on-base"}
	var tests []string
	for _, ch := range im.Changes {
		if ch.Status != sallyport.ChangeDeleted && inspect.IsTest(ch.Path, k.Tests) {
			tests = append(tests, ch.Path)
		}
	}
	if len(tests) == 0 {
		c.Detail = "the change brings no test"
		return c, nil
	}
	tree, err := d.store.Compose(ctx, d.m.BaseTree, im.Tree, tests)
	if err != nil {
		return c, err
	}
	r.Trees = append(r.Trees, sallyport.Tried{For: c.Name, Tree: tree})
	o, err := d.runCheck(ctx, trial{Check: k, Tree: tree, Purpose: sallyport.PurposeValidate, Log: d.logOf(k, "new-tests")})
	if err != nil {
		return c, err
	}
	switch {
	case o.Unbuilt:
		c.Required, c.Held, c.Detail = true, true, "on the base's code the change's tests cannot be built"
	case o.noticed(r.Tests != nil):
		c.Required, c.Held, c.Detail = true, true, "on the base's code the change's tests fail: "+list(tests, 3)
	case o.Status != sallyport.CheckPassed:
		c.Detail = fmt.Sprintf("on the base's code the check has %s, and none of the change's tests said no: %s", o.Status, list(tests, 3))
	default:
		c.Required = true
		c.Detail = fmt.Sprintf("on the base's code the change's tests have %s: they do not test the change: %s", o.Status, list(tests, 3))
	}
	return c, nil
}

const (
	// enoughFaults ends the trying: so many were noticed, or went unnoticed.
	enoughFaults = 2
	// maxPlants bounds the runs, those with faults that could not be built included.
	maxPlants = 6
	// maxFaultFile bounds a file that faults are looked for in.
	maxFaultFile = 1 << 20
)

// plantedFault runs the check on the tree with one fault in it, several times. Most must be noticed: a single
// line that no test reaches is not yet a check that cannot fail, and a single fault that is noticed may have
// hit the very line that cheats.
func (d *driver) plantedFault(ctx context.Context, k sallyport.Check, im *lifecycle.Imported, witness string, r *sallyport.CheckResult) (sallyport.Control, error) {
	ok, c, err := d.listens(ctx, k, im, witness, r)
	if err != nil || !ok {
		return c, err
	}
	plants, why, err := d.plants(ctx, k, im)
	if err != nil {
		return c, err
	}
	if len(plants) == 0 {
		c.Detail = why
		return c, nil
	}
	var noticed, missed []string
	for i, f := range plants {
		if len(noticed) == enoughFaults || len(missed) == enoughFaults || d.isCancelled() {
			break
		}
		tree, err := d.store.Replace(ctx, im.Tree, f.Path, f.Content)
		if err != nil {
			return c, err
		}
		r.Trees = append(r.Trees, sallyport.Tried{For: c.Name, Tree: tree})
		o, err := d.runCheck(ctx, trial{Check: patience(k, r.Seconds), Tree: tree, Purpose: sallyport.PurposeValidate, Log: d.logOf(k, fmt.Sprintf("fault-%d", i+1))})
		if err != nil {
			return c, err
		}
		switch {
		case o.Status == sallyport.CheckError || o.Unbuilt || o.silent(r.Tests != nil):
		case o.noticed(r.Tests != nil):
			noticed = append(noticed, describe(f))
		default:
			missed = append(missed, describe(f))
		}
	}
	switch {
	case len(noticed)+len(missed) == 0:
		c.Detail = "no planted fault could be built"
	case len(noticed) > len(missed):
		c.Required, c.Held, c.Detail = true, true, "it notices "+strings.Join(noticed, "; ")
	default:
		c.Required, c.Detail = true, "it passes with a fault in the changed lines: "+strings.Join(missed, "; ")
	}
	return c, nil
}

// noticed: the command itself said no, and where its output tells of tests, here or on the change (told), one of
// them did, or it ran on for ever. That no test ran any more is no answer to a fault.
func (o outcome) noticed(told bool) bool {
	return o.Status == sallyport.CheckFailed && (o.Endless || o.Exit != 0 && (o.Tally == nil && !told || o.Tally != nil && o.Tally.Failed > 0))
}

// silent: it failed without a word of tests, where it told of some on the change. It may have failed before any of
// them could say anything.
func (o outcome) silent(told bool) bool {
	return told && o.Tally == nil && o.Status == sallyport.CheckFailed && !o.Endless
}

// patience is a check's timeout with a fault in it: faults make loops endless, and ten times as long as without
// one is as good an answer as for ever.
func patience(k sallyport.Check, seconds float64) sallyport.Check {
	k.Timeout = min(k.Timeout, 10*time.Second+time.Duration(10*seconds*float64(time.Second)))
	return k
}

func describe(f checks.Fault) string {
	if f.Line == 0 {
		return screen.Line(f.Path + ": " + f.Now)
	}
	short := func(s string) string { return screen.Fit(screen.Line(strings.TrimSpace(s)), 60) }
	return fmt.Sprintf("%s:%d: `%s` made `%s`", screen.Line(f.Path), f.Line, short(f.Was), short(f.Now))
}

// plants are the faults to try, best first; why says what stands in the way of any.
func (d *driver) plants(ctx context.Context, k sallyport.Check, im *lifecycle.Imported) (faults []checks.Fault, why string, err error) {
	if k.PlantedFault != "auto" {
		return d.patchFault(ctx, k, im)
	}
	var files [][]checks.Fault
	for _, ch := range im.Changes {
		if ch.Status == sallyport.ChangeDeleted || (ch.NewMode != "100644" && ch.NewMode != "100755") || ch.Size > maxFaultFile || judgedBy(k, namedFiles(k), ch.Path) {
			continue
		}
		now, err := d.store.ReadBlob(ctx, ch.NewID, maxFaultFile)
		if err != nil {
			return nil, "", err
		}
		var was []byte
		if ch.OldMode == "100644" || ch.OldMode == "100755" {
			if was, err = d.store.ReadBlob(ctx, ch.OldID, maxFaultFile); sallyport.CodeOf(err) == sallyport.CodeExhausted {
				continue
			} else if err != nil {
				return nil, "", err
			}
		}
		if f := checks.Faults(ch.Path, was, now); len(f) > 0 {
			files = append(files, f)
		}
	}
	return spread(files), "no changed line is one that a fault could be planted in", nil
}

// spread takes faults from each file in turns and from each line once before any line twice: what one place
// shows is worth little.
func spread(files [][]checks.Fault) []checks.Fault {
	var first, second []checks.Fault
	seen := map[string]bool{}
	for i, more := 0, true; more; i++ {
		more = false
		for _, f := range files {
			if i >= len(f) {
				continue
			}
			more = true
			place := fmt.Sprintf("%s:%d", f[i].Path, f[i].Line)
			if seen[place] {
				second = append(second, f[i])
			} else {
				first = append(first, f[i])
			}
			seen[place] = true
		}
	}
	all := append(first, second...)
	return all[:min(len(all), maxPlants)]
}

// patchFault is the patch that policy names, read from the base and applied to the change's tree.
func (d *driver) patchFault(ctx context.Context, k sallyport.Check, im *lifecycle.Imported) ([]checks.Fault, string, error) {
	text, err := d.store.File(ctx, d.m.BaseTree, k.PlantedFault, maxFaultFile)
	if sallyport.CodeOf(err) == sallyport.CodeNotFound {
		return nil, "the base has no " + screen.Line(k.PlantedFault), nil
	}
	if err != nil {
		return nil, "", err
	}
	files, _, err := gitdiff.Parse(bytes.NewReader(text))
	if err != nil || len(files) != 1 || files[0].IsBinary || files[0].IsNew || files[0].IsDelete || files[0].IsRename {
		return nil, screen.Line(k.PlantedFault) + " is no patch of exactly one text file", nil
	}
	file := files[0].NewName
	was, err := d.store.File(ctx, im.Tree, file, maxFaultFile)
	if c := sallyport.CodeOf(err); c == sallyport.CodeNotFound || c == sallyport.CodeInvalid || c == sallyport.CodeExhausted {
		return nil, fmt.Sprintf("%s is about %s, which the change does not have as a text file", screen.Line(k.PlantedFault), screen.Line(file)), nil
	}
	if err != nil {
		return nil, "", err
	}
	var now bytes.Buffer
	if err := gitdiff.Apply(&now, bytes.NewReader(was), files[0]); err != nil {
		return nil, fmt.Sprintf("%s does not fit the change's %s", screen.Line(k.PlantedFault), screen.Line(file)), nil
	}
	return []checks.Fault{{Path: file, Now: "the fault of " + k.PlantedFault, Content: now.Bytes()}}, "", nil
}
