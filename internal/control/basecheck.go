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
	"sallyport.dev/sallyport/internal/lifecycle"
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
	remembered, err := d.rememberedPath("base-checks", k, d.m.BaseTree)
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
	if o.Status == sallyport.CheckError {
		return o, nil // not remembered: it says nothing about the base
	}
	b, err := json.Marshal(o)
	if err != nil {
		return o, err
	}
	return o, writeDurable(remembered, b)
}

// known is what an earlier Attempt observed of the very same check on the very same trees and toolchain.
func (d *driver) known(k sallyport.Check, im *lifecycle.Imported) (sallyport.CheckResult, bool, error) {
	path, err := d.rememberedPath("checks", k, im.Tree)
	if err != nil {
		return sallyport.CheckResult{}, false, err
	}
	var m memory
	b, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return m.Result, false, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err != nil {
		return m.Result, false, stateError(path, err)
	}
	m.Result.Reused = m.Attempt
	return m.Result, true, nil
}

// memory is a remembered result, and whose.
type memory struct {
	Attempt sallyport.AttemptID   `json:"attempt"`
	Result  sallyport.CheckResult `json:"result"`
}

// remember keeps a pass for later Attempts. A failure is worth another look.
func (d *driver) remember(k sallyport.Check, im *lifecycle.Imported, r sallyport.CheckResult) error {
	path, err := d.rememberedPath("checks", k, im.Tree)
	if err != nil || r.Status != sallyport.CheckPassed {
		return err
	}
	b, err := json.Marshal(memory{d.id, r})
	if err != nil {
		return err
	}
	return writeDurable(path, b)
}

// forget takes back what was remembered: the check does not give the same answer twice.
func (d *driver) forget(k sallyport.Check, im *lifecycle.Imported) error {
	path, err := d.rememberedPath("checks", k, im.Tree)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return stateError(path, err)
	}
	return nil
}

// rememberedPath is where an outcome of a check on a tree is kept: its name is a digest of all that the outcome
// depends on.
func (d *driver) rememberedPath(folder string, k sallyport.Check, tree sallyport.ObjectID) (string, error) {
	env, err := d.environmentDigest()
	if err != nil {
		return "", err
	}
	b, err := json.Marshal(struct {
		Base, Tree  sallyport.ObjectID
		Repo        string
		Check       sallyport.Check
		Environment sallyport.Digest
	}{d.m.BaseTree, tree, d.m.Repository, k, env})
	return filepath.Join(d.c.cfg.State, folder, sallyport.Sum(b).Hex()+".json"), err
}

// environmentDigest names what checks run with beside the tree: each host path that is shown, with the time it
// was last changed (a folder of dependencies: what lies in it as well), PATH and environment.
func (d *driver) environmentDigest() (sallyport.Digest, error) {
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
	b, err := json.Marshal(struct {
		Mounts []sallyport.Mount
		Roots  []root
		Path   []string
		Env    map[string]string
	}{d.m.Mounts, roots, d.m.Path, d.m.Env})
	return sallyport.Sum(b), err
}
