package control

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/change"
	"sallyport.dev/sallyport/internal/decision"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/internal/screen"
)

// startBaseChecks runs the checks on the untouched base while the agent works. Validation waits for each
// answer that it needs; stopBaseChecks ends what nobody waits for.
func (d *driver) startBaseChecks(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for _, k := range d.m.Checks {
			if _, err := d.onBase(ctx, k); err != nil {
				return // validation runs it again and reports what is wrong
			}
		}
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopBase = func() { cancel(); wg.Wait() }
}

// stopBaseChecks ends the checks on the base and waits until their sandboxes are gone. Repeat: nothing.
func (d *driver) stopBaseChecks() {
	d.mu.Lock()
	stop := d.stopBase
	d.stopBase = nil
	d.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// onBase is a check's outcome on the base: remembered per base, check and toolchain. One run of a check serves
// all who ask.
func (d *driver) onBase(ctx context.Context, k sallyport.Check) (outcome, error) {
	l, _ := d.baseLocks.LoadOrStore(k.Name, &sync.Mutex{})
	l.(*sync.Mutex).Lock()
	defer l.(*sync.Mutex).Unlock()
	remembered, err := d.rememberedPath(ctx, "base-checks", k, d.m.BaseTree)
	if err != nil {
		return outcome{}, err
	}
	var known outcome
	if b, err := os.ReadFile(remembered); err == nil && json.Unmarshal(b, &known) == nil && known.Status != "" {
		return known, nil
	}
	t := trial{Check: k, Tree: d.m.BaseTree, Purpose: sallyport.PurposeBase, Log: d.logOf(k, "base")}
	// A base that is not the protected ref or an ancestor of it may be an agent's own branch: what its code
	// writes into caches serves nobody else.
	if d.m.AtBest != sallyport.DecisionAwaitingApproval {
		if t.Keep, err = d.newCacheLayer(); err != nil {
			return outcome{}, err
		}
	}
	o, err := d.runCheck(ctx, t)
	if err != nil {
		return o, err
	}
	if t.Keep != "" && o.Exit >= 0 /* it ended by itself: what was cut short may be torn */ {
		if err := d.keepCacheLayer(t.Keep); err != nil {
			return o, err
		}
	}
	sure := o.Status != sallyport.CheckError // else it says nothing about the base
	if k.PlantedFault == "auto" && o.Status == sallyport.CheckPassed {
		if o.Witness, sure, err = d.witness(ctx, k); err != nil {
			return o, err
		}
	}
	if !sure {
		return o, nil // not remembered: a later look may tell more
	}
	b, err := d.clean(o)
	if err == nil && b == nil {
		b, err = json.Marshal(o)
	}
	if err != nil {
		return o, err
	}
	return o, writeDurable(remembered, b)
}

// known is what an earlier Attempt observed of the very same check on the very same trees and toolchain; nil:
// nothing.
func (d *driver) known(ctx context.Context, k sallyport.Check, im *lifecycle.Imported) (*memory, error) {
	path, err := d.rememberedPath(ctx, "checks", k, im.Tree)
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	var m memory
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err != nil {
		return nil, stateError(path, err)
	}
	return &m, nil
}

// memory is a remembered result, and whose.
type memory struct {
	Attempt sallyport.AttemptID   `json:"attempt"`
	Result  sallyport.CheckResult `json:"result"`
}

// reusable: a pass with nothing against it. All else is worth another look, which has to agree with it.
func (m *memory) reusable() bool {
	_, rejects := decision.Unheld(m.Result, true)
	_, waits := decision.Unheld(m.Result, false)
	return m.Result.Status == sallyport.CheckPassed && !rejects && !waits
}

// remember keeps an answer for later Attempts, and returns what it is beside the one that is there: that may have come while this
// one was found, from another Attempt or from a driver that has taken this one over. Of two that do not agree a pass is none.
func (d *driver) remember(ctx context.Context, k sallyport.Check, im *lifecycle.Imported, r sallyport.CheckResult) (sallyport.CheckResult, error) {
	path, err := d.rememberedPath(ctx, "checks", k, im.Tree)
	if err != nil || r.Status == sallyport.CheckError || r.Status == sallyport.CheckNotRun {
		return r, err
	}
	unlock, err := lockFile(filepath.Dir(path))
	if err != nil {
		return r, err
	}
	defer unlock()
	before, err := d.known(ctx, k, im)
	if err != nil {
		return r, err
	}
	if before != nil && r.Status == sallyport.CheckPassed { // a failure needs no other to count
		compare(before.Result, &r, "in attempt "+screen.Short(before.Attempt))
	}
	clean, err := d.cleanResult(r)
	if err != nil {
		return r, err
	}
	b, err := json.Marshal(memory{d.id, clean})
	if err != nil {
		return r, err
	}
	return r, writeDurable(path, b)
}

// rememberedPath is where an outcome of a check on a tree is kept: its name is a digest of all that the outcome
// depends on.
func (d *driver) rememberedPath(ctx context.Context, folder string, k sallyport.Check, tree sallyport.ObjectID) (string, error) {
	env, err := d.environmentDigest(ctx)
	if err != nil {
		return "", err
	}
	left, err := d.setUp(ctx, tree)
	if err != nil {
		return "", err
	}
	b, err := json.Marshal(struct {
		By          string // how a check is judged is the version's own
		Base, Tree  sallyport.ObjectID
		Repo, Home  string
		Check       sallyport.Check
		Limits      sallyport.Limits
		Environment sallyport.Digest
		Setup       sallyport.Digest `json:",omitempty"`
	}{Version, d.m.BaseTree, tree, d.m.Repository, d.m.Home, k, limitsOf(d.m, k), env, left.key})
	return filepath.Join(d.c.cfg.State, folder, sallyport.Sum(b).Hex()+".json"), err
}

// environmentDigest names what checks run with beside the tree: each host path that is shown, with the time it
// was last changed (a folder of dependencies: what lies in it as well), PATH, environment, and what is here of the
// base's submodules.
func (d *driver) environmentDigest(ctx context.Context) (sallyport.Digest, error) {
	type root struct {
		Path  string
		MTime int64
	}
	var roots []root
	for _, m := range d.m.Mounts {
		var st unix.Stat_t
		if m.Reason == "system" || unix.Lstat(m.Path, &st) != nil {
			continue
		}
		roots = append(roots, root{m.Path, st.Mtim.Nano()})
		if !strings.HasPrefix(m.Reason, "deps") {
			continue
		}
		entries, err := os.ReadDir(m.Path)
		if err != nil {
			return "", stateError(m.Path, err)
		}
		for _, e := range entries {
			if fi, err := e.Info(); err == nil {
				roots = append(roots, root{filepath.Join(m.Path, e.Name()), fi.ModTime().UnixNano()})
			}
		}
	}
	subs, err := d.store.Submodules(ctx, d.m.BaseTree)
	if err != nil {
		return "", err
	}
	b, err := json.Marshal(struct {
		Mounts     []sallyport.Mount
		Roots      []root
		Path       []string
		Env        map[string]string
		Submodules []change.Submodule
	}{d.m.Mounts, roots, d.m.Path, d.m.Env, subs})
	return sallyport.Sum(b), err
}
