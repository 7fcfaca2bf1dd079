// Package evidencetest makes evidence and acceptances that are sound, for tests of whoever reads them.
package evidencetest

import (
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/evidence"
)

// Origin names the journal of everything here.
const Origin = "sallyport.dev/journal/fac_00000000000000000000000000"

// Case is one accepted change of one WorkOrder, and where it may go.
type Case struct {
	Signer    evidence.Signer
	WorkOrder byte // tells work orders apart
	Attempt   byte
	Fence     int64
	Seq       int64 // of the journal, when it was accepted
	Base      evidence.AcceptedBase
	Tree      sallyport.ObjectID
	Commit    sallyport.ObjectID
	Target    evidence.Target
	Pack      []byte
	Nonce     string
	At        time.Time
	// Alter may change the acceptance before it is sealed; nil: nothing.
	Alter func(*evidence.Accepted)
}

// WorkOrder is the id of a Case's.
func (c Case) WorkOrderID() sallyport.WorkOrderID {
	return sallyport.WorkOrderID(sallyport.FormatID(sallyport.WorkOrderPrefix, [16]byte{c.WorkOrder}))
}

// AttemptID is the id of a Case's.
func (c Case) AttemptID() sallyport.AttemptID {
	return sallyport.AttemptID(sallyport.FormatID(sallyport.AttemptPrefix, [16]byte{c.Attempt}))
}

// Evidence seals the evidence of an accepted change.
func Evidence(t testing.TB, c Case) []byte {
	t.Helper()
	hash := sallyport.Sum([]byte("journal"))
	note, err := evidence.SignCheckpoint(t.Context(), c.Signer, Origin, 1, hash)
	if err != nil {
		t.Fatal(err)
	}
	at := evidence.Time(c.At)
	b, _, err := evidence.Seal(t.Context(), c.Signer, evidence.New(evidence.Predicate{
		WorkOrder: evidence.WorkOrder{ID: c.WorkOrderID(), Name: "fix"},
		Attempt:   evidence.Attempt{ID: c.AttemptID(), Number: 1, Nonce: strings.Repeat("0", 20)},
		Manifest:  sallyport.Sum([]byte("manifest")),
		Base:      evidence.Base{Ref: c.Target.Base, Commit: c.Base.Commit, Tree: c.Base.Tree, StartTree: c.Base.Tree},
		Result:    evidence.Result{Tree: c.Tree, TreeSHA256: sallyport.Sum([]byte(c.Tree)), Commit: c.Commit},
		Policy:    evidence.Policy{Kind: "none"},
		Checks: []evidence.Check{{Name: "test", Command: "make test", Status: sallyport.CheckPassed, StatusBy: "keeper",
			Controls: []evidence.Control{{Name: "must-fail", Held: true, Detail: "exit 1"}}}},
		Decision:   evidence.Decision{Decision: sallyport.DecisionAccepted, Code: "all-passed", Message: "all checks passed"},
		Separation: "none",
		Validated:  []evidence.Validated{{Purpose: evidence.PurposeResult, Tree: c.Tree}},
		Journal:    evidence.JournalRef{Origin: Origin, Seq: 1, Hash: hash, Note: note},
		Provider:   "local", Started: at, Ended: at, Signed: at,
		By: evidence.By{Version: "0.1.0", Independence: evidence.IndependenceEmbedded},
	}))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Acceptance seals the acceptance of the evidence.
func Acceptance(t testing.TB, c Case, ofEvidence []byte, keys []evidence.PublicKey) []byte {
	t.Helper()
	v, err := evidence.Verify(ofEvidence, keys, evidence.Expect{})
	if err != nil {
		t.Fatal(err)
	}
	p := evidence.Accepted{Factory: strings.TrimPrefix(Origin, "sallyport.dev/journal/"), WorkOrder: v.Statement.Predicate.WorkOrder, Attempt: c.AttemptID(), Fence: c.Fence,
		Evidence: v.Envelope, Base: c.Base, Target: c.Target, Pack: evidence.Pack{Digest: sallyport.Sum(c.Pack), Bytes: int64(len(c.Pack))},
		Task: "fix it", Submitter: "una", Nonce: c.Nonce, Issued: evidence.Time(c.At), NotAfter: evidence.Time(c.At.Add(time.Hour)),
		Journal: evidence.JournalRef{Origin: Origin, Seq: c.Seq, Hash: sallyport.Sum([]byte{byte(c.Seq)})}}
	if c.Alter != nil {
		c.Alter(&p)
	}
	if p.Journal.Note, err = evidence.SignCheckpoint(t.Context(), c.Signer, p.Journal.Origin, p.Journal.Seq, p.Journal.Hash); err != nil {
		t.Fatal(err)
	}
	b, _, err := evidence.SealAcceptance(t.Context(), c.Signer, evidence.NewAcceptance(v, p))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
