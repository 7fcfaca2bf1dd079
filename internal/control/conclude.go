package control

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/change"
	"sallyport.dev/sallyport/internal/decision"
	"sallyport.dev/sallyport/internal/evidence"
	"sallyport.dev/sallyport/internal/inspect"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/internal/pulltext"
	"sallyport.dev/sallyport/internal/screen"
)

// Version is Sallyport's own, in evidence.
const Version = "0.1.0"

// conclude signs what was observed, decides, and publishes what is accepted.
func (d *driver) conclude(ctx context.Context) error {
	d.stopBaseChecks() // nothing is recorded any more beside what is signed
	at, err := d.attempt(ctx)
	if err != nil {
		return err
	}
	if err := d.stage(ctx, sallyport.AttemptDeciding); err != nil {
		return err
	}
	if err := d.tellRedacted(ctx); err != nil {
		return err
	}
	concluded, why := decision.Decide(decision.Verdict{Changes: len(at.Imported.Changes), Findings: at.Report.Findings, Checks: at.Report.Checks, AtBest: d.m.AtBest, Approve: d.m.Publish.Approve})
	commit, err := d.sign(ctx, at, concluded, why)
	if err != nil {
		return err
	}
	if err := d.destroyAll(ctx); err != nil {
		return err
	}
	records := []journal.Record{{Type: lifecycle.AttemptDecided, Data: lifecycle.Decided{Decision: concluded, Reason: why, Seconds: time.Since(d.stageBegan).Seconds()}}}
	publishing := concluded == sallyport.DecisionAccepted && d.m.Publish.To != "none"
	if publishing {
		p, err := d.c.publication(ctx, d.repo, d.m, d.id, commit)
		if err != nil {
			return err
		}
		// One transaction: there is no moment at which it is accepted and nobody would publish it.
		records = append(records, journal.Record{Type: lifecycle.PublicationIntended, Data: p})
	}
	if err := d.record(ctx, records...); err != nil {
		return err
	}
	d.dropLayers()
	if concluded == sallyport.DecisionAccepted {
		if err := d.c.summariseAccepted(ctx, d.id); err != nil {
			return err
		}
	}
	if !publishing {
		return nil
	}
	l := d.current()
	return d.c.finishPublication(ctx, &l, d.repo, d.store, d.id)
}

// sign builds the evidence over digests that Mission Control holds itself, and makes it durable before the
// journal says so. A repeat after a crash signs again; the journal's last word counts.
func (d *driver) sign(ctx context.Context, at journal.Attempt, concluded sallyport.Decision, why sallyport.Reason) (sallyport.ObjectID, error) {
	commit, err := d.commit(ctx, at)
	if err != nil {
		return "", err
	}
	signer, err := d.c.keys.Signer()
	if err != nil {
		return "", err
	}
	p, err := d.predicate(ctx, at, signer)
	if err != nil {
		return "", err
	}
	p.Result.Commit = commit
	p.NotChecked = slices.Concat(egressUnknown(at), spendUnknown(at), setupUnknown(at.Report), notChecked(at.Report, d.m))
	p.Decision = evidence.Decision{Decision: concluded, Code: why.Code, Message: why.Message}
	envelope, digest, err := evidence.Seal(ctx, signer, evidence.New(p))
	if err != nil {
		return "", err
	}
	// Named by its bytes: a late holder that still writes cannot replace what the journal names.
	path := filepath.Join(d.c.attemptFolder(d.id), "evidence-"+digest.Hex()[:12]+".json")
	if err := writeDurable(path, envelope); err != nil {
		return "", err
	}
	// Nothing has passed before the journal says so.
	if err := d.c.summarise(ctx, path, d.id, undecided(concluded)); err != nil {
		return "", err
	}
	if err := d.record(ctx, journal.Record{Type: lifecycle.AttemptSigned, Data: lifecycle.Signed{Path: path, Digest: digest, KeyID: signer.KeyID(), Commit: commit, NotChecked: p.NotChecked}},
		journal.Record{Type: lifecycle.Checkpoint, Data: p.Journal}); err != nil {
		return "", err
	}
	// What an earlier driver signed and could not record is nobody's word any more.
	others, err := filepath.Glob(filepath.Join(filepath.Dir(path), "evidence-*.json"))
	for _, o := range others {
		if o != path {
			_ = os.Remove(o)
			_ = os.Remove(summaryPath(o))
		}
	}
	return commit, err
}

