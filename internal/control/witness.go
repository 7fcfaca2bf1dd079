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

// witness looks for a witness of a check that passes on the base; "" if there is none.
func (d *driver) witness(ctx context.Context, k sallyport.Check) (string, error) {
	paths, err := d.store.Paths(ctx, d.m.BaseTree)
	if err != nil {
		return "", err
	}
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
			return "", err
		}
		if tree == "" {
			continue
		}
		if tried++; tried > maxWitnesses || ctx.Err() != nil {
			break
		}
		o, err := d.runCheck(ctx, trial{Check: k, Tree: tree, Purpose: sallyport.PurposeBase, Log: d.logOf(k, fmt.Sprintf("witness-%d", tried))})
		if err != nil {
			return "", err
		}
		if o.Status == sallyport.CheckFailed && !o.Endless {
			return p, nil
		}
	}
	return "", nil
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

// deaf says that a check passes on the change although its witness fails; "": it listens, or has no witness that the
// change leaves in place (then the base's is put back).
func (d *driver) deaf(ctx context.Context, k sallyport.Check, im *lifecycle.Imported, witness string, r *sallyport.CheckResult) (string, error) {
	if witness == "" {
		return "", nil
	}
	with, err := d.store.Compose(ctx, im.Tree, d.m.BaseTree, []string{witness})
	if err != nil {
		return "", err
	}
	tree, err := d.broken(ctx, with, witness)
	if err != nil || tree == "" {
		return "", err
	}
	r.Trees = append(r.Trees, sallyport.Tried{For: "planted-fault", Tree: tree})
	o, err := d.runCheck(ctx, trial{Check: patience(k, r.Seconds), Tree: tree, Purpose: sallyport.PurposeValidate, Log: d.logOf(k, "witness")})
	if err != nil || o.Status == sallyport.CheckError || o.Endless || o.Exit != 0 {
		return "", err
	}
	return "it passes although a test that fails was added to " + list([]string{witness}, 1), nil
}
