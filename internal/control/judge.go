package control

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/collect"
	"sallyport.dev/sallyport/internal/inspect"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/internal/screen"
)

func sumFile(f *os.File) (sallyport.Digest, int64, error) {
	h := sha256.New()
	n, err := io.Copy(h, io.NewSectionReader(f, 0, 1<<62))
	if err != nil {
		return "", 0, err
	}
	return sallyport.DigestOf([sha256.Size]byte(h.Sum(nil))), n, nil
}

// importChange hashes and writes every object of the quarantined change itself. Then an agent that failed
// ends the Attempt: what it left can be looked at and gone on from.
func (d *driver) importChange(ctx context.Context) error {
	at, err := d.attempt(ctx)
	if err != nil {
		return err
	}
	if at.Imported == nil {
		if err := d.stage(ctx, sallyport.AttemptInspecting); err != nil {
			return err
		}
		if err := d.importBundle(ctx, at); err != nil {
			return err
		}
	}
	return agentFailure(at.Report.Agent, d.id)
}

func (d *driver) importBundle(ctx context.Context, at journal.Attempt) error {
	file := d.c.quarantinePath(at.Report.Bundle)
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return &sallyport.Error{Op: "read quarantine", Code: sallyport.CodeCorrupt, Subject: file, Err: err}
	}
	defer f.Close()
	if sum, _, err := sumFile(f); err != nil || sum != at.Report.Bundle {
		return &sallyport.Error{Op: "read quarantine", Code: sallyport.CodeCorrupt, Subject: file, Message: "its bytes are not those of its name", Err: err}
	}
	imported, err := d.store.Import(ctx, at.StartTree, f, collect.DefaultLimits())
	if err != nil {
		return err
	}
	// A retry starts from an earlier tree; what counts is the whole difference to the base.
	if imported.Changes, err = d.store.Diff(ctx, d.m.BaseTree, imported.Tree); err != nil {
		return err
	}
	for i, m := range imported.Commits {
		imported.Commits[i] = screen.Text([]byte(m))
	}
	records := []journal.Record{{Type: lifecycle.AttemptImported, Data: imported}}
	if text := leftOut(imported.Left); text != "" {
		records = append(records, journal.Record{Type: lifecycle.AttemptNotice, Data: lifecycle.Notice{Text: text}})
	}
	return d.record(ctx, records...)
}

