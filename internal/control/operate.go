package control

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/change"
	"sallyport.dev/sallyport/internal/evidence"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/internal/reconcile"
)

// Reconcile looks at what the providers show and what the journal says, and adopts, destroys or reports. It
// returns a line for each thing done or tried in vain, or with dryRun for each that would be. Repeat: converges.
func (c *Control) Reconcile(ctx context.Context, dryRun bool) ([]string, error) {
	seen, err := c.look(ctx)
	if err != nil {
		return nil, err
	}
	var lines []string
	plan := reconcile.Plan(seen.world)
	for _, a := range plan {
		lines = append(lines, said(dryRun, a.String(), a.Done(), func() error { return c.act(ctx, a) }))
	}
	tokens, err := c.reconcileTokens(ctx, dryRun, seen.open)
	lines = append(lines, tokens...)
	if err != nil {
		return lines, err
	}
	all := seen.attempts
	if len(plan) > 0 && !dryRun {
		if all, err = c.journal.Attempts(ctx, true); err != nil {
			return lines, err
		}
	}
	for _, at := range all {
		if at.Report.State == sallyport.AttemptAccepted && free(at.Lease) && c.behind(ctx, at) {
			what := " the summary of " + string(at.Report.Attempt)
			lines = append(lines, said(dryRun, "sign"+what, "signed"+what, func() error { return c.summariseAccepted(ctx, at.Report.Attempt) }))
		}
		if at.Report.State == sallyport.AttemptAwaitingApproval && at.Report.EvidenceDigest == "" && free(at.Lease) {
			what := " the evidence of " + string(at.Report.Attempt)
			lines = append(lines, said(dryRun, "sign"+what, "signed"+what, func() error {
				return c.borrowed(ctx, string(at.Report.Attempt), func(ctx context.Context, d *driver, _ journal.Attempt) error { return d.signAgain(ctx) })
			}))
		}
		if !at.Publishing || !free(at.Lease) {
			continue
		}
		what := " the publication of " + string(at.Report.Attempt)
		lines = append(lines, said(dryRun, "finish"+what, "finished"+what, func() error {
			return c.underLease(ctx, at.Report.Attempt, func(d *driver) error { return d.publish(ctx) })
		}))
	}
	return lines, nil
}

// said is the line about one thing: what is to be done, what was done, or what could not be.
func said(dryRun bool, plan, done string, do func() error) string {
	if dryRun {
		return plan
	}
	if err := do(); err != nil {
		return "could not " + plan + ": " + err.Error()
	}
	return done
}

// seen is what providers and journal show.
type seen struct {
	world    reconcile.World
	open     []journal.Allocation // tokens among them, which no provider lists: reconcileTokens
	attempts []journal.Attempt    // all
}

// look lists first and reads the journal after: since intents come before creates, everything listed is then
// known.
func (c *Control) look(ctx context.Context) (s seen, err error) {
	w := &s.world
	of := map[sallyport.AttemptID]bool{}
	named := map[sallyport.AllocationID]bool{}
	for name, p := range c.providers {
		list, err := p.List(ctx)
		w.Listings = append(w.Listings, reconcile.Listing{Provider: name, Statuses: list, Err: err})
		for _, st := range list {
			named[st.Allocation] = true
			of[st.Attempt] = true
		}
	}
	if s.open, err = c.journal.OpenAllocations(ctx); err != nil {
		return s, err
	}
	have := map[sallyport.AllocationID]bool{}
	for _, al := range s.open {
		if ofToken(al) {
			continue
		}
		w.Allocations = append(w.Allocations, allocationOf(al))
		have[al.ID], of[al.Attempt] = true, true
	}
	if s.attempts, err = c.journal.Attempts(ctx, true); err != nil {
		return s, err
	}
	// Only what is listed and not open can have an end that matters here; mostly there is none.
	maps.DeleteFunc(named, func(id sallyport.AllocationID, _ bool) bool { return have[id] })
	for _, at := range s.attempts {
		if at.Report.State.Ended() && !of[at.Report.Attempt] {
			continue
		}
		w.Attempts = append(w.Attempts, reconcile.Attempt{ID: at.Report.Attempt, State: at.Report.State, Free: free(at.Lease)})
		if len(named) == 0 {
			continue
		}
		allocations, err := c.journal.Allocations(ctx, at.Report.Attempt)
		if err != nil {
			return s, err
		}
		for _, al := range allocations {
			if !ofToken(al) && named[al.ID] {
				w.Allocations = append(w.Allocations, allocationOf(al))
			}
		}
	}
	return s, nil
}

