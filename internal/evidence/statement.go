package evidence

import (
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"sallyport.dev/sallyport"
)

// StatementType is in-toto's.
const StatementType = "https://in-toto.io/Statement/v1"

// Statement is an in-toto Statement v1 about one Attempt.
type Statement struct {
	Type          string    `json:"_type" const:"https://in-toto.io/Statement/v1"`
	Subject       []Subject `json:"subject"`
	PredicateType string    `json:"predicateType" const:"https://sallyport.dev/attestation/attempt/v1"`
	Predicate     Predicate `json:"predicate"`
}

// Subject is one thing that the statement is about, named by digest.
type Subject struct {
	Name   string    `json:"name"` // tree | commit | manifest
	Digest DigestSet `json:"digest"`
}

// DigestSet holds bare hexadecimal, as in-toto wants it. Verify demands every one that is expected, where
// in-toto would be content with any: otherwise SHA-1 alone would decide.
type DigestSet struct {
	GitTree   string `json:"gitTree,omitempty"`
	GitCommit string `json:"gitCommit,omitempty"`
	SHA256    string `json:"sha256,omitempty"`
}

// New is the statement for p. Its subjects are derived from p, so the two cannot disagree.
func New(p Predicate) Statement {
	p = p.filled()
	return Statement{Type: StatementType, Subject: subjects(p), PredicateType: PredicateType, Predicate: p}
}

func subjects(p Predicate) []Subject {
	return append(artefacts(p), Subject{Name: "manifest", Digest: DigestSet{SHA256: p.Manifest.Hex()}})
}

// artefacts are the change itself: its tree, and its commit if there is one.
func artefacts(p Predicate) []Subject {
	s := []Subject{{Name: "tree", Digest: DigestSet{GitTree: string(p.Result.Tree), SHA256: p.Result.TreeSHA256.Hex()}}}
	if p.Result.Commit != "" {
		s = append(s, Subject{Name: "commit", Digest: DigestSet{GitCommit: string(p.Result.Commit)}})
	}
	return s
}

// encode gives the one byte form of a statement.
func (s Statement) encode() ([]byte, error) {
	s.Predicate = s.Predicate.filled()
	return encodeJSON(s)
}

// Check reports CodeInvalid unless s is complete and does not contradict itself. Seal and Verify both ask:
// a signature does not make an incomplete or contradictory statement true.
func (s Statement) Check() error {
	if err := checkTypes(s.Type, s.PredicateType, PredicateType); err != nil {
		return err
	}
	p := s.Predicate
	for _, check := range []func(Predicate) error{checkIdentity, checkObjects, checkTimes, checkChecks, checkRecords, func(p Predicate) error { return checkSetups(p.Setup) }, checkConclusion, checkSigner} {
		if err := check(p); err != nil {
			return err
		}
	}
	return checkSubjects(s.Subject, subjects(p))
}

// checkSubjects says which subject is not the one that the predicate names. Order counts.
func checkSubjects(have, want []Subject) error {
	for i, w := range want {
		switch {
		case i >= len(have) || have[i].Name != w.Name:
			return invalid("subject", "expected %q as subject %d, as the predicate names it", w.Name, i+1)
		case have[i] != w:
			return invalid("subject "+w.Name, "has another digest than the predicate names")
		}
	}
	if len(have) > len(want) {
		return invalid("subject", "expected no more than the %d subjects that the predicate names, found %.40q", len(want), have[len(want)].Name)
	}
	return nil
}

func checkIdentity(p Predicate) error {
	if err := sallyport.CheckID(sallyport.WorkOrderPrefix, string(p.WorkOrder.ID)); err != nil {
		return field("work_order.id", err)
	}
	if err := sallyport.CheckID(sallyport.AttemptPrefix, string(p.Attempt.ID)); err != nil {
		return field("attempt.id", err)
	}
	if p.Attempt.Number < 1 {
		return invalid("attempt.number", "expected 1 or more, found %d", p.Attempt.Number)
	}
	if len(p.Attempt.Nonce) < 16 {
		return invalid("attempt.nonce", "expected at least 16 characters chosen for this Attempt")
	}
	for i, e := range p.Attempts {
		// Not by number: every revision of a WorkOrder counts its Attempts from 1.
		if e.ID == p.Attempt.ID || e.Number < 1 {
			return invalid(fmt.Sprintf("attempts[%d]", i), "expected an earlier Attempt, not this one, and a number of 1 or more")
		}
	}
	return nil
}