func (d *driver) predicate(ctx context.Context, at journal.Attempt, signer evidence.Signer) (evidence.Predicate, error) {
	p := evidence.FromReport(at.Report)
	sum, err := d.store.TreeSum(ctx, d.m.BaseTree, at.Imported.Tree)
	if err != nil {
		return p, err
	}
	seq, hash, err := d.c.journal.Head(ctx)
	if err != nil {
		return p, err
	}
	origin := d.c.origin()
	note, err := evidence.SignCheckpoint(ctx, signer, origin, seq, hash)
	if err != nil {
		return p, err
	}
	earlier, err := d.earlier(ctx)
	if err != nil {
		return p, err
	}
	env, err := d.environmentDigest(ctx)
	if err != nil {
		return p, err
	}
	if p.Result.Patch, err = d.patchDigest(ctx, at.Imported.Tree); err != nil {
		return p, err
	}
	now := evidence.Time(time.Now())
	p.Environment = []evidence.Environment{{Name: "toolchain", Digest: env}}
	if len(at.Report.Checks) > 0 && len(d.m.Setup) > 0 {
		left, err := d.setUp(ctx, at.Imported.Tree)
		if err != nil {
			return p, err
		}
		p.Environment = append(p.Environment, evidence.Environment{Name: "setup", Digest: left.key})
	}
	d.ownSeverities(p.Findings)
	p.Attempt.Nonce = d.nonce()
	p.Base = evidence.Base{Ref: d.m.BaseRef, Commit: d.m.Base, Tree: d.m.BaseTree, StartTree: at.StartTree}
	p.Result.Tree, p.Result.TreeSHA256 = at.Imported.Tree, sum
	p.Policy = evidence.Policy{Kind: d.m.Policy.Kind, Ref: d.m.Policy.Ref, Commit: d.m.Policy.Commit, Digest: d.m.Policy.Digest}
	p.Attempts = earlier
	p.Journal = evidence.JournalRef{Origin: origin, Seq: seq, Hash: hash, Note: note}
	p.Provider, p.Host = d.provider.Name(), hostOf()
	began, err := time.Parse(time.RFC3339, at.Report.Created)
	if err != nil {
		return p, &sallyport.Error{Op: "sign", Code: sallyport.CodeCorrupt, Subject: at.Report.Created, Err: err}
	}
	p.Started, p.Ended, p.Signed = evidence.Time(began), now, now
	p.By = evidence.By{Version: Version, Independence: evidence.IndependenceEmbedded}
	p.Egress, p.Spend = egressOf(at, d.m), spendOf(at, d.m)
	if len(d.m.Egress) > 0 {
		p.EgressRules = d.m.Egress
	}
	for _, l := range at.Logs {
		p.Logs = append(p.Logs, evidence.Log(l))
		if l.Name == LogAgent {
			p.Claims.Output = l.Digest
		}
	}
	p.Claims.Agent, p.Claims.Command, p.Claims.Messages = d.m.Agent.Name, d.m.Agent.Command, at.Imported.Commits
	return p, nil
}

func (c *Control) origin() string { return "sallyport.dev/journal/" + string(c.factory) }

// nonce is this Attempt's: a statement about another never matches it.
func (d *driver) nonce() string { return nonceOf(d.id, d.digest) }

func nonceOf(id sallyport.AttemptID, manifest sallyport.Digest) string {
	return sallyport.Sum([]byte("sallyport.dev/nonce/v1\x00" + string(id) + "\x00" + string(manifest))).Hex()
}