// leftOut says what of the workspace is not part of the change; ignored files are as a person expects.
func leftOut(left map[string]int) string {
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(left)) {
		if reason != collect.LeftIgnored {
			parts = append(parts, fmt.Sprintf("%d %s", left[reason], reason))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "not taken into the change: " + strings.Join(parts, ", ")
}

// inspect finds what can be said of the change without running it. A repeat says the same.
func (d *driver) inspect(ctx context.Context) error {
	at, err := d.attempt(ctx)
	if err != nil || at.Report.State != sallyport.AttemptInspecting {
		return err
	}
	paths, err := d.store.Paths(ctx, d.m.BaseTree)
	if err != nil {
		return err
	}
	var tests []string
	for _, k := range d.m.Checks {
		tests = append(tests, k.Tests...)
	}
	findings, err := inspect.Inspect(ctx, inspect.Input{Tests: tests, Changes: at.Imported.Changes, Scope: d.m.Scope, Blob: d.store.ReadBlob, BasePaths: paths})
	if err != nil {
		return err
	}
	return d.record(ctx, journal.Record{Type: lifecycle.AttemptFindings, Data: lifecycle.Findings{Findings: findings}})
}

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

// onBase is a check's outcome on the base: remembered per base, check and toolchain.
func (d *driver) onBase(ctx context.Context, k sallyport.Check) (sallyport.CheckStatus, error) {
	d.baseMu.Lock()
	defer d.baseMu.Unlock()
	remembered, err := d.baseCheckPath(k)
	if err != nil {
		return "", err
	}
	var known struct {
		Status sallyport.CheckStatus `json:"status"`
	}
	if b, err := os.ReadFile(remembered); err == nil && json.Unmarshal(b, &known) == nil && known.Status != "" {
		return known.Status, nil
	}
	layer := ""
	// A base that is not the protected ref or an ancestor of it may be an agent's own branch: what its code
	// writes into caches serves nobody else.
	if d.m.AtBest != sallyport.DecisionAwaitingApproval {
		if layer, err = d.newCacheLayer(); err != nil {
			return "", err
		}
	}
	r, err := d.runCheck(ctx, k, d.m.BaseTree, sallyport.PurposeBase, layer)
	if err != nil {
		return "", err
	}
	if layer != "" && r.Exit >= 0 /* it ended by itself: what was cut short may be torn */ {
		if err := d.keepCacheLayer(layer); err != nil {
			return "", err
		}
	}
	if r.Status == sallyport.CheckError {
		return r.Status, nil // not remembered: it says nothing about the base
	}
	known.Status = r.Status
	b, err := json.Marshal(known)
	if err != nil {
		return "", err
	}
	return r.Status, writeDurable(remembered, b)
}

func (d *driver) baseCheckPath(k sallyport.Check) (string, error) {
	type root struct {
		Path  string
		MTime int64
	}
	var roots []root
	for _, m := range d.m.Mounts {
		var st unix.Stat_t
		if unix.Lstat(m.Path, &st) == nil && m.Reason != "system" {
			roots = append(roots, root{m.Path, st.Mtim.Nano()})
		}
	}
	b, err := json.Marshal(struct {
		Tree   sallyport.ObjectID
		Repo   string
		Check  sallyport.Check
		Mounts []sallyport.Mount
		Roots  []root
		Path   []string
		Env    map[string]string
	}{d.m.BaseTree, d.m.Repository, k, d.m.Mounts, roots, d.m.Path, d.m.Env})
	return filepath.Join(d.c.cfg.State, "base-checks", sallyport.Sum(b).Hex()+".json"), err
}

// validate runs each check in a fresh sandbox on the very tree that would be published, and where the change
// edits tests or runner configuration, also with the base's put back.
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
	done := map[string]bool{}
	for _, r := range at.Report.Checks {
		done[r.Name] = true
	}
	for _, k := range d.m.Checks {
		if done[k.Name] {
			continue
		}
		if d.isCancelled() {
			return errCancelled
		}
		r, err := d.judge(ctx, k, at.Imported)
		if err != nil {
			return err
		}
		if d.isCancelled() {
			return errCancelled // a check that was stopped says nothing of the change
		}
		if err := d.record(ctx, journal.Record{Type: lifecycle.AttemptCheck, Data: r}); err != nil {
			return err
		}
	}
	return nil
}

