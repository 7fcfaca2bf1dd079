package control

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/agent"
	"sallyport.dev/sallyport/internal/change"
	"sallyport.dev/sallyport/internal/id"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/internal/screen"
	"sallyport.dev/sallyport/internal/secret"
)

// LogAgent names the agent's output in an Attempt's folder.
const LogAgent = "agent"

// execute has the agent run and its result in quarantine when it returns: whichever part of that an earlier
// driver has left to do.
func (d *driver) execute(ctx context.Context) error {
	at, err := d.attempt(ctx)
	if err != nil || at.Report.Bundle != "" {
		return err
	}
	if err := d.stage(ctx, sallyport.AttemptPreparing); err != nil {
		return err
	}
	f, rid, co, err := d.executor(ctx, at)
	if err != nil {
		return err
	}
	d.startBaseChecks(ctx)
	return d.standingOn(ctx, co, func(ctx context.Context) error {
		return d.whileCut(ctx, func() error {
			if ended, err := d.collected(ctx, f.Spec.Allocation); ended || err != nil {
				return err
			}
			w, done, err := d.connect(ctx, f, rid)
			if err != nil {
				return err
			}
			defer done()
			if err := d.begin(ctx, f, w); err != nil {
				return err
			}
			exit, err := d.follow(ctx, f, w)
			if err != nil {
				return err
			}
			if err := co.Verified(ctx); err != nil {
				return err
			}
			return d.collect(ctx, f, rid, w, exit)
		})
	})
}

// collected reports whether the result is in quarantine, and ends the sandbox that it came from: what failed before may have been
// no wire but the record of that end, and then there is nobody to connect to any more.
func (d *driver) collected(ctx context.Context, a sallyport.AllocationID) (bool, error) {
	at, err := d.attempt(ctx)
	if err != nil || at.Report.Bundle == "" {
		return false, err
	}
	al, err := d.allocation(ctx, a)
	if err != nil || al.State == sallyport.SandboxTerminated {
		return true, err
	}
	return true, d.drop(ctx, al, "the result is in quarantine")
}

// cuts is how often the other end of a wire may be lost before its sandbox is given up.
const cuts = 4

// whileCut repeats what a later driver would do, where the wire was cut or the end of something in the sandbox is
// not known: the keeper or the collector may have been ended from outside. Giving up destroys the workspace, so
// it is not done at the first sign.
func (d *driver) whileCut(ctx context.Context, do func() error) error {
	for try := 1; ; try++ {
		err := do()
		code := sallyport.CodeOf(err)
		if err == nil || ctx.Err() != nil || try == cuts || (code != sallyport.CodeUnavailable && code != sallyport.CodeUnknown) {
			return err
		}
		var r reasoned
		if errors.As(err, &r) || errors.Is(err, errCancelled) {
			return err // a person's reason, and nothing that is unknown
		}
		if err := d.closeGateway(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(try) * 100 * time.Millisecond):
		}
	}
}

// executor is the sandbox that runs the agent, and the checkout that it stands on: the one an earlier driver
// intended, or a new one.
func (d *driver) executor(ctx context.Context, at journal.Attempt) (frozen, sallyport.ResourceID, change.Checkout, error) {
	f, rid, co, err := d.intendedExecutor(ctx)
	if err != nil {
		return f, "", co, err
	}
	if f.Spec.Allocation == "" {
		if f, co, err = d.intendExecutor(ctx, at); err != nil {
			return f, "", co, err
		}
		if d.isCancelled() {
			return f, "", co, errCancelled
		}
	}
	if rid == "" {
		rid, err = d.makeOn(ctx, f, co)
	}
	return f, rid, co, err
}

// intendedExecutor is the one an earlier driver intended, if any; without a resource it is still to be made.
func (d *driver) intendedExecutor(ctx context.Context) (f frozen, rid sallyport.ResourceID, co change.Checkout, err error) {
	allocations, err := d.c.journal.Allocations(ctx, d.id)
	if err != nil {
		return f, "", co, err
	}
	i := slices.IndexFunc(allocations, func(al journal.Allocation) bool { return al.Purpose == sallyport.PurposeExecute })
	if i < 0 {
		return f, "", co, nil
	}
	al := allocations[i]
	if al.State == sallyport.SandboxTerminated {
		return f, "", co, because("sandbox-lost", fmt.Sprintf("`sallyport retry %s` starts a new Attempt", screen.Short(d.id)), "the sandbox is gone and its result was not collected: %s", al.Reason.Message)
	}
	if f, err = d.thaw(al.ID); err != nil {
		return f, "", co, err
	}
	if co, err = d.sameCheckout(f.Spec.Workspace); err != nil {
		return f, "", co, err
	}
	if al.State != sallyport.SandboxProvisioning {
		rid = al.Resource
	}
	return f, rid, co, nil
}