func (d *driver) earlier(ctx context.Context) ([]evidence.Earlier, error) {
	all, err := d.c.journal.OfWorkOrder(ctx, d.m.WorkOrder)
	if err != nil {
		return nil, err
	}
	var list []evidence.Earlier
	for _, a := range all {
		if a.Report.Attempt == d.id {
			break
		}
		list = append(list, evidence.Earlier{ID: a.Report.Attempt, Number: a.Report.Number, State: a.Report.State, Decision: a.Report.Decision, Evidence: a.Report.EvidenceDigest, Code: a.Report.Reason.Code})
	}
	return list, nil
}

// patchDigest is over the whole patch from base to tree, as our own git writes it with nothing of the tree or
// the user configured.
func (d *driver) patchDigest(ctx context.Context, tree sallyport.ObjectID) (sallyport.Digest, error) {
	h := sha256.New()
	if err := d.store.Patch(ctx, h, d.m.BaseTree, tree, change.PatchOptions{}); err != nil {
		return "", err
	}
	return sallyport.DigestOf([sha256.Size]byte(h.Sum(nil))), nil
}

// ownSeverities notes a rule's own severity on the findings that policy gave another.
func (d *driver) ownSeverities(findings []evidence.Finding) {
	own := map[string]sallyport.Severity{}
	for _, r := range inspect.Rules() {
		own[r.ID] = r.Severity
	}
	for i, f := range findings {
		if _, named := d.m.Severities[f.Rule]; named && own[f.Rule] != f.Severity {
			findings[i].Default = own[f.Rule]
		}
	}
}

func hostOf() evidence.Host {
	var h evidence.Host
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		h.Kernel = unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
	}
	if b, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		h.BootSHA256 = sallyport.Sum([]byte(strings.TrimSpace(string(b))))
	}
	return h
}

// notChecked says what a reader might take for checked and was not.
func notChecked(r sallyport.Report, m sallyport.Manifest) []string {
	var out []string
	if len(m.Checks) == 0 {
		out = append(out, "no check is defined: whether the change works was not checked")
	}
	for _, k := range r.Checks {
		switch {
		case k.Status == sallyport.CheckNotRun:
			out = append(out, fmt.Sprintf("check %q was not run: the change touches nothing it is for", k.Name))
		case !k.CanFail():
			out = append(out, fmt.Sprintf("check %q has no control: nothing shows that it can fail on this change", k.Name))
		}
	}
	for _, l := range r.Layers {
		if l.Status != sallyport.LayerHeld && l.Status != sallyport.LayerNotRequired {
			out = append(out, fmt.Sprintf("layer %s was %s", l.Layer, l.Status))
		}
	}
	return append(out, "the meaning of the change: a person reads it")
}

// commit is the one commit that an accepted change is: on the base, by the submitter, with Sallyport's word
// in trailers and the agent's own words quoted as claims. The same Attempt always gives the same commit.
func (d *driver) commit(ctx context.Context, at journal.Attempt) (sallyport.ObjectID, error) {
	if len(at.Imported.Changes) == 0 {
		return "", nil
	}
	name, email := d.repo.Identity(ctx)
	when, err := time.Parse(time.RFC3339, at.Report.Created)
	if err != nil {
		return "", &sallyport.Error{Op: "write commit", Code: sallyport.CodeCorrupt, Subject: at.Report.Created, Err: err}
	}
	return d.store.Commit(ctx, change.CommitOptions{Tree: at.Imported.Tree, Parent: d.m.Base, AuthorName: name, AuthorEmail: email, When: when, Message: message(d.m, at)})
}