func checkObjects(p Predicate) error {
	ids := []struct {
		name string
		id   sallyport.ObjectID
		must bool
	}{
		{"base.commit", p.Base.Commit, true},
		{"base.tree", p.Base.Tree, true},
		{"base.start_tree", p.Base.StartTree, true},
		{"result.tree", p.Result.Tree, true},
		{"result.commit", p.Result.Commit, p.Decision.Decision != sallyport.DecisionRejected},
		{"policy.commit", p.Policy.Commit, p.Policy.Kind == "protected-ref"},
	}
	for _, f := range ids {
		if f.id == "" && !f.must {
			continue
		}
		if err := f.id.Check(); err != nil {
			return field(f.name, err)
		}
	}
	digests := []struct {
		name string
		d    sallyport.Digest
		must bool
	}{
		{"manifest", p.Manifest, true},
		{"result.tree_sha256", p.Result.TreeSHA256, true},
		{"journal.hash", p.Journal.Hash, true},
		{"result.patch", p.Result.Patch, false},
		{"result.bundle", p.Result.Bundle, false},
		{"policy.digest", p.Policy.Digest, false},
		{"host.boot_sha256", p.Host.BootSHA256, false},
		{"claims.output_sha256", p.Claims.Output, false},
	}
	for _, f := range digests {
		if f.d == "" && !f.must {
			continue
		}
		if err := f.d.Check(); err != nil {
			return field(f.name, err)
		}
	}
	return nil
}

func checkTimes(p Predicate) error {
	var times [3]time.Time
	for i, f := range []struct{ name, value string }{{"started", p.Started}, {"ended", p.Ended}, {"signed", p.Signed}} {
		t, err := parseTime(f.value)
		if err != nil {
			return invalid(f.name, "expected a time in RFC 3339 and UTC, found %.40q", f.value)
		}
		times[i] = t
	}
	if times[1].Before(times[0]) || times[2].Before(times[1]) {
		return invalid("signed", "expected started, ended and signed in that order")
	}
	return nil
}

// checkConclusion refuses what no Mission Control may say. An accepted change with a failed check or a
// blocking finding is a fault of ours, or somebody else's statement.
func checkConclusion(p Predicate) error {
	d := p.Decision
	if d.Code == "" || d.Message == "" {
		return invalid("decision.code", "expected a reason, as a code and as a sentence")
	}
	if !slices.Contains([]string{"none", "process", "user", "host"}, p.Separation) {
		return invalid("separation", "expected none, process, user or host, found %.40q", p.Separation)
	}
	if !slices.Contains([]string{"protected-ref", "worktree", "none"}, p.Policy.Kind) {
		return invalid("policy.kind", "expected protected-ref, worktree or none, found %.40q", p.Policy.Kind)
	}
	if p.Provider == "" {
		return invalid("provider", "expected the provider's name")
	}
	switch d.Decision {
	case sallyport.DecisionRejected:
		return nil
	case sallyport.DecisionAccepted:
		if err := checkPassing(p); err != nil {
			return err
		}
		return checkNothingBlocks(p)
	case sallyport.DecisionAwaitingApproval:
		return checkNothingBlocks(p)
	}
	return invalid("decision.decision", "expected accepted, rejected or awaiting-approval, found %.40q", d.Decision)
}

func checkNothingBlocks(p Predicate) error {
	for _, f := range p.Findings {
		if !slices.Contains([]sallyport.Severity{sallyport.SeverityInfo, sallyport.SeverityWarn}, f.Severity) {
			return invalid("findings", "finding %.80q has severity %.20q, yet the decision is %q", f.Rule, f.Severity, p.Decision.Decision)
		}
	}
	for _, l := range p.Layers {
		if l.Required && l.Status != sallyport.LayerHeld && l.Status != sallyport.LayerWatched {
			return invalid("layers", "required layer %.40q is %.20q, yet the decision is %q", l.Layer, l.Status, p.Decision.Decision)
		}
	}
	return checkRequired(p)
}

func checkSigner(p Predicate) error {
	if p.By.KeyID == "" {
		return invalid("by.key_id", "expected the id of the signing key")
	}
	if p.By.Independence == "" {
		return invalid("by.independence", "expected a sentence on who holds the key")
	}
	return nil
}

// decodeStatement reads a payload whose signature has already been checked.
func decodeStatement(payload []byte) (Statement, error) {
	s, err := decodeExactly[Statement](payload, PredicateType)
	if err != nil {
		return s, err
	}
	return s, s.Check()
}

// parseTime takes RFC 3339 in UTC, written with Z, and nothing else.
func parseTime(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return t, err
	}
	if t.UTC().Format(time.RFC3339Nano) != s {
		return t, fmt.Errorf("not in normal form")
	}
	return t.UTC(), nil
}

// Time is t as statements write it: UTC, RFC 3339, no trailing zeros.
func Time(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func validText(b []byte) bool { return utf8.Valid(b) }

func invalid(subject, format string, args ...any) error {
	return &sallyport.Error{Op: "check evidence", Code: sallyport.CodeInvalid, Subject: subject, Message: fmt.Sprintf(format, args...)}
}

func field(name string, err error) error {
	return &sallyport.Error{Op: "check evidence", Code: sallyport.CodeInvalid, Subject: name, Err: err}
}
