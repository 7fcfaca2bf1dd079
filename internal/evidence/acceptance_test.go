package evidence

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport"
)

var issued = date("2030-06-01T12:03:00Z")

// accept seals an acceptance of v's evidence.
func accept(t testing.TB, s Signer, v Verified, change func(*Acceptance)) []byte {
	t.Helper()
	e := v.Statement.Predicate
	note, err := SignCheckpoint(t.Context(), s, e.Journal.Origin, e.Journal.Seq+3, e.Journal.Hash)
	if err != nil {
		t.Fatal(err)
	}
	a := NewAcceptance(v, Accepted{Factory: strings.TrimPrefix(e.Journal.Origin, "sallyport.dev/journal/"), WorkOrder: e.WorkOrder, Attempt: e.Attempt.ID, Fence: 7, Evidence: v.Envelope,
		Base: AcceptedBase{Commit: e.Base.Commit, Tree: e.Base.Tree}, Target: Target{Repository: "https://forge.example/acme/shop", Base: "refs/heads/main", Branch: "refs/heads/sallyport/fix"},
		Pack: Pack{Digest: sallyport.Sum([]byte("pack")), Bytes: 4}, Task: "fix it", Submitter: "una", Nonce: strings.Repeat("n", 43), Issued: Time(issued), NotAfter: Time(issued.Add(time.Hour)),
		Journal: JournalRef{Origin: e.Journal.Origin, Seq: e.Journal.Seq + 3, Hash: e.Journal.Hash, Note: note}})
	if change != nil {
		change(&a)
	}
	b, digest, err := SealAcceptance(t.Context(), s, a)
	if err != nil || digest != sallyport.Sum(b) {
		t.Fatal(digest, err)
	}
	return b
}

