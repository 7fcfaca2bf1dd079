package evidence

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
)

// TestContradictions: each of these is refused when it is signed, whoever signs, and when it is read.
func TestContradictions(t *testing.T) {
	s := signerOf(1)
	for name, spoil := range map[string]func(p *Predicate){
		"a required control that was not held":   func(p *Predicate) { p.Checks[0].Controls[1].Held = false },
		"a control twice":                        func(p *Predicate) { p.Checks[0].Controls[1].Name = p.Checks[0].Controls[0].Name },
		"a control without a name":               func(p *Predicate) { p.Checks[0].Controls[0].Name = "" },
		"a pass with a failed run":               func(p *Predicate) { p.Checks[2].Status = sallyport.CheckPassed },
		"a flaky check, accepted":                func(p *Predicate) { p.Decision.Decision = sallyport.DecisionAccepted },
		"a negative count":                       func(p *Predicate) { p.Checks[0].Tests.Passed = -1 },
		"a count without its format":             func(p *Predicate) { p.Checks[0].BaseTally.Format = "" },
		"a reused result of nobody":              func(p *Predicate) { p.Checks[1].Reused = "att_1" },
		"negative seconds of a run":              func(p *Predicate) { p.Checks[2].Runs[0].Seconds = -1 },
		"a validated tree that is not published": func(p *Predicate) { p.Validated[0].Tree = oid("f") },
		"a base that is not the base":            func(p *Predicate) { p.Validated[1].Tree = oid("f") },
		"a tree without purpose":                 func(p *Predicate) { p.Validated[2].Purpose = "" },
		"a purpose without tree":                 func(p *Predicate) { p.Validated[2].Tree = "" },
		"an environment without name":            func(p *Predicate) { p.Environment[0].Name = "" },
		"an environment twice":                   func(p *Predicate) { p.Environment[0].Name = p.Environment[1].Name },
		"an environment without digest":          func(p *Predicate) { p.Environment[0].Digest = "" },
		"a log without name":                     func(p *Predicate) { p.Logs[0].Name = "" },
		"a log twice":                            func(p *Predicate) { p.Logs[0].Name = p.Logs[1].Name },
		"a log without digest":                   func(p *Predicate) { p.Logs[0].Digest = "" },
		"a log of negative length":               func(p *Predicate) { p.Logs[0].Bytes = -1 },
		"more refused than asked":                func(p *Predicate) { p.Egress.Refused = 10 },
		"negative bytes":                         func(p *Predicate) { p.Egress.BytesUp = -1 },
		"negative spend":                         func(p *Predicate) { p.Spend.MicroUSD = -1 },
		"a patch that is no digest":              func(p *Predicate) { p.Result.Patch = "sha256:x" },
	} {
		p := full(t, s)
		spoil(&p)
		if out, _, err := Seal(t.Context(), s, New(p)); sallyport.CodeOf(err) != sallyport.CodeInvalid || out != nil {
			t.Errorf("%s: sealed, %v", name, err)
		}
		p.By.KeyID = s.KeyID()
		payload, err := New(p).encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Verify(rebuild(t, s, PayloadType, payload), []PublicKey{s.trusted()}, Expect{}); sallyport.CodeOf(err) != sallyport.CodeInvalid {
			t.Errorf("%s: verified, %v", name, err)
		}
	}
	if _, _, err := Seal(t.Context(), s, New(full(t, s))); err != nil {
		t.Errorf("the unchanged predicate: %v", err)
	}
	// What is rejected may say why.
	p := full(t, s)
	p.Checks[0].Controls[1].Held, p.Decision.Decision = false, sallyport.DecisionRejected
	if _, _, err := Seal(t.Context(), s, New(p)); err != nil {
		t.Errorf("rejected for a control: %v", err)
	}
}

// Nothing and not recorded are two things, in the bytes and in the words.
func TestNothingIsNotUnrecorded(t *testing.T) {
	s := signerOf(1)
	for _, w := range []struct {
		egress *Egress
		member string
		word   string
	}{
		{nil, "", "Not recorded: what left the agent's sandbox."},
		{&Egress{}, `"egress":{"requests":0,"refused":0,"bytes_up":0,"bytes_down":0}`, "Observed by the signer: nothing left the agent's sandbox."},
		{&Egress{Requests: 2, BytesUp: 5, BytesDown: 7}, `"egress":{"requests":2`, "2 request(s) left the agent's sandbox through the gateway, 0 refused; 5 bytes up, 7 down."},
	} {
		b := sealed(t, s, func(p *Predicate) { p.Egress = w.egress })
		if got := bytes.Contains(payloadOf(t, b), []byte(`"egress"`)); got != (w.member != "") || !bytes.Contains(payloadOf(t, b), []byte(w.member)) {
			t.Errorf("%+v: %s", w.egress, payloadOf(t, b))
		}
		v, err := Verify(b, []PublicKey{s.trusted()}, Expect{})
		if err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(Summary(v), "\n"); !strings.Contains(text, w.word) {
			t.Errorf("%q is not in\n%s", w.word, text)
		}
	}
}

