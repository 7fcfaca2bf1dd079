package control

import (
	"context"
	"fmt"
	"strings"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/checks"
	"sallyport.dev/sallyport/internal/inspect"
	"sallyport.dev/sallyport/internal/lifecycle"
)

// A witness is a test file of the base that a check demonstrably listens to: with one more test in it that fails, the
// check fails on the base. On the change it must fail likewise. Planted faults alone can be misled by a forgery whose
// own guard is the changed line; this leaves the change as it is.

// maxWitnesses bounds the runs in search of one.
const maxWitnesses = 3

// witness looks for a witness of a check that passes on the base; "" if there is none. Sure: that is the base's
// answer, and not one of a run that was stopped or lost.
func (d *driver) witness(ctx context.Context, k sallyport.Check) (file string, sure bool, err error) {
	paths, err := d.store.Paths(ctx, d.m.BaseTree)
	if err != nil {
		return "", false, err
	}
	sure = true
	var near, far []string
	for p := range paths {
		if _, ok := checks.Broken(p, []byte("import \"testing\"")); !inspect.IsTest(p, k.Tests) || !ok && !strings.HasSuffix(p, "_test.go") {
			continue
		}
		if k.Dir == "" || strings.HasPrefix(p, k.Dir+"/") {
			near = append(near, p)
		} else {
			far = append(far, p)
		}
		if len(near) > 1000 {
			break
		}
	}
	tried := 0
	for _, p := range append(near, far...) {
		tree, err := d.broken(ctx, d.m.BaseTree, p)
		if err != nil {
			return "", false, err
		}
		if tree == "" {
			continue
		}
		if tried++; tried > maxWitnesses {
			break
		}
		o, err := d.runCheck(ctx, trial{Check: k, Tree: tree, Purpose: sallyport.PurposeBase, Log: d.logOf(k, fmt.Sprintf("witness-%d", tried))})
		if err != nil {
			return "", false, err
		}
		switch {
		case o.Status == sallyport.CheckFailed && !o.Endless:
			return p, true, nil
		case o.Status == sallyport.CheckError:
			sure = false
		}
	}
	return "", sure, nil
}

// broken is tree with a failing test in one file; "" where that cannot be.
func (d *driver) broken(ctx context.Context, tree sallyport.ObjectID, path string) (sallyport.ObjectID, error) {
	content, err := d.store.File(ctx, tree, path, maxFaultFile)
	switch sallyport.CodeOf(err) {
	case sallyport.CodeNotFound, sallyport.CodeInvalid, sallyport.CodeExhausted:
		return "", nil
	}
	if err != nil {
		return "", err
	}
	now, ok := checks.Broken(path, content)
	if !ok {
		return "", nil
	}
	return d.store.Replace(ctx, tree, path, now)
}

// listens asks a check on the change whether it listens to its witness: with a failing test in it, it must not end with
// 0. False: it does not listen (required), or that could not be found out; a check without a witness is not asked. A
// witness that the change edits or takes away is put back as the base has it.
func (d *driver) listens(ctx context.Context, k sallyport.Check, im *lifecycle.Imported, witness string, r *sallyport.CheckResult) (ok bool, c sallyport.Control, err error) {
	c.Name = "planted-fault"
	if witness == "" {
		return true, c, nil
	}
	with, err := d.store.Compose(ctx, im.Tree, d.m.BaseTree, []string{witness})
	if err != nil {
		return false, c, err
	}
	tree, err := d.broken(ctx, with, witness)
	if err != nil {
		return false, c, err
	}
	if tree == "" {
		return false, c, &sallyport.Error{Op: "plant a fault", Code: sallyport.CodeCorrupt, Subject: witness, Message: "the base's test that was a witness cannot be one now"}
	}
	r.Trees = append(r.Trees, sallyport.Tried{For: c.Name, Tree: tree})
	o, err := d.runCheck(ctx, trial{Check: patience(k, r.Seconds), Tree: tree, Purpose: sallyport.PurposeValidate, Log: d.logOf(k, "witness")})
	switch {
	case err != nil:
		return false, c, err
	case o.Status == sallyport.CheckError:
		c.Detail = "a run with a failing test added to " + list([]string{witness}, 1) + " came to no end of its own: " + o.Message
		return false, c, nil
	case o.Exit == 0:
		c.Required, c.Detail = true, "it passes although a test that fails was added to "+list([]string{witness}, 1)
		return false, c, nil
	}
	return true, c, nil
}