// judge is everything observed of one check.
func (d *driver) judge(ctx context.Context, k sallyport.Check, im *lifecycle.Imported) (sallyport.CheckResult, error) {
	if !applies(k, im.Changes) {
		return sallyport.CheckResult{Name: k.Name, Run: k.Run, Status: sallyport.CheckNotRun, Exit: -1, StatusBy: "keeper", Controls: []sallyport.Control{},
			Message: "the change touches nothing that its when: names"}, nil
	}
	base, err := d.onBase(ctx, k) // first: it also warms the caches
	if err != nil {
		return sallyport.CheckResult{}, err
	}
	r, err := d.runCheck(ctx, k, im.Tree, sallyport.PurposeValidate, "")
	if err != nil {
		return r, err
	}
	r.BaseStatus = base
	if back := putBack(k, im.Changes); len(back) > 0 {
		tree, err := d.store.Compose(ctx, im.Tree, d.m.BaseTree, back)
		if err != nil {
			return r, err
		}
		again, err := d.runCheck(ctx, k, tree, sallyport.PurposeValidate, "")
		if err != nil {
			return r, err
		}
		r.BaseTests = again.Status
		r.Message = strings.TrimSpace(r.Message + " the change edits what this check runs by: " + list(back, 5))
	}
	return r, nil
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

// putBack are the changed paths that the check runs by: tests, what its runner loads by itself, and files
// that its command names.
func putBack(k sallyport.Check, changes []sallyport.Change) []string {
	named := map[string]bool{}
	for _, w := range strings.FieldsFunc(k.Run, func(r rune) bool { return strings.ContainsRune(" \t\n'\"=;&|<>()", r) }) {
		named[path.Join(k.Dir, w)] = true
	}
	var back []string
	for _, c := range changes {
		if named[c.Path] || inspect.IsTest(c.Path, k.Tests) || inspect.RunnerConfig(c.Path) {
			back = append(back, c.Path)
		}
	}
	return back
}

// tailLines is how much of a failed check's output a person is shown at once.
const (
	tailLines = 20
	tailBytes = 16 << 10
)

// runCheck runs one check on one tree in a fresh sandbox. Its status is what the kernel told the keeper.
func (d *driver) runCheck(ctx context.Context, k sallyport.Check, tree sallyport.ObjectID, purpose sallyport.Purpose, keep string) (sallyport.CheckResult, error) {
	r := sallyport.CheckResult{Name: k.Name, Run: k.Run, Status: sallyport.CheckError, Exit: -1, Controls: []sallyport.Control{}}
	ws, err := d.workspace(ctx, tree)
	if err != nil {
		return r, err
	}
	limits := d.m.Limits
	limits.Time = k.Timeout
	caches, err := d.caches(keep)
	if err != nil {
		return r, err
	}
	spec := provider.Spec{Purpose: purpose, Workspace: ws, Mounts: d.m.Mounts, Caches: caches, Home: d.m.Home, Limits: limits,
		Command: provider.Command{Argv: []string{"sh", "-c", k.Run}, Dir: filepath.Join(d.m.Repository, k.Dir), Env: d.environment(map[string]string{"CI": "true"})}}
	log := fmt.Sprintf("check-%s-%s", k.Name, purpose)
	exit, err := d.runOnce(ctx, spec, k.Name, log)
	if err != nil {
		return r, err
	}
	r.StatusBy, r.Exit, r.Seconds = exit.By, exit.Code, exit.Seconds
	switch {
	case exit.Cause == "exit" && exit.Code == 0:
		r.Status = sallyport.CheckPassed
	case exit.Cause == "exit" || exit.Cause == "signal":
		r.Status = sallyport.CheckFailed
	case exit.Cause == "runtime":
		r.Status, r.Message = sallyport.CheckFailed, fmt.Sprintf("it did not end within its timeout of %v", k.Timeout)
	case exit.Cause == "memory", exit.Cause == "disk":
		r.Status, r.Message = sallyport.CheckFailed, "it met its "+exit.Cause+" limit"
	default:
		r.Message = screen.Line("it could not be run: " + exit.Cause + " " + exit.Message)
	}
	if r.Status != sallyport.CheckPassed {
		r.Tail = d.tail(log)
	}
	return r, nil
}

// runOnce makes a sandbox for one command, keeps its output and proves the sandbox gone.
func (d *driver) runOnce(ctx context.Context, spec provider.Spec, label, log string) (provider.Exit, error) {
	f, err := d.intend(ctx, spec, label, "")
	if err != nil {
		return provider.Exit{}, err
	}
	rid, err := d.make(ctx, f)
	if err != nil {
		return provider.Exit{}, err
	}
	var exit provider.Exit
	err = d.whileCut(ctx, func() (err error) { exit, err = d.runIn(ctx, f, rid, log); return err })
	if derr := d.destroy(context.WithoutCancel(ctx), f.Spec.Allocation, rid, "its command has ended"); err == nil {
		err = derr
	}
	return exit, err
}

func (d *driver) runIn(ctx context.Context, f frozen, rid sallyport.ResourceID, log string) (provider.Exit, error) {
	w, done, err := d.connect(ctx, f, rid)
	if err != nil {
		return provider.Exit{}, err
	}
	defer done()
	a := f.Spec.Allocation
	if al, err := d.allocation(ctx, a); err != nil {
		return provider.Exit{}, err
	} else if al.State == sallyport.SandboxProvisioning {
		if err := d.record(ctx, journal.Record{Type: lifecycle.AllocationReady, Allocation: a}, journal.Record{Type: lifecycle.AllocationRunning, Allocation: a}); err != nil {
			return provider.Exit{}, err
		}
	}
	if err := w.Start(ctx); err != nil {
		return provider.Exit{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-d.cancelled:
			_ = w.Stop(ctx, "cancelled")
		case <-ctx.Done():
		}
	}()
	if err := d.copyOutput(ctx, w, log); err != nil {
		return provider.Exit{}, err
	}
	return w.Wait(ctx)
}

// tail is the last lines of a log, neutralised.
func (d *driver) tail(log string) string {
	f, err := os.Open(d.logPath(log))
	if err != nil {
		return ""
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return ""
	}
	from := max(fi.Size()-tailBytes, 0)
	b, err := io.ReadAll(io.NewSectionReader(f, from, tailBytes))
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimRight(screen.Text(b), "\n"), "\n")
	if len(lines) > tailLines {
		lines = lines[len(lines)-tailLines:]
	}
	return strings.Join(lines, "\n")
}