func allocationOf(al journal.Allocation) lifecycle.Allocation {
	return lifecycle.Allocation{ID: al.ID, Attempt: al.Attempt, Purpose: al.Purpose, Label: al.Label, Provider: al.Provider, Spec: al.Spec, Resource: al.Resource, State: al.State, Reason: al.Reason}
}

// act carries out one action. Destructive ones hold the Attempt's lease, so that no driver works beside them.
func (c *Control) act(ctx context.Context, a reconcile.Action) error {
	switch a := a.(type) {
	case reconcile.Adopt:
		return c.StartDriver(ctx, a.Attempt)
	case reconcile.MarkOrphaned:
		return c.underLease(ctx, a.Attempt, func(d *driver) error {
			var records []journal.Record
			if al, err := d.allocation(ctx, a.Allocation); err == nil && al.Resource == "" {
				records = append(records, journal.Record{Type: lifecycle.AllocationBound, Allocation: a.Allocation, Data: lifecycle.Bound{Resource: a.Resource}})
			}
			return d.record(ctx, append(records, journal.Record{Type: lifecycle.AllocationOrphaned, Allocation: a.Allocation, Data: a.Why})...)
		})
	case reconcile.Destroy:
		return c.destroyStray(ctx, a)
	case reconcile.Lookup:
		return c.lookup(ctx, a)
	}
	return nil
}

func (c *Control) destroyStray(ctx context.Context, a reconcile.Destroy) error {
	p, err := c.provider(a.Provider)
	if err != nil {
		return err
	}
	if _, err := c.journal.Attempt(ctx, a.Attempt); sallyport.CodeOf(err) == sallyport.CodeNotFound {
		// It bears our mark and the journal knows nothing of it: nobody has authority over it.
		return p.Destroy(ctx, a.Resource)
	}
	return c.underLease(ctx, a.Attempt, func(d *driver) error {
		d.provider = p
		al, err := d.allocation(ctx, a.Allocation)
		switch {
		case err != nil, al.State == sallyport.SandboxTerminated, al.Resource != "" && al.Resource != a.Resource:
			return p.Destroy(ctx, a.Resource) // nothing more can be recorded of it
		case !slices.Contains([]sallyport.SandboxState{sallyport.SandboxTeardown, sallyport.SandboxFailed, sallyport.SandboxOrphaned}, al.State):
			// To mark it, just before, did not succeed.
			return &sallyport.Error{Op: "destroy", Code: sallyport.CodeConflict, Subject: string(a.Resource), Message: "the journal does not say yet that it is to go", Hint: "`sallyport reconcile` tries again"}
		}
		proof, err := d.erase(ctx, a.Resource)
		if err != nil {
			return err
		}
		return d.gone(ctx, al.ID, proof)
	})
}

// lookup concludes only from the provider's own word.
func (c *Control) lookup(ctx context.Context, a reconcile.Lookup) error {
	p, err := c.provider(a.Provider)
	if err != nil {
		return err
	}
	if a.Resource == "" {
		return c.neverMade(ctx, p, a)
	}
	_, err = p.Lookup(ctx, a.Resource)
	if sallyport.CodeOf(err) != sallyport.CodeNotFound {
		return err
	}
	return c.underLease(ctx, a.Attempt, func(d *driver) error {
		al, err := d.allocation(ctx, a.Allocation)
		if err != nil {
			return err
		}
		var records []journal.Record
		if _, err := lifecycle.NextSandbox(al.State, lifecycle.AllocationFailed); err == nil { // else it is on record what went wrong
			records = append(records, journal.Record{Type: lifecycle.AllocationFailed, Allocation: a.Allocation, Data: sallyport.Reason{Code: "vanished", Message: "it was ended from outside"}})
		}
		return d.record(ctx, append(records, journal.Record{Type: lifecycle.AllocationTerminated, Allocation: a.Allocation, Data: sallyport.Reason{Code: "gone", Message: "the provider shows nothing"}})...)
	})
}