func (d *driver) intendExecutor(ctx context.Context, at journal.Attempt) (f frozen, co change.Checkout, err error) {
	limits := d.m.Limits
	if limits.Time, err = d.remaining(ctx); err != nil {
		return f, co, err
	}
	if err := d.affordable(ctx); err != nil {
		return f, co, err
	}
	ws, co, err := d.workspace(ctx, at.StartTree)
	if err != nil {
		return f, co, err
	}
	ws.Collect = true
	caches, err := d.caches("")
	if err != nil {
		return f, co, err
	}
	if caches, err = d.showSetup(ctx, at.StartTree, &ws, caches); err != nil {
		return f, co, err
	}
	copies, err := d.copies(ctx)
	if err != nil {
		return f, co, err
	}
	if copies != "" {
		ws.Layers = append([]string{copies}, ws.Layers...)
	}
	task := agent.Task{Text: d.m.Task, Terminal: d.m.Terminal, Home: d.m.Home, Repository: d.m.Repository}
	var files []provider.File
	if at.Feedback != "" {
		task.Feedback = provider.FilesFolder + "/feedback.md"
		files = append(files, provider.File{Name: "feedback.md", Data: []byte(at.Feedback)})
	}
	var placeholders []string
	if d.m.Agent.Endpoint != nil {
		raw, err := id.Secret()
		if err != nil {
			return f, co, err
		}
		task.Placeholder = "sallyport-placeholder-" + raw
	}
	started, err := agent.Build(d.m.Agent, task)
	if err != nil {
		return f, co, err
	}
	for k, v := range started.Env {
		if task.Placeholder != "" && strings.Contains(v, task.Placeholder) {
			placeholders = append(placeholders, k)
		}
	}
	for path, data := range started.Files {
		files = append(files, provider.File{Name: strings.TrimPrefix(path, provider.FilesFolder+"/"), Data: data})
	}
	env := d.environment(started.Env)
	redirect, err := d.redirects(ctx, proxied(d.m))
	if err != nil {
		return f, co, err
	}
	maps.Copy(env, proxyEnvironment(d.m, redirect))
	h := held{Placeholder: task.Placeholder}
	if opensTLS(d.m) {
		if h.Authority, err = id.Secret(); err != nil {
			return f, co, err
		}
		more, told, err := trusting(h.Authority, d.m.Path)
		if err != nil {
			return f, co, err
		}
		files = append(files, more...)
		maps.Copy(env, told)
	}
	if d.m.Terminal {
		env["TERM"] = "xterm-256color"
	}
	spec := provider.Spec{Purpose: sallyport.PurposeExecute, Workspace: ws, Mounts: d.m.Mounts, Caches: caches, Home: d.m.Home, Limits: limits, EgressPort: wayOut(d.m), Redirect: redirect,
		Command: provider.Command{Argv: started.Argv, Dir: filepath.Join(d.m.Repository, d.m.Subfolder), Env: env, Terminal: d.m.Terminal, Files: files, Placeholders: placeholders}}
	if err := d.layPlaceholders(&spec.Command); err != nil {
		return f, co, err
	}
	if f, err = d.intend(ctx, spec, d.m.Agent.Name, h); err != nil {
		return f, co, err
	}
	if err := d.tellRepository(ctx); err != nil {
		return f, co, err
	}
	return f, co, d.tellSkipped(ctx)
}

// dropLayers removes what layer made, once no sandbox shows it any more. Another driver makes it again.
func (d *driver) dropLayers() {
	_ = os.RemoveAll(filepath.Join(d.c.attemptFolder(d.id), "layers"))
}

