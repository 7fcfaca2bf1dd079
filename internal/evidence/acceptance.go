package evidence

import (
	"context"
	"strings"
	"time"

	"sallyport.dev/sallyport"
)

// AcceptanceType is the predicate of an acceptance.
const AcceptanceType = "https://sallyport.dev/attestation/acceptance/v1"

// Acceptance is Mission Control's word that one change may be published to one place: an in-toto Statement v1, which a
// Publisher acts on, and nothing else.
type Acceptance struct {
	Type          string    `json:"_type" const:"https://in-toto.io/Statement/v1"`
	Subject       []Subject `json:"subject"` // tree, commit, manifest: those of the evidence
	PredicateType string    `json:"predicateType" const:"https://sallyport.dev/attestation/acceptance/v1"`
	Predicate     Accepted  `json:"predicate"`
}

// Accepted is the predicate. Every member is compared by the Publisher with what it holds itself.
type Accepted struct {
	Factory   string              `json:"factory"` // whose journal it is
	WorkOrder WorkOrder           `json:"work_order"`
	Attempt   sallyport.AttemptID `json:"attempt"`
	Fence     int64               `json:"fence"` // of whoever drives the Attempt; a Publisher refuses one below the highest it saw
	Evidence  sallyport.Digest    `json:"evidence"`
	Base      AcceptedBase        `json:"base"`
	Target    Target              `json:"target"`
	Pack      Pack                `json:"pack"`
	Task      string              `json:"task"`      // what was asked, typed by a person
	Submitter string              `json:"submitter"` // who asked, as Mission Control knows them
	Approvers int                 `json:"approvers"` // so many people must have approved, if the Publisher does not ask for more
	Nonce     string              `json:"nonce"`
	Issued    string              `json:"issued"`    // RFC 3339, UTC
	NotAfter  string              `json:"not_after"` // RFC 3339, UTC
	Journal   JournalRef          `json:"journal"`
	KeyID     string              `json:"key_id"`
	// Approved is the word of a person that made an acceptance of evidence which awaits one; nil: it needed none.
	Approved *Approved `json:"approved,omitempty"`
}

// Approved is a person's word as Mission Control's journal has it. It is not that person's own signature.
type Approved struct {
	Who      string           `json:"who"`
	Why      string           `json:"why,omitempty"`
	Evidence sallyport.Digest `json:"evidence"` // what was approved
	Seq      int64            `json:"seq"`      // of the journal's record
}

// AcceptedBase is the commit that the change is one commit upon.
type AcceptedBase struct {
	Commit sallyport.ObjectID `json:"commit"`
	Tree   sallyport.ObjectID `json:"tree"`
}

// Target is the one place that a change may go to. Branches are full ref names.
type Target struct {
	Repository string `json:"repository"` // as the Publisher's own configuration names it: https://forge.example/owner/name
	Base       string `json:"base"`       // refs/heads/main
	Branch     string `json:"branch"`     // refs/heads/sallyport/NAME
}

// Pack is the objects that go with an acceptance, as a git pack.
type Pack struct {
	Digest sallyport.Digest `json:"digest"`
	Bytes  int64            `json:"bytes"`
}

// maxAcceptance is the longest life of an acceptance: a day for whoever has to wait for a forge, and no more for a thief.
const maxAcceptance = 24 * time.Hour

// NewAcceptance is the statement about verified evidence. Subjects are the evidence's own, so the two cannot disagree.
func NewAcceptance(v Verified, p Accepted) Acceptance {
	return Acceptance{Type: StatementType, Subject: subjects(v.Statement.Predicate), PredicateType: AcceptanceType, Predicate: p}
}

func (s Acceptance) encode() ([]byte, error) { return encodeJSON(s) }