func TestAcceptance(t *testing.T) {
	s, stranger := signerOf(7), signerOf(9)
	keys := []PublicKey{s.trusted()}
	evidence := sealed(t, s, func(p *Predicate) { p.Decision.Decision = sallyport.DecisionAccepted })
	v, err := Verify(evidence, keys, Expect{})
	if err != nil {
		t.Fatal(err)
	}
	good := accept(t, s, v, nil)
	a, got, err := VerifyAcceptance(good, evidence, keys, issued)
	if err != nil || a.Predicate.Evidence != v.Envelope || got.Envelope != v.Envelope {
		t.Fatal(err)
	}
	golden(t, "acceptance-v1.golden.json", good)

	other := sealed(t, s, func(p *Predicate) { p.Decision.Decision, p.Result.Tree = sallyport.DecisionAccepted, oid("9") })
	waiting := sealed(t, s, func(p *Predicate) { p.Decision.Decision = sallyport.DecisionRejected })
	w, err := Verify(waiting, keys, Expect{})
	if err != nil {
		t.Fatal(err)
	}
	awaiting := sealed(t, s, func(p *Predicate) { p.Decision.Decision = sallyport.DecisionAwaitingApproval })
	wa, err := Verify(awaiting, keys, Expect{})
	if err != nil {
		t.Fatal(err)
	}
	word := func(v Verified) *Approved {
		return &Approved{Who: "ada", Evidence: v.Envelope, Seq: v.Statement.Predicate.Journal.Seq + 2}
	}
	if _, _, err := VerifyAcceptance(accept(t, s, wa, func(a *Acceptance) { a.Predicate.Approved = word(wa) }), awaiting, keys, issued); err != nil {
		t.Errorf("approved by a person: %v", err)
	}
	for name, k := range map[string]struct {
		envelope, evidence []byte
		keys               []PublicKey
		now                time.Time
		code               sallyport.Code
		subject            string
	}{
		"a stranger's":                {accept(t, s, v, nil), evidence, []PublicKey{stranger.trusted()}, issued, sallyport.CodeDenied, "signature"},
		"no key":                      {good, evidence, nil, issued, sallyport.CodeInvalid, "keys"},
		"too early":                   {good, evidence, keys, issued.Add(-3 * time.Minute), sallyport.CodeDenied, "issued"},
		"too late":                    {good, evidence, keys, issued.Add(time.Hour + time.Second), sallyport.CodeDenied, "not_after"},
		"other evidence":              {good, other, keys, issued, sallyport.CodeDenied, "evidence"},
		"of what was rejected":        {accept(t, s, w, nil), waiting, keys, issued, sallyport.CodeDenied, "evidence"},
		"awaiting, by nobody's word":  {accept(t, s, wa, nil), awaiting, keys, issued, sallyport.CodeDenied, "approved"},
		"a word that was not needed":  {accept(t, s, v, func(a *Acceptance) { a.Predicate.Approved = word(v) }), evidence, keys, issued, sallyport.CodeDenied, "approved"},
		"a word about other evidence": {accept(t, s, wa, func(a *Acceptance) { a.Predicate.Approved = word(v) }), awaiting, keys, issued, sallyport.CodeDenied, "approved"},
		"a word from before": {accept(t, s, wa, func(a *Acceptance) {
			a.Predicate.Approved = word(wa)
			a.Predicate.Approved.Seq = wa.Statement.Predicate.Journal.Seq
		}), awaiting, keys, issued, sallyport.CodeDenied, "approved"},
		"a nameless word":     {accept(t, s, wa, func(a *Acceptance) { a.Predicate.Approved = word(wa); a.Predicate.Approved.Who = "" }), awaiting, keys, issued, sallyport.CodeDenied, "approved"},
		"the evidence itself": {evidence, evidence, keys, issued, sallyport.CodeInvalid, "predicateType"},
		"another base":        {accept(t, s, v, func(a *Acceptance) { a.Predicate.Base.Commit = oid("8") }), evidence, keys, issued, sallyport.CodeDenied, "base"},
		"another base tree":   {accept(t, s, v, func(a *Acceptance) { a.Predicate.Base.Tree = oid("8") }), evidence, keys, issued, sallyport.CodeDenied, "base.tree"},
		"another commit": {accept(t, s, v, func(a *Acceptance) {
			a.Subject = append([]Subject{}, a.Subject...)
			a.Subject[1].Digest.GitCommit = string(oid("8"))
		}), evidence, keys, issued, sallyport.CodeDenied, "subject"},
		"another work order": {accept(t, s, v, func(a *Acceptance) { a.Predicate.WorkOrder.Name = "other" }), evidence, keys, issued, sallyport.CodeDenied, "work_order"},
	} {
		_, _, err := VerifyAcceptance(k.envelope, k.evidence, k.keys, k.now)
		if sallyport.CodeOf(err) != k.code || !strings.Contains(err.Error(), k.subject) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What may not be signed at all.
func TestAcceptanceIncomplete(t *testing.T) {
	s := signerOf(7)
	v := accepted(t, s)
	for name, change := range map[string]func(*Acceptance){
		"factory":           func(a *Acceptance) { a.Predicate.Factory = "x" },
		"fence":             func(a *Acceptance) { a.Predicate.Fence = 0 },
		"submitter":         func(a *Acceptance) { a.Predicate.Submitter = "" },
		"nonce":             func(a *Acceptance) { a.Predicate.Nonce = "short" },
		"pack.bytes":        func(a *Acceptance) { a.Predicate.Pack.Bytes = 0 },
		"target.repository": func(a *Acceptance) { a.Predicate.Target.Repository = "a b" },
		"target.base":       func(a *Acceptance) { a.Predicate.Target.Base = "main" },
		"target.branch":     func(a *Acceptance) { a.Predicate.Target.Branch = a.Predicate.Target.Base },
		"not_after":         func(a *Acceptance) { a.Predicate.NotAfter = Time(issued.Add(25 * time.Hour)) },
		"issued":            func(a *Acceptance) { a.Predicate.Issued = "yesterday" },
		"evidence":          func(a *Acceptance) { a.Predicate.Evidence = "sha256:x" },
		"journal":           func(a *Acceptance) { a.Predicate.Journal.Seq++ },
		"subject":           func(a *Acceptance) { a.Subject = a.Subject[:2] },
	} {
		a := NewAcceptance(v, Accepted{})
		sound := accept(t, s, v, func(b *Acceptance) { a = *b })
		_ = sound
		change(&a)
		if _, _, err := SealAcceptance(t.Context(), s, a); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPublication(t *testing.T) {
	s, publisher := signerOf(7), signerOf(11)
	v := accepted(t, s)
	acceptance := accept(t, s, v, nil)
	var a Acceptance
	accept(t, s, v, func(b *Acceptance) { a = *b })
	p := NewPublication(a, sallyport.Sum(acceptance), Published{Kind: "gitea", PullRequest: &PullRequest{Number: 1, URL: "https://forge.example/acme/shop/pulls/1", Draft: true, Opened: true},
		Credential: CredentialUsed{Class: "configured"}, Separation: "none", Finished: Time(issued.Add(time.Minute))})
	b, digest, err := SealPublication(t.Context(), publisher, p)
	if err != nil || digest != sallyport.Sum(b) {
		t.Fatal(err)
	}
	golden(t, "publication-v1.golden.json", b)
	got, err := VerifyPublication(b, []PublicKey{publisher.trusted()}, acceptance)
	if err != nil || got.Predicate.Nonce != a.Predicate.Nonce || got.Predicate.Commit != v.Statement.Predicate.Result.Commit {
		t.Fatal(got, err)
	}
	if _, err := VerifyPublication(b, []PublicKey{s.trusted()}, acceptance); sallyport.CodeOf(err) != sallyport.CodeDenied {
		t.Errorf("Mission Control's key makes receipts: %v", err)
	}
	if _, err := VerifyPublication(b, []PublicKey{publisher.trusted()}, accept(t, s, v, func(a *Acceptance) { a.Predicate.Fence++ })); sallyport.CodeOf(err) != sallyport.CodeDenied {
		t.Errorf("for another acceptance: %v", err)
	}
	for i := range b {
		bad := append([]byte{}, b...)
		bad[i] ^= 1
		if _, err := VerifyPublication(bad, []PublicKey{publisher.trusted()}, acceptance); err == nil {
			t.Fatalf("byte %d changed and nothing was said", i)
		}
	}
	for name, change := range map[string]func(*Published){
		"separation":       func(p *Published) { p.Separation = "host" },
		"credential.class": func(p *Published) { p.Credential.Class = "" },
		"pull_request":     func(p *Published) { p.PullRequest = &PullRequest{} },
		"finished":         func(p *Published) { p.Finished = "" },
		"subject":          func(p *Published) { p.Commit = oid("9") },
	} {
		q := p
		change(&q.Predicate)
		if _, _, err := SealPublication(t.Context(), publisher, q); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// receipt is a publication receipt and what it is verified with.
func receipt(t testing.TB) (publisher fixedSigner, acceptance, b []byte) {
	t.Helper()
	s := signerOf(7)
	publisher = signerOf(11)
	v := accepted(t, s)
	acceptance = accept(t, s, v, nil)
	var a Acceptance
	accept(t, s, v, func(b *Acceptance) { a = *b })
	b, _, err := SealPublication(t.Context(), publisher, NewPublication(a, sallyport.Sum(acceptance), Published{Kind: "gitea",
		PullRequest: &PullRequest{Number: 1, URL: "https://forge.example/acme/shop/pulls/1"}, Credential: CredentialUsed{Class: "configured"}, Separation: "none", Finished: Time(issued.Add(time.Minute))}))
	if err != nil {
		t.Fatal(err)
	}
	return publisher, acceptance, b
}

// FuzzReceipt: no other bytes than those that were signed are a receipt. And of bytes that the Publisher's key did sign, what
// is taken has one byte form, which another reader reads alike.
func FuzzReceipt(f *testing.F) {
	s, acceptance, b := receipt(f)
	p := payloadOf(f, b)
	f.Add(10, 0, []byte(" "))
	f.Add(len(b)-5, 4, []byte("=="))
	f.Add(bytes.Index(p, []byte(`"separation"`)), 0, []byte(`"Separation":"user",`))
	f.Add(bytes.Index(p, []byte(`"number":1`)), 10, []byte(`"number":2`))
	f.Add(bytes.Index(p, []byte(`"notes":[]`)), 10, []byte(`"notes":null`))
	f.Fuzz(func(t *testing.T, at, cut int, insert []byte) {
		if len(insert) > 1<<16 {
			return
		}
		if m, ok := spliced(b, at, cut, insert); ok {
			if _, err := VerifyPublication(m, []PublicKey{s.trusted()}, acceptance); err == nil && !bytes.Equal(bytes.TrimSuffix(m, lineFeed), bytes.TrimSuffix(b, lineFeed)) {
				t.Fatalf("accepted other bytes: %q", m)
			}
		}
		m, ok := spliced(p, at, cut, insert)
		if !ok {
			return
		}
		got, err := VerifyPublication(rebuild(t, s, PayloadType, m), []PublicKey{s.trusted()}, acceptance)
		if err != nil {
			return
		}
		again, err := got.encode()
		if err != nil || !bytes.Equal(again, m) {
			t.Fatalf("another byte form was accepted: %q", m)
		}
		var loose struct{ Predicate map[string]any }
		if err := json.Unmarshal(m, &loose); err != nil || loose.Predicate["separation"] != got.Predicate.Separation || loose.Predicate["commit"] != string(got.Predicate.Commit) {
			t.Fatalf("two readings of %q (%v)", m, err)
		}
	})
}

// FuzzAcceptance: no other bytes than those that Mission Control signed are its word to a Publisher.
func FuzzAcceptance(f *testing.F) {
	s := signerOf(7)
	evidence := sealed(f, s, func(p *Predicate) { p.Decision.Decision = sallyport.DecisionAccepted })
	b := accept(f, s, accepted(f, s), nil)
	read := func(b []byte) (Acceptance, error) {
		a, _, err := VerifyAcceptance(b, evidence, []PublicKey{s.trusted()}, issued)
		return a, err
	}
	want, err := read(b)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(10, 0, []byte(" "))
	f.Add(60, 1, []byte("A"))
	f.Add(len(b)-5, 4, []byte("=="))
	f.Fuzz(func(t *testing.T, at, cut int, insert []byte) {
		m, ok := spliced(b, at, cut, insert)
		if !ok || len(insert) > 1<<16 {
			return
		}
		got, err := read(m)
		if err == nil && (!bytes.Equal(bytes.TrimSuffix(m, lineFeed), bytes.TrimSuffix(b, lineFeed)) || !reflect.DeepEqual(got, want)) {
			t.Fatalf("accepted other bytes: %q", m)
		}
	})
}

// spliced is b with insert in place of cut bytes; false: there is no such place.
func spliced(b []byte, at, cut int, insert []byte) ([]byte, bool) {
	if at < 0 || at > len(b) || cut < 0 || cut > len(b)-at {
		return nil, false
	}
	return append(append(bytes.Clone(b[:at]), insert...), b[at+cut:]...), true
}