// begin records the containment receipt and starts the command; credentials become live just before.
func (d *driver) begin(ctx context.Context, f frozen, w provider.Wire) error {
	al, err := d.allocation(ctx, f.Spec.Allocation)
	if err != nil {
		return err
	}
	if al.State == sallyport.SandboxProvisioning {
		layers, err := w.Layers(ctx)
		if err != nil {
			return err
		}
		if err := d.record(ctx, journal.Record{Type: lifecycle.AttemptLayers, Data: lifecycle.Layers{Layers: layers}},
			journal.Record{Type: lifecycle.AllocationReady, Allocation: al.ID}); err != nil {
			return err
		}
	}
	if err := d.openGateway(ctx, f, w); err != nil {
		if al.State == sallyport.SandboxProvisioning || al.State == sallyport.SandboxReady || sallyport.CodeOf(err) == sallyport.CodeFenced {
			return err
		}
		// It has run: the command may have ended meanwhile, and what it left is still to be collected.
		if err := d.notice(ctx, "%s", screen.Line("the way out is not open any more: "+err.Error())); err != nil {
			return err
		}
	}
	if al.State == sallyport.SandboxProvisioning || al.State == sallyport.SandboxReady {
		if err := d.stage(ctx, sallyport.AttemptRunning); err != nil {
			return err
		}
		if err := d.record(ctx, journal.Record{Type: lifecycle.AllocationRunning, Allocation: al.ID}); err != nil {
			return err
		}
	} else if err := d.stage(ctx, sallyport.AttemptRunning); err != nil {
		return err
	}
	// Start is remembered by the sandbox: a later driver that repeats it starts nothing twice.
	err = w.Start(ctx)
	go secret.Warm() // while the agent works, so that inspecting need not wait for it
	return err
}

func (d *driver) allocation(ctx context.Context, a sallyport.AllocationID) (journal.Allocation, error) {
	all, err := d.c.journal.Allocations(ctx, d.id)
	if err != nil {
		return journal.Allocation{}, err
	}
	for _, al := range all {
		if al.ID == a {
			return al, nil
		}
	}
	return journal.Allocation{}, &sallyport.Error{Op: "read journal", Code: sallyport.CodeNotFound, Subject: string(a)}
}

// follow copies the agent's output and waits for its end. A cut wire is opened again: nothing is lost, since
// the output is read by offset and the end is recorded outside.
func (d *driver) follow(ctx context.Context, f frozen, w provider.Wire) (provider.Exit, error) {
	stop := d.serveTerminal(ctx, f, w)
	defer stop()
	copied := make(chan error, 1)
	go func() { copied <- d.copyOutput(ctx, w, LogAgent) }()
	exits := make(chan provider.Exit, 1)
	failed := make(chan error, 1)
	go func() {
		e, err := d.ended(ctx, w)
		if err != nil {
			failed <- err
			return
		}
		exits <- e
	}()
	cancelled, overspent := d.cancelled, d.overspent()
	for {
		select {
		case <-overspent:
			overspent = nil
			if err := d.closeGateway(ctx); err != nil {
				return provider.Exit{}, err
			}
			go func() { _ = w.Stop(ctx, "spend") }()
		case <-cancelled:
			cancelled = nil
			if err := d.closeGateway(ctx); err != nil {
				return provider.Exit{}, err
			}
			go func() { _ = w.Stop(ctx, "cancelled") }()
		case err := <-failed:
			return provider.Exit{}, err
		case e := <-exits:
			if err := d.closeGateway(ctx); err != nil {
				return e, err
			}
			return e, <-copied
		}
	}
}

// collect brings the change into quarantine and ends the sandbox. The order is the promise: file durable,
// folder durable, journal durable, and only then anything is torn down.
func (d *driver) collect(ctx context.Context, f frozen, rid sallyport.ResourceID, w provider.Wire, exit provider.Exit) error {
	a := f.Spec.Allocation
	records := []journal.Record{{Type: lifecycle.AttemptAgent, Data: agentResult(exit, d.isCancelled(), d.isSpentOut())}}
	if exit.Cause == "runtime" && exit.Message != "" {
		records = append(records, journal.Record{Type: lifecycle.AttemptNotice, Data: lifecycle.Notice{Text: screen.Line("the agent met its runtime limit; " + exit.Message)}})
	}
	if err := d.record(ctx, records...); err != nil {
		return err
	}
	if err := d.stage(ctx, sallyport.AttemptCollecting); err != nil {
		return err
	}
	if exit.Started {
		digest, n, err := d.quarantine(ctx, w)
		if err != nil {
			return err
		}
		if err := d.record(ctx, journal.Record{Type: lifecycle.AttemptBundle, Data: lifecycle.Bundle{Digest: digest, Bytes: n}},
			journal.Record{Type: lifecycle.AllocationResult, Allocation: a}); err != nil {
			return err
		}
	}
	if err := d.destroy(ctx, a, rid, "the result is in quarantine"); err != nil {
		return err
	}
	if !exit.Started {
		if d.isCancelled() {
			return errCancelled
		}
		return because("agent-not-started", "see `sallyport doctor`, or give the folder under tools:", "the agent could not be started: %s", screen.Line(exit.Message))
	}
	return nil
}

