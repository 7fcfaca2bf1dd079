package keeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/internal/runner"
)

// Collect implements wire.Host: ends the command, then runs the collector in a sandbox of its own over what
// the command left, once; the change stream is kept, so that a repeat sends the same bytes.
func (k *keeper) Collect(ctx context.Context, w io.Writer) error {
	if !k.setup.Spec.Workspace.Collect {
		return &sallyport.Error{Op: "collect", Code: sallyport.CodeUnsupported, Message: "this sandbox was not made to be collected"}
	}
	if err := k.Stop(ctx, "collect"); err != nil {
		return err
	}
	k.collecting.Lock()
	defer k.collecting.Unlock()
	f, err := k.dir.Open(FileBundle)
	if os.IsNotExist(err) {
		if err = k.bundle(); err == nil {
			f, err = k.dir.Open(FileBundle)
		}
	}
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}

// bundle makes the bundle, once. A refusal is the same for every repeat. After a failure of another kind a
// repeat may go better, but detached mounts can be attached only once: this keeper ends, everything being
// durable, and the next Connect starts another with a new set.
func (k *keeper) bundle() error {
	if k.refused != nil {
		return k.refused
	}
	err := k.makeBundle()
	switch sallyport.CodeOf(err) {
	case sallyport.CodeExhausted, sallyport.CodeInvalid, sallyport.CodeCorrupt:
		k.refused = err
	default:
		if err != nil && len(k.again) > 0 {
			k.refused = &sallyport.Error{Op: "collect", Code: sallyport.CodeUnavailable, Message: "the keeper is being replaced: connect again", Err: err}
			time.AfterFunc(retireAfter, func() { os.Exit(0) })
		}
	}
	return err
}

// retireAfter lets the failure reach whoever asked.
const retireAfter = 200 * time.Millisecond

// bundleSlack is what the stream's own records may add to the content that the disk limit bounds.
const bundleSlack = 64 << 20

func (k *keeper) makeBundle() error {
	tmp := FileBundle + ".tmp"
	f, err := k.dir.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	done := make(chan error, 1)
	go func() { done <- k.runCollector(w) }()
	limit := k.setup.Spec.Limits.Disk + bundleSlack
	n, err := io.Copy(f, io.LimitReader(r, limit+1))
	if err == nil && n > limit {
		err = &sallyport.Error{Op: "collect", Code: sallyport.CodeExhausted, Message: fmt.Sprintf("the change is larger than the disk limit of %d bytes", k.setup.Spec.Limits.Disk)}
	}
	r.Close()
	if cerr := <-done; err == nil {
		err = cerr
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = k.dir.Rename(tmp, FileBundle)
	}
	if err == nil {
		err = k.syncFolder()
	}
	return err
}

// collectPatience is ample for the largest change that is taken.
const collectPatience = 15 * time.Minute

// runCollector starts the runner on a root that shows less of the host, with the command's powers gone and the workspace still.
func (k *keeper) runCollector(result *os.File) error {
	defer result.Close()
	plan, err := runner.ReadPlan(k.collector)
	if err != nil {
		return err
	}
	plan.Collect = collectPlan(k.setup.Spec.Workspace, plan)
	plan.EgressPort, plan.Redirect = 0, false
	// Only the tree and its git folder: what else was mounted below the workspace is not collected, and its
	// mount points may have been moved by the command.
	plan.Overlays = slices.DeleteFunc(slices.Clone(plan.Overlays), func(o runner.Overlay) bool {
		return o.Target != plan.Collect.Workspace && o.Target != plan.Collect.GitDir
	})
	for i, o := range plan.Overlays {
		plan.Overlays[i].Copied = slices.Contains(k.copied, o.Target)
	}
	plan.Collect.Whole = slices.Contains(k.copied, plan.Collect.Workspace)
	// The lowest layer is the base itself; its ignore rules count.
	base := plan.Collect.Lowers[len(plan.Collect.Lowers)-1]
	plan.Binds = append(slices.Clone(plan.Binds), runner.Bind{Source: base, Target: runner.BaseFolder})
	memory, err := runner.PlanFile(*plan)
	if err != nil {
		return err
	}
	defer memory.Close()
	s, err := k.onMain(func() (*sandbox, error) { return k.startRunner(true) })
	if err != nil {
		return err
	}
	// The command is born in the group by itself; PID 1 only reaps, and moving a process waits for every
	// processor. The collector works on what the command left, so it is held as well.
	// Already dead: nothing is left to hold; its report, or the lack of one, says why.
	if err := k.cgroup.MoveProcess(s.cmd.Process.Pid); err != nil && !errors.Is(err, unix.ESRCH) {
		s.kill()
		return err
	}
	_, _, err = s.hear()
	if err == nil {
		err = k.noteSelf(s)
	}
	if err == nil {
		err = s.name(k.setup.Spec.Allocation)
	}
	if err != nil {
		s.kill()
		return err
	}
	given := s.give(runner.Handed{Plan: memory, Log: k.log, Result: result, Sources: k.again})
	if _, _, err := s.built(given); err != nil {
		return err
	}
	defer s.kill()
	result.Close()
	select {
	case <-s.gone:
	case <-time.After(collectPatience):
		return &sallyport.Error{Op: "collect", Code: sallyport.CodeExhausted, Message: fmt.Sprintf("what the command left could not be read within %v", collectPatience)}
	}
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		why := fmt.Sprintf("the collector ended with status %d", code)
		if r, _, err := receiveReady(s.control); err == nil && r.Error != "" {
			why = r.Error[:min(len(r.Error), 1000)]
		}
		return &sallyport.Error{Op: "collect", Code: runner.CollectCode(code), Message: why}
	}
	return nil
}

// collectPlan finds the workspace's overlay among the plan's.
func collectPlan(ws provider.Workspace, plan *runner.Plan) *runner.CollectPlan {
	c := &runner.CollectPlan{Workspace: ws.Path, Base: ws.Base}
	for _, o := range plan.Overlays {
		switch o.Target {
		case ws.Path:
			// What lies beside the tree is nothing that it could be compared with.
			c.Upper, c.Lowers = o.Upper, o.Lowers[:len(ws.Layers)]
		case ws.Path + "/.git":
			c.GitDir = o.Target
		}
	}
	return c
}