// Check reports CodeInvalid unless s is complete and does not contradict itself.
func (s Acceptance) Check() error {
	p := s.Predicate
	if err := checkTypes(s.Type, s.PredicateType, AcceptanceType); err != nil {
		return err
	}
	if len(s.Subject) != 3 {
		return invalid("subject", "expected tree, commit and manifest")
	}
	if err := checkArtefacts(s.Subject[:2], VSAPassed); err != nil {
		return err
	}
	manifest := s.Subject[2]
	if manifest.Name != "manifest" || manifest.Digest.GitTree+manifest.Digest.GitCommit != "" || sallyport.Digest("sha256:"+manifest.Digest.SHA256).Check() != nil {
		return invalid("subject", "expected the third subject to be the manifest by its SHA-256")
	}
	if err := sallyport.CheckID(sallyport.FactoryPrefix, p.Factory); err != nil {
		return field("factory", err)
	}
	if err := sallyport.CheckID(sallyport.WorkOrderPrefix, string(p.WorkOrder.ID)); err != nil {
		return field("work_order.id", err)
	}
	if err := sallyport.CheckID(sallyport.AttemptPrefix, string(p.Attempt)); err != nil {
		return field("attempt", err)
	}
	if p.Fence < 1 {
		return invalid("fence", "expected 1 or more, found %d", p.Fence)
	}
	for name, d := range map[string]sallyport.Digest{"evidence": p.Evidence, "pack.digest": p.Pack.Digest, "journal.hash": p.Journal.Hash} {
		if err := d.Check(); err != nil {
			return field(name, err)
		}
	}
	for name, id := range map[string]sallyport.ObjectID{"base.commit": p.Base.Commit, "base.tree": p.Base.Tree} {
		if err := id.Check(); err != nil {
			return field(name, err)
		}
	}
	if p.Pack.Bytes < 1 {
		return invalid("pack.bytes", "expected 1 or more, found %d", p.Pack.Bytes)
	}
	if len(p.Nonce) < 32 || len(p.Nonce) > 128 {
		return invalid("nonce", "expected 32 to 128 characters chosen for this acceptance")
	}
	if p.Approvers < 0 {
		return invalid("approvers", "expected 0 or more, found %d", p.Approvers)
	}
	if p.Submitter == "" {
		return invalid("submitter", "expected who asked: nobody else's approval can be told from theirs")
	}
	if err := p.Target.Check(); err != nil {
		return err
	}
	return checkWindow(p.Issued, p.NotAfter)
}

// Check reports CodeInvalid unless t names one repository and two different branches in full.
func (t Target) Check() error {
	if t.Repository == "" || len(t.Repository) > 1024 || strings.ContainsFunc(t.Repository, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return invalid("target.repository", "expected the address of a repository, found %.80q", t.Repository)
	}
	for name, ref := range map[string]string{"target.base": t.Base, "target.branch": t.Branch} {
		if short, ok := strings.CutPrefix(ref, "refs/heads/"); !ok || short == "" || len(ref) > 250 || strings.ContainsFunc(ref, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			return invalid(name, "expected the full name of a branch, found %.80q", ref)
		}
	}
	if t.Base == t.Branch {
		return invalid("target.branch", "expected another branch than the base")
	}
	return nil
}

func checkWindow(issued, notAfter string) error {
	from, err := parseTime(issued)
	if err != nil {
		return invalid("issued", "expected a time in RFC 3339 and UTC, found %.40q", issued)
	}
	until, err := parseTime(notAfter)
	if err != nil {
		return invalid("not_after", "expected a time in RFC 3339 and UTC, found %.40q", notAfter)
	}
	if until.Before(from) || until.Sub(from) > maxAcceptance {
		return invalid("not_after", "expected a time after issued, by at most %s", maxAcceptance)
	}
	return nil
}

// SealAcceptance signs s, whose KeyID it fills. The envelope is one line of JSON, and its digest is over its bytes. Equal
// input gives equal bytes.
func SealAcceptance(ctx context.Context, signer Signer, s Acceptance) ([]byte, sallyport.Digest, error) {
	s.Predicate.KeyID = signer.KeyID()
	if err := s.Check(); err != nil {
		return nil, "", err
	}
	if err := verifyJournalRef(s.Predicate.Journal, signer.Public()); err != nil {
		return nil, "", err
	}
	return sealExactly(ctx, signer, s, AcceptanceType)
}

// VerifyAcceptance says whether envelope is an acceptance by one of keys, valid now, of the evidence beside it. It fails
// closed as Verify does. CodeDenied: not by these keys, not about this evidence, too early or too late.
func VerifyAcceptance(envelope, evidence []byte, keys []PublicKey, now time.Time) (Acceptance, Verified, error) {
	s, v, err := readAcceptance(envelope, evidence, keys)
	if err == nil {
		err = fresh(s.Predicate, now)
	}
	if err != nil {
		return Acceptance{}, Verified{}, err
	}
	return s, v, nil
}