func agentResult(e provider.Exit, cancelled, spentOut bool) sallyport.AgentResult {
	r := sallyport.AgentResult{Exit: e.Code, Signal: e.Signal, Ended: e.Cause, By: e.By, Output: e.Output, Dropped: e.Dropped}
	if cancelled && e.Cause == "stopped" {
		r.Ended = "cancelled"
	} else if spentOut && (e.Cause == "stopped" || e.Cause == "exit" || e.Cause == "signal") {
		r.Ended = "spend" // also where it took the refusal for the end, and ended by itself
	}
	return r
}

// collectGrace is what a collection still gets once a person has cancelled: a small result is kept, and nobody
// waits for a huge one.
const collectGrace = 10 * time.Second

// untilCancelled is a context that also ends, for errCancelled, a grace after a person's cancel. The caller stops
// it.
func (d *driver) untilCancelled(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-ctx.Done():
			return
		case <-d.cancelled:
		}
		select {
		case <-ctx.Done():
		case <-time.After(collectGrace):
			cancel(errCancelled)
		}
	}()
	return ctx, func() { cancel(nil) }
}

// quarantine receives the change stream under a name that is its digest.
func (d *driver) quarantine(ctx context.Context, w provider.Wire) (sallyport.Digest, int64, error) {
	dir := filepath.Dir(d.c.quarantinePath(sallyport.Sum(nil)))
	// Under a name of this holder's own: a late one that goes on writing writes into something else.
	tmp := filepath.Join(dir, fmt.Sprintf("%s-%d.tmp", d.id, d.current().Fence))
	left, err := filepath.Glob(filepath.Join(dir, string(d.id)+"-*.tmp"))
	if err != nil {
		return "", 0, err
	}
	for _, l := range left {
		if err := os.Remove(l); err != nil && !os.IsNotExist(err) {
			return "", 0, stateError(l, err)
		}
	}
	file, err := os.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return "", 0, stateError(tmp, err)
	}
	defer file.Close()
	collecting, stop := d.untilCancelled(ctx)
	defer stop()
	if err := w.Collect(collecting, file); err != nil {
		_ = os.Remove(tmp)
		if errors.Is(context.Cause(collecting), errCancelled) {
			err = errors.Join(errCancelled, d.notice(ctx, "the result was not collected within %v of the cancel, and ended with its sandbox", collectGrace))
		}
		return "", 0, err
	}
	if err := file.Sync(); err != nil {
		return "", 0, stateError(tmp, err)
	}
	digest, n, err := sumFile(file)
	if err != nil {
		return "", 0, err
	}
	if err := os.Rename(tmp, d.c.quarantinePath(digest)); err != nil {
		return "", 0, stateError(tmp, err)
	}
	return digest, n, syncFolder(dir)
}

// agentFailure says why an agent's end is a failed Attempt; nil for a good end.
func agentFailure(r sallyport.AgentResult, id sallyport.AttemptID) error {
	hint := fmt.Sprintf("`sallyport logs %s` shows what it said; `sallyport retry %s` goes on from what it left", screen.Short(id), screen.Short(id))
	switch r.Ended {
	case "exit":
		if r.Exit == 0 {
			return nil
		}
		return because("agent-failed", hint, "the agent ended with status %d", r.Exit)
	case "cancelled":
		return errCancelled
	case "signal":
		return because("agent-failed", hint, "the agent was ended by %s", r.Signal)
	case "runtime", "memory", "disk":
		return because("limit", "raise limits."+map[string]string{"runtime": "time", "memory": "memory", "disk": "disk"}[r.Ended]+", or give a smaller task; "+hint, "the agent met its %s limit", r.Ended)
	case "spend":
		return because("spend", fmt.Sprintf("raise it with `sallyport run --spend`, or give a smaller task; `sallyport logs %s` shows what it said", screen.Short(id)), "the agent met its spend limit")
	case "lease":
		return because("lease-expired", hint, "nobody drove the Attempt for %v, so its agent was stopped", sandboxTTL)
	default:
		return because("sandbox-lost", hint, "the sandbox was ended from outside (%s)", r.Ended)
	}
}