// neverMade ends an Allocation whose Create was never answered, once its Attempt has ended: as a driver does, by another
// list. What turns up all the same, because a Create was late, is orphaned and destroyed like anything else.
func (c *Control) neverMade(ctx context.Context, p provider.Provider, a reconcile.Lookup) error {
	return c.underLease(ctx, a.Attempt, func(d *driver) error {
		at, err := d.attempt(ctx)
		if err != nil || !at.Report.State.Ended() {
			return err // its next driver goes on from there
		}
		al, err := d.allocation(ctx, a.Allocation)
		if err != nil || al.State == sallyport.SandboxTerminated {
			return err
		}
		d.provider = p
		return d.drop(ctx, al, "the attempt has ended")
	})
}

// underLease does one thing as an Attempt's holder.
func (c *Control) underLease(ctx context.Context, id sallyport.AttemptID, do func(d *driver) error) error {
	holder, err := journal.SelfHolder()
	if err != nil {
		return err
	}
	lease, err := c.journal.Acquire(ctx, id, holder, leaseTTL, journal.DeadOnThisHost)
	if err != nil {
		return err
	}
	d := &driver{c: c, id: id, lease: lease, wires: map[provider.Wire]struct{}{}, cancelled: make(chan struct{})}
	defer func() { _ = c.journal.Release(context.WithoutCancel(ctx), lease) }()
	return do(d)
}

// Fsck judges the state folder: the journal's chain and projections, every signed checkpoint against it, the
// bytes in quarantine, manifests and evidence against their digests, and that no sandbox is without
// authority. The lines say what was looked at; the error, if any, is the first fault.
func (c *Control) Fsck(ctx context.Context) ([]string, error) {
	var lines []string
	var first error
	fault := func(format string, args ...any) {
		s := fmt.Sprintf(format, args...)
		lines = append(lines, "FAULT "+s)
		if first == nil {
			first = &sallyport.Error{Op: "fsck", Code: sallyport.CodeCorrupt, Message: s, Hint: "keep the state folder as it is and look at it before anything else runs"}
		}
	}
	if err := c.journal.Check(ctx); err != nil {
		fault("journal: %v", err)
		return lines, first
	}
	seq, _, err := c.journal.Head(ctx)
	if err != nil {
		return lines, err
	}
	lines = append(lines, fmt.Sprintf("journal: chain of %d events is whole and its projections agree", seq))
	all, err := c.journal.Attempts(ctx, true)
	if err != nil {
		return lines, err
	}
	signed, bundles, logs := 0, 0, 0
	for _, at := range all {
		r := at.Report
		if _, err := c.manifest(r.Manifest); err != nil {
			fault("manifest of %s: %v", r.Attempt, err)
		}
		if r.Bundle != "" {
			if err := c.checkBundle(r.Bundle); err != nil {
				fault("quarantine of %s: %v", r.Attempt, err)
			}
			bundles++
		}
		if r.Evidence != "" {
			behind, err := c.checkEvidence(ctx, at)
			if err != nil {
				fault("evidence of %s: %v", r.Attempt, err)
			}
			if behind {
				lines = append(lines, fmt.Sprintf("to reconcile: the summary of %s does not say yet that it was accepted", r.Attempt))
			}
			signed++
		}
		n, err := c.checkLogs(at)
		if err != nil {
			fault("logs of %s: %v", r.Attempt, err)
		}
		logs += n
	}
	if err := c.checkpoints(ctx, fault); err != nil {
		return lines, err
	}
	lines = append(lines, fmt.Sprintf("attempts: %d; %d results in quarantine, %d signed statements with checkpoints and summaries, %d logs", len(all), bundles, signed, logs))
	seen, err := c.look(ctx)
	if err != nil {
		return lines, err
	}
	tokens, err := c.reconcileTokens(ctx, true, seen.open)
	if err != nil {
		return lines, err
	}
	for _, t := range tokens {
		lines = append(lines, "to reconcile: "+t)
	}
	for _, a := range reconcile.Plan(seen.world) {
		lines = append(lines, "to reconcile: "+a.String())
		if _, ok := a.(reconcile.Adopt); !ok {
			fault("%s", a)
		}
	}
	return lines, first
}