// An error names every subject that did not match, and what did.
func TestMismatchesAreAllNamed(t *testing.T) {
	s := signerOf(1)
	b := sealed(t, s, nil)
	_, err := Verify(b, []PublicKey{s.trusted()}, Expect{Tree: oid("f"), TreeSHA256: sallyport.Sum([]byte("tree")), Commit: oid("e"), Base: oid("a")})
	if sallyport.CodeOf(err) != sallyport.CodeDenied {
		t.Fatal(err)
	}
	for _, want := range []string{": tree, commit: ", `tree: expected "` + string(oid("f")) + `", the evidence is about "` + string(oid("c")), `commit: expected "` + string(oid("e")), "what does match: tree sha256, base"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %q", want, err)
		}
	}
}

func TestOneMismatchIsNamedOnce(t *testing.T) {
	s := signerOf(1)
	_, err := Verify(sealed(t, s, nil), []PublicKey{s.trusted()}, Expect{Commit: oid("e")})
	if want := `verify evidence: commit: expected "` + string(oid("e")) + `", the evidence is about "` + string(oid("d")) + `"`; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestStaleCheckpoint(t *testing.T) {
	s := signerOf(1)
	b := sealed(t, s, nil)
	j := sample(t, s).Journal
	other := sallyport.Sum([]byte("other"))
	for _, w := range []struct {
		name string
		head Head
		want string
	}{
		{"the same point", Head{j.Origin, j.Seq, j.Hash}, ""},
		{"an earlier point", Head{j.Origin, j.Seq - 1, other}, ""},
		{"a later point", Head{j.Origin, j.Seq + 1, other}, "stale"},
		{"the same point of another history", Head{j.Origin, j.Seq, other}, "another history"},
		{"another journal", Head{j.Origin + "x", 1, other}, "tied to"},
		{"a journal without a name", Head{"", 1, other}, "tied to"},
	} {
		v, err := Verify(b, []PublicKey{s.trusted()}, Expect{Since: w.head})
		if (err == nil) != (w.want == "") || err != nil && (!strings.Contains(err.Error(), w.want) || sallyport.CodeOf(err) != sallyport.CodeDenied) {
			t.Errorf("%s: %v", w.name, err)
		}
		if err == nil && !strings.Contains(strings.Join(v.Compared, " "), "journal") {
			t.Errorf("%s: compared %v", w.name, v.Compared)
		}
	}
	// Evidence and a note of it speak of the same point.
	for name, doc := range map[string][]byte{"evidence": b, "note": []byte(j.Note)} {
		if h, err := HeadOf(doc, []PublicKey{s.trusted()}); err != nil || h != (Head{j.Origin, j.Seq, j.Hash}) {
			t.Errorf("%s: %+v, %v", name, h, err)
		}
		if _, err := HeadOf(doc, []PublicKey{signerOf(2).trusted()}); sallyport.CodeOf(err) != sallyport.CodeDenied {
			t.Errorf("%s by another key: %v", name, err)
		}
	}
	// A checkpoint from before the statement's own point, signed by the right key.
	old, err := SignCheckpoint(t.Context(), s, j.Origin, j.Seq-1, j.Hash)
	if err != nil {
		t.Fatal(err)
	}
	p := sample(t, s)
	p.Journal.Note = old
	if _, _, err := Seal(t.Context(), s, New(p)); err == nil || !strings.Contains(err.Error(), "stale") {
		t.Errorf("sealed with an older note: %v", err)
	}
	p.By.KeyID = s.KeyID()
	payload, err := New(p).encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(rebuild(t, s, PayloadType, payload), []PublicKey{s.trusted()}, Expect{}); err == nil || !strings.Contains(err.Error(), "stale") {
		t.Errorf("verified with an older note: %v", err)
	}
}

// Logs are named whole in the words, and their absence is said.
func TestLogsInTheSummary(t *testing.T) {
	s := signerOf(1)
	for want, change := range map[string]func(p *Predicate){
		"Not recorded: what the logs hold.": nil,
		"Observed by the signer: digests of 2 log(s) as they were kept, with known secrets replaced 2 time(s).": func(p *Predicate) { *p = full(t, s) },
	} {
		v, err := Verify(sealed(t, s, change), []PublicKey{s.trusted()}, Expect{})
		if err != nil {
			t.Fatal(err)
		}
		if got := Summary(v); !slices.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
}