// ReadAcceptance is VerifyAcceptance whenever it was: for those who look at what was published, and publish nothing.
func ReadAcceptance(envelope, evidence []byte, keys []PublicKey) (Acceptance, error) {
	s, _, err := readAcceptance(envelope, evidence, keys)
	return s, err
}

func readAcceptance(envelope, evidence []byte, keys []PublicKey) (Acceptance, Verified, error) {
	fail := func(err error) (Acceptance, Verified, error) { return Acceptance{}, Verified{}, err }
	s, signers, err := openExactly[Acceptance](envelope, keys, AcceptanceType)
	if err != nil {
		return fail(err)
	}
	p := s.Predicate
	key, ok := signers[p.KeyID]
	if !ok {
		return fail(denied("signature", "the acceptance names key %.40q, which did not sign it", p.KeyID))
	}
	if _, err := validAt(key, p.Issued); err != nil {
		return fail(err)
	}
	if err := verifyJournalRef(p.Journal, key.Key); err != nil {
		return fail(err)
	}
	if digest := sallyport.Sum(evidence); digest != p.Evidence {
		return fail(denied("evidence", "the acceptance is of evidence %s, found %s", p.Evidence, digest))
	}
	v, err := Verify(evidence, keys, Expect{Base: p.Base.Commit, Attempt: p.Attempt, WorkOrder: p.WorkOrder.ID})
	if err != nil {
		return fail(err)
	}
	if err := sameAs(s, v); err != nil {
		return fail(err)
	}
	return s, v, nil
}

// clockSkew is how far the clocks of Mission Control and Publisher may be apart.
const clockSkew = 2 * time.Minute

func fresh(p Accepted, now time.Time) error {
	issued, err1 := parseTime(p.Issued)
	until, err2 := parseTime(p.NotAfter)
	switch {
	case err1 != nil || err2 != nil:
		return invalid("issued", "expected times in RFC 3339 and UTC")
	case now.Before(issued.Add(-clockSkew)):
		return denied("issued", "it is from %s, which is still to come: by this clock it is %s", p.Issued, Time(now))
	case now.After(until):
		return denied("not_after", "it was valid until %s: by this clock it is %s", p.NotAfter, Time(now))
	}
	return nil
}

// sameAs holds an acceptance to the evidence that it names.
func sameAs(s Acceptance, v Verified) error {
	e, p := v.Statement.Predicate, s.Predicate
	if err := checkSubjects(s.Subject, subjects(e)); err != nil {
		return denied("subject", "the acceptance is not about what its evidence is about: %v", err)
	}
	switch {
	case e.Base.Tree != p.Base.Tree:
		return denied("base.tree", "the evidence has %s, the acceptance %s", e.Base.Tree, p.Base.Tree)
	case e.WorkOrder != p.WorkOrder:
		return denied("work_order", "the evidence has %q, the acceptance %q", e.WorkOrder.Name, p.WorkOrder.Name)
	case e.Decision.Decision != sallyport.DecisionAccepted && e.Decision.Decision != sallyport.DecisionAwaitingApproval:
		return denied("evidence", "it says that the change is %s", e.Decision.Decision)
	case (e.Decision.Decision == sallyport.DecisionAwaitingApproval) != (p.Approved != nil):
		return denied("approved", "the evidence says %s: expected the word of a person with what awaits one, and only there", e.Decision.Decision)
	case p.Approved != nil && (p.Approved.Who == "" || p.Approved.Evidence != p.Evidence || p.Approved.Seq <= e.Journal.Seq || p.Approved.Seq > p.Journal.Seq):
		return denied("approved", "the person's word is not about this evidence, or not from between it and the acceptance")
	case e.Journal.Origin != p.Journal.Origin || p.Journal.Seq < e.Journal.Seq:
		return denied("journal", "the acceptance is tied to an earlier point of the journal than its evidence, or to another journal")
	}
	return nil
}

// What a Publisher attaches beside a change at a forge, where the forge takes it: a commit with these files, under
// AttachedRef. Only what they are signed with makes them worth anything.
const (
	AttachedEvidence   = "evidence.json"
	AttachedAcceptance = "acceptance.json"
)

// AttachedRef is where they are, for the commit that was published.
func AttachedRef(commit sallyport.ObjectID) string {
	return "refs/sallyport/evidence/" + string(commit)
}