func message(m sallyport.Manifest, at journal.Attempt) string {
	subject, rest, _ := strings.Cut(strings.TrimSpace(m.Task), "\n")
	if subject == "" {
		subject = m.Name
	}
	var b strings.Builder
	b.WriteString(screen.Fit(screen.Line(subject), 72) + "\n")
	if rest = strings.TrimSpace(rest); rest != "" {
		b.WriteString("\n" + screen.Text([]byte(rest)) + "\n")
	}
	if len(at.Imported.Commits) > 0 {
		b.WriteString("\nThe agent's own words (claims, not checked):\n\n")
		for _, c := range at.Imported.Commits {
			for _, l := range strings.Split(strings.TrimSpace(c), "\n") {
				// A forge reads commits too: [skip ci] in the newest would keep its own checks away.
				b.WriteString("> " + pulltext.Inert(l, maxQuoted) + "\n")
			}
		}
	}
	// The evidence speaks of this commit, so its digest cannot be in here; its nonce can, and nothing else has it.
	fmt.Fprintf(&b, "\nWorkOrder: %s\nAttempt: %s\nManifest: %s\nEvidence: nonce:%s\n", at.Report.WorkOrder, at.Report.Attempt, at.Report.Manifest, nonceOf(at.Report.Attempt, at.Report.Manifest))
	return b.String()
}

// maxQuoted is the longest line of an agent's that is quoted whole.
const maxQuoted = 200

// branchOf is the one branch of a WorkOrder.
func branchOf(m sallyport.Manifest) string { return "refs/heads/sallyport/" + m.Name }

// publication is the intent to move the WorkOrder's branch to commit: from the last tip that we wrote, or
// from nothing where it never was or a person has deleted it (after merging, say).
func (c *Control) publication(ctx context.Context, repo *change.Repo, m sallyport.Manifest, id sallyport.AttemptID, commit sallyport.ObjectID) (lifecycle.Publication, error) {
	if m.Publish.To == "pr" {
		return intendPull(m, commit)
	}
	all, err := c.journal.OfWorkOrder(ctx, m.WorkOrder)
	if err != nil {
		return lifecycle.Publication{}, err
	}
	var expect sallyport.ObjectID
	for _, a := range all {
		if a.Published && a.Report.Attempt != id {
			expect = a.Report.Commit
		}
	}
	switch _, err := repo.Tip(ctx, branchOf(m)); {
	case sallyport.CodeOf(err) == sallyport.CodeNotFound:
		expect = ""
	case err != nil:
		return lifecycle.Publication{}, err
	}
	return lifecycle.Publication{Target: "branch", Branch: branchOf(m), Commit: commit, Expect: expect}, nil
}

// finishPublication carries out an intent: one ref, by compare-and-swap, never over a tip that we did not
// write. A crash before leaves the intent, after it a ref that already is what was intended; either way the
// repeat converges. Somebody else's tip is recorded as refused and is no error: the change is good, the
// branch was not free.
func (c *Control) finishPublication(ctx context.Context, lease *journal.Lease, repo *change.Repo, store *change.Store, id sallyport.AttemptID) error {
	at, err := c.journal.Attempt(ctx, id)
	if err != nil || !at.Publishing {
		return err
	}
	m, err := c.manifest(at.Report.Manifest)
	if err != nil {
		return err
	}
	p := *at.Publication
	if p.Target == "pr" {
		return c.finishPull(ctx, lease, store, at, m)
	}
	record := journal.Record{Type: lifecycle.PublicationDone, Attempt: id, Data: p}
	if err := store.Publish(ctx, repo, p.Branch, p.Commit, p.Expect); err != nil {
		if sallyport.CodeOf(err) != sallyport.CodeConflict {
			return err
		}
		why := reasonOf(err)
		why.Code, why.Message = lifecycle.RefusedBranch, "not published: "+messageOf(err)
		again := "sallyport publish " + screen.Short(id) + " once it is free"
		if why.Hint != "" {
			again += ": " + why.Hint
		}
		why.Hint = again
		record = journal.Record{Type: lifecycle.PublicationRefused, Attempt: id, Data: why}
	}
	return c.record(ctx, lease, m, record)
}

// messageOf is what an error says, without what was being done and to what; all of it where it is the system's, of a file
// that only the rest names.
func messageOf(err error) string {
	var e *sallyport.Error
	var system unix.Errno
	if errors.As(err, &e) && e.Message != "" && !errors.As(e.Err, &system) {
		return e.Message
	}
	return err.Error()
}