func (c *Control) checkBundle(d sallyport.Digest) error {
	f, err := os.Open(c.quarantinePath(d))
	if os.IsNotExist(err) {
		return fmt.Errorf("%s is missing", d)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	sum, _, err := sumFile(f)
	if err == nil && sum != d {
		err = fmt.Errorf("%s has the bytes of %s", d, sum)
	}
	return err
}

// checkLogs compares the logs that are still there with what was recorded of them, and counts them. Of an Attempt
// that is being worked on none is compared: they may be written anew.
func (c *Control) checkLogs(at journal.Attempt) (n int, err error) {
	if !at.Report.State.Ended() {
		return 0, nil
	}
	var differ []string
	for _, l := range at.Logs {
		f, err := os.Open(c.logPath(at.Report.Attempt, l.Name))
		if os.IsNotExist(err) {
			continue // removed by retention, or by hand
		}
		if err != nil {
			return n, err
		}
		sum, bytes, err := sumFile(f)
		f.Close()
		if err != nil {
			return n, err
		}
		if n++; sum != l.Digest || bytes != l.Bytes {
			differ = append(differ, l.Name)
		}
	}
	if len(differ) > 0 {
		return n, fmt.Errorf("not as they were recorded: %s", strings.Join(differ, ", "))
	}
	return n, nil
}

// checkEvidence verifies a statement, that it is the one the journal names, its checkpoint and its summary. Behind:
// the summary is still to follow the journal.
func (c *Control) checkEvidence(ctx context.Context, at journal.Attempt) (behind bool, err error) {
	b, err := os.ReadFile(at.Report.Evidence)
	if err != nil {
		return false, err
	}
	v, err := evidence.Verify(b, c.keys.Keys(), evidence.Expect{Attempt: at.Report.Attempt, Manifest: at.Report.Manifest})
	if err != nil {
		return false, err
	}
	if v.Envelope != at.Report.EvidenceDigest {
		return false, fmt.Errorf("%s is not the envelope that the journal recorded", at.Report.Evidence)
	}
	if err := c.checkpoint(ctx, v.Statement.Predicate.Journal.Note); err != nil {
		return false, err
	}
	return c.checkSummary(ctx, at, v)
}

// checkpoints judges the journal against every statement in the state folder, also those that it does not name
// (any more): an older copy that was put back has no Attempt for a later one's checkpoint.
func (c *Control) checkpoints(ctx context.Context, fault func(string, ...any)) error {
	files, err := filepath.Glob(filepath.Join(c.cfg.State, "attempts", "*", "evidence-*.json"))
	if err != nil {
		return err
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if os.IsNotExist(err) {
			continue // superseded since the folder was read
		}
		if err != nil {
			return stateError(f, err)
		}
		v, err := evidence.Verify(b, c.keys.Keys(), evidence.Expect{Attempt: sallyport.AttemptID(filepath.Base(filepath.Dir(f)))})
		if err != nil {
			fault("statement %s: %v", f, err)
			continue
		}
		if err := c.checkpoint(ctx, v.Statement.Predicate.Journal.Note); err != nil {
			fault("statement %s: %v", f, err)
		}
	}
	return nil
}

// checkpoint reports an error unless the journal still has the event that the signed note names.
func (c *Control) checkpoint(ctx context.Context, note string) error {
	head, err := evidence.VerifyCheckpoint(note, c.origin(), c.keys.Keys())
	if err != nil {
		return err
	}
	events, err := c.journal.Events(ctx, "", head.Seq-1, 1)
	if err != nil {
		return err
	}
	if len(events) != 1 || events[0].Seq != head.Seq || events[0].Hash != head.Hash {
		return fmt.Errorf("the journal does not hold event %d as it was signed: it was cut or rewritten", head.Seq)
	}
	return nil
}

// The retention of what ended Attempts leave.
const (
	keepEnded    = 14 * 24 * time.Hour
	keepCheckout = 4 << 30 // bytes of cached checkouts
)

// GC removes what nobody needs any more: layers and logs of Attempts that ended long ago, quarantined bytes
// that no kept Attempt names, and checkouts beyond the cache's size. The journal is never cut.
func (c *Control) GC(ctx context.Context, dryRun bool) ([]string, error) {
	all, err := c.journal.Attempts(ctx, true)
	if err != nil {
		return nil, err
	}
	var lines []string
	kept := map[string]bool{}
	repos := map[string]bool{}
	driven := 0
	for _, at := range all {
		if !at.Report.State.Ended() || !free(at.Lease) {
			driven++ // also an ended one of which somebody runs a check again, or has a shell on it
		}
		repos[at.Report.Repository] = true
		if at.Report.Bundle != "" {
			kept[at.Report.Bundle.Hex()] = true
		}
		dir := filepath.Join(c.attemptFolder(at.Report.Attempt), "layers")
		if _, err := os.Lstat(dir); err == nil && at.Report.State.Ended() && free(at.Lease) {
			lines = append(lines, "remove layers of "+string(at.Report.Attempt))
			if !dryRun {
				if err := os.RemoveAll(dir); err != nil {
					return lines, stateError(dir, err)
				}
			}
		}
	}
	strays, err := os.ReadDir(filepath.Join(c.cfg.State, "quarantine"))
	if err != nil {
		return lines, stateError("quarantine", err)
	}
	for _, e := range strays {
		fi, err := e.Info()
		if err != nil || kept[e.Name()] || time.Since(fi.ModTime()) < time.Hour {
			continue
		}
		lines = append(lines, "remove unnamed quarantine file "+e.Name())
		if !dryRun {
			_ = os.Remove(filepath.Join(c.cfg.State, "quarantine", e.Name()))
		}
	}
	halves, err := c.halfWritten()
	if err != nil {
		return lines, err
	}
	for _, h := range halves {
		lines = append(lines, "remove half-written file "+h)
		if !dryRun {
			_ = os.RemoveAll(h)
		}
	}
	if driven > 0 {
		return append(lines, fmt.Sprintf("cached checkouts and cache layers are left alone: %d attempts are being worked on", driven)), nil
	}
	for _, gc := range []func(bool) ([]string, error){c.gcCaches, c.gcSetups} {
		more, err := gc(dryRun)
		lines = append(lines, more...)
		if err != nil {
			return lines, err
		}
	}
	for _, path := range slices.Sorted(maps.Keys(repos)) {
		line, err := c.gcCheckouts(ctx, path, dryRun)
		if err != nil {
			return lines, err
		}
		lines = append(lines, line...)
	}
	return lines, nil
}

// gcCheckouts removes a repository's cached checkouts beyond the cache's size.
func (c *Control) gcCheckouts(ctx context.Context, path string, dryRun bool) ([]string, error) {
	repo, err := change.Open(ctx, path)
	if err != nil {
		return nil, nil // the repository is gone; its store is small
	}
	s, err := c.store(ctx, repo)
	if err != nil {
		return nil, err
	}
	bytes, err := s.Evictable(keepCheckout)
	if err == nil && !dryRun {
		_, err = s.Evict(ctx, keepCheckout) // also what broken builds left
	}
	if err != nil || bytes == 0 {
		return nil, err
	}
	return []string{fmt.Sprintf("remove %d bytes of cached checkouts of %s", bytes, path)}, nil
}

// halfWritten are the temporary files and folders that a crash left, old enough that nobody writes them any more: of durable
// writes, under renameio's names (.NAME.json and digits), of what a store gives git to read, and of stores that were being made.
func (c *Control) halfWritten() ([]string, error) {
	var old []string
	for _, pattern := range []string{"attempts/*/.*.json[0-9]*", "manifests/.*.json[0-9]*", "base-checks/.*.json[0-9]*", "setup/*/.*.json[0-9]*", "checks/.*.json[0-9]*", "local/.*.json[0-9]*", ".*.json[0-9]*",
		"repos/*/*/spool-*.tmp", "repos/*/*/attributes-*.tmp", "repos/*/*/shallow-*.tmp", "repos/*/*/new-*", "repos/*/*/tmp/incoming-*", "repos/*/*/git/.new-*", "repos/*/*/git/objects/info/.new-*"} {
		found, err := filepath.Glob(filepath.Join(c.cfg.State, pattern))
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			if fi, err := os.Lstat(f); err == nil && (fi.Mode().IsRegular() || fi.IsDir()) && time.Since(fi.ModTime()) > time.Hour {
				old = append(old, f)
			}
		}
	}
	return old, nil
}

// hashFile is a file's digest, for doctor.
func hashFile(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return ""
	}
	return strings.TrimPrefix(string(sallyport.DigestOf([32]byte(h.Sum(nil)))), "sha256:")[:12]
}
