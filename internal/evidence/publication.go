package evidence

import (
	"context"
	"slices"

	"sallyport.dev/sallyport"
)

// PublicationType is the predicate of a publication receipt.
const PublicationType = "https://sallyport.dev/attestation/publication/v1"

// Publication is a Publisher's receipt: what it did with one acceptance, signed by its own key.
type Publication struct {
	Type          string    `json:"_type" const:"https://in-toto.io/Statement/v1"`
	Subject       []Subject `json:"subject"` // tree, commit, manifest: those of the acceptance
	PredicateType string    `json:"predicateType" const:"https://sallyport.dev/attestation/publication/v1"`
	Predicate     Published `json:"predicate"`
}

// Published is the predicate.
type Published struct {
	Acceptance  sallyport.Digest    `json:"acceptance"` // of its envelope
	Evidence    sallyport.Digest    `json:"evidence"`
	Nonce       string              `json:"nonce"`
	Factory     string              `json:"factory"`
	WorkOrder   WorkOrder           `json:"work_order"`
	Attempt     sallyport.AttemptID `json:"attempt"`
	Fence       int64               `json:"fence"`
	Target      Target              `json:"target"`
	Kind        string              `json:"kind"` // of the forge
	Commit      sallyport.ObjectID  `json:"commit"`
	Replaced    sallyport.ObjectID  `json:"replaced,omitempty"` // the tip before; empty: the branch was made
	PullRequest *PullRequest        `json:"pull_request,omitempty"`
	Credential  CredentialUsed      `json:"credential"`
	Separation  string              `json:"separation"` // of Mission Control and Publisher: none | process | user
	Notes       []string            `json:"notes"`      // what a reader should know: "the base has moved on"
	Finished    string              `json:"finished"`   // RFC 3339, UTC
	KeyID       string              `json:"key_id"`
}

// PullRequest is the one that the change is in.
type PullRequest struct {
	Number int64  `json:"number"`
	URL    string `json:"url"`
	Draft  bool   `json:"draft"`
	Opened bool   `json:"opened"` // by this publication; else it was there and was brought up to date
}

// CredentialUsed says what wrote at the forge, never its value.
type CredentialUsed struct {
	Class    string   `json:"class"` // minted | configured | none
	Scope    []string `json:"scope"` // as the forge says it
	Identity string   `json:"identity,omitempty"`
	From     string   `json:"from,omitempty"`    // minted at; RFC 3339, UTC
	Expires  string   `json:"expires,omitempty"` // by itself; empty: it does not
	Revoked  string   `json:"revoked,omitempty"` // at; empty: it was not, or not yet
}

// NewPublication is the receipt for acceptance s, whose envelope has the given digest.
func NewPublication(s Acceptance, acceptance sallyport.Digest, p Published) Publication {
	a := s.Predicate
	p.Acceptance, p.Evidence, p.Nonce, p.Factory, p.WorkOrder, p.Attempt, p.Fence, p.Target = acceptance, a.Evidence, a.Nonce, a.Factory, a.WorkOrder, a.Attempt, a.Fence, a.Target
	p.Commit = sallyport.ObjectID(s.Subject[1].Digest.GitCommit)
	p.Notes, p.Credential.Scope = nonNil(p.Notes), nonNil(p.Credential.Scope)
	return Publication{Type: StatementType, Subject: s.Subject, PredicateType: PublicationType, Predicate: p}
}

func (s Publication) encode() ([]byte, error) { return encodeJSON(s) }

// Check reports CodeInvalid unless s is complete and does not contradict itself.
func (s Publication) Check() error {
	p := s.Predicate
	if err := checkTypes(s.Type, s.PredicateType, PublicationType); err != nil {
		return err
	}
	if len(s.Subject) != 3 || s.Subject[1].Digest.GitCommit != string(p.Commit) {
		return invalid("subject", "expected tree, the commit that was published, and manifest")
	}
	for name, d := range map[string]sallyport.Digest{"acceptance": p.Acceptance, "evidence": p.Evidence} {
		if err := d.Check(); err != nil {
			return field(name, err)
		}
	}
	if err := p.Commit.Check(); err != nil {
		return field("commit", err)
	}
	if p.Replaced != "" {
		if err := p.Replaced.Check(); err != nil {
			return field("replaced", err)
		}
	}
	if err := p.Target.Check(); err != nil {
		return err
	}
	if !slices.Contains([]string{"none", "process", "user"}, p.Separation) {
		return invalid("separation", "expected none, process or user, found %.40q", p.Separation)
	}
	if !slices.Contains([]string{"minted", "configured", "none"}, p.Credential.Class) {
		return invalid("credential.class", "expected minted, configured or none, found %.40q", p.Credential.Class)
	}
	if p.PullRequest != nil && (p.PullRequest.Number < 1 || p.PullRequest.URL == "") {
		return invalid("pull_request", "expected its number and address")
	}
	if _, err := parseTime(p.Finished); err != nil {
		return invalid("finished", "expected a time in RFC 3339 and UTC, found %.40q", p.Finished)
	}
	return nil
}

// SealPublication signs s, whose KeyID it fills.
func SealPublication(ctx context.Context, signer Signer, s Publication) ([]byte, sallyport.Digest, error) {
	s.Predicate.KeyID = signer.KeyID()
	return sealExactly(ctx, signer, s, PublicationType)
}

// VerifyPublication says whether envelope is a receipt by one of keys for the acceptance whose envelope is given. It fails
// closed as Verify does.
func VerifyPublication(envelope []byte, keys []PublicKey, acceptance []byte) (Publication, error) {
	s, signers, err := openExactly[Publication](envelope, keys, PublicationType)
	if err != nil {
		return Publication{}, err
	}
	key, ok := signers[s.Predicate.KeyID]
	if !ok {
		return Publication{}, denied("signature", "the receipt names key %.40q, which did not sign it", s.Predicate.KeyID)
	}
	if _, err := validAt(key, s.Predicate.Finished); err != nil {
		return Publication{}, err
	}
	if want := sallyport.Sum(acceptance); s.Predicate.Acceptance != want {
		return Publication{}, denied("acceptance", "the receipt is for acceptance %s, expected %s", s.Predicate.Acceptance, want)
	}
	return s, nil
}
