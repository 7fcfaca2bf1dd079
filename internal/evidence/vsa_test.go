package evidence

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
)

var verified = date("2030-06-01T12:02:00Z")

// accepted is verified evidence of an accepted change.
func accepted(t testing.TB, s Signer) Verified {
	t.Helper()
	b := sealed(t, s, func(p *Predicate) { p.Decision.Decision = sallyport.DecisionAccepted })
	v, err := Verify(b, []PublicKey{signerOf(7).trusted()}, Expect{})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func sealedVSA(t testing.TB, s Signer, v Verified, d sallyport.Decision) []byte {
	t.Helper()
	vsa, err := Summarise(v, d, verified)
	if err != nil {
		t.Fatal(err)
	}
	b, digest, err := SealVSA(t.Context(), s, vsa)
	if err != nil || digest != sallyport.Sum(b) {
		t.Fatal(digest, err)
	}
	return b
}

// TestVSAGolden holds the form still, and holds it to SLSA's: the names and values that its verifiers look for.
func TestVSAGolden(t *testing.T) {
	s := signerOf(7)
	v := accepted(t, s)
	b := golden(t, "vsa-v1.golden.json", sealedVSA(t, s, v, sallyport.DecisionAccepted))
	_, compared, err := VerifyVSA(b, []PublicKey{s.trusted()}, SummaryOf(v))
	if err != nil || len(compared) != 6 {
		t.Fatal(compared, err)
	}
	r := v.Statement.Predicate.Result
	want := `{"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"tree","digest":{"gitTree":"` + string(r.Tree) + `","sha256":"` + r.TreeSHA256.Hex() + `"}},` +
		`{"name":"commit","digest":{"gitCommit":"` + string(r.Commit) + `"}}],"predicateType":"https://slsa.dev/verification_summary/v1","predicate":{` +
		`"verifier":{"id":"https://sallyport.dev/verifier/embedded/v1","version":{"sallyport":"0.1.0"}},"timeVerified":"2030-06-01T12:02:00Z",` +
		`"resourceUri":"https://sallyport.dev/work-order/` + string(v.Statement.Predicate.WorkOrder.ID) + `",` +
		`"policy":{"uri":"https://sallyport.dev/manifest/v1","digest":{"sha256":"` + v.Statement.Predicate.Manifest.Hex() + `"}},` +
		`"inputAttestations":[{"digest":{"sha256":"` + v.Envelope.Hex() + `"}}],"verificationResult":"PASSED","verifiedLevels":["SLSA_BUILD_LEVEL_UNEVALUATED"],"slsaVersion":"1.1"}}`
	if got := string(payloadOf(t, b)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Law: only an accepted change passes, and nobody overrules a rejection.
func TestVSADecisions(t *testing.T) {
	s := signerOf(7)
	decisions := []sallyport.Decision{sallyport.DecisionRejected, sallyport.DecisionAccepted, sallyport.DecisionAwaitingApproval, sallyport.DecisionNone, "ACCEPTED"}
	for _, says := range decisions[:3] {
		v := accepted(t, s)
		v.Statement.Predicate.Decision.Decision = says
		for _, now := range decisions {
			vsa, err := Summarise(v, now, verified)
			known := now == sallyport.DecisionRejected || says != sallyport.DecisionRejected && (now == sallyport.DecisionAccepted || now == sallyport.DecisionAwaitingApproval)
			if (err == nil) != known {
				t.Errorf("evidence %s, now %q: %v", says, now, err)
			}
			if err != nil {
				continue
			}
			passes := vsa.Predicate.VerificationResult == "PASSED"
			if passes != (now == sallyport.DecisionAccepted) || passes == reflect.DeepEqual(vsa.Predicate.VerifiedLevels, []string{"FAILED"}) {
				t.Errorf("evidence %s, now %q: %+v", says, now, vsa.Predicate)
			}
			b, _, err := SealVSA(t.Context(), s, vsa)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := VerifyVSA(b, []PublicKey{s.trusted()}, SummaryOf(v)); (err == nil) != passes || err != nil && sallyport.CodeOf(err) != sallyport.CodeDenied {
				t.Errorf("evidence %s, now %q: verified %v", says, now, err)
			}
		}
	}
	v := accepted(t, s)
	v.Statement.Predicate.Result.Commit = ""
	if _, err := Summarise(v, sallyport.DecisionAccepted, verified); err == nil {
		t.Error("passed without a commit")
	}
	if _, err := Summarise(v, sallyport.DecisionRejected, verified); err != nil {
		t.Errorf("failed without a commit: %v", err)
	}
}

func TestVSADeniesEveryOtherDigest(t *testing.T) {
	s := signerOf(7)
	v := accepted(t, s)
	b := sealedVSA(t, s, v, sallyport.DecisionAccepted)
	for i := range reflect.TypeFor[ExpectVSA]().NumField() {
		want := SummaryOf(v)
		f := reflect.ValueOf(&want).Elem().Field(i)
		// A digest that is not even one must not pass for "not given".
		for _, other := range []string{f.String() + "0", "x"} {
			f.SetString(other)
			if _, _, err := VerifyVSA(b, []PublicKey{s.trusted()}, want); sallyport.CodeOf(err) != sallyport.CodeDenied {
				t.Errorf("%s %q: got %v, want denied", reflect.TypeFor[ExpectVSA]().Field(i).Name, other, err)
			}
		}
	}
	early := s.trusted()
	early.NotAfter = verified.Add(-1)
	for name, keys := range map[string][]PublicKey{"another key": {signerOf(2).trusted()}, "no key": nil, "an expired key": {early}} {
		if _, _, err := VerifyVSA(b, keys, ExpectVSA{}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	// The two kinds of statement are not each other.
	if _, _, err := VerifyVSA(sealed(t, s, nil), []PublicKey{s.trusted()}, ExpectVSA{}); err == nil {
		t.Error("evidence was taken for a summary")
	}
	if _, err := Verify(b, []PublicKey{s.trusted()}, Expect{}); err == nil {
		t.Error("a summary was taken for evidence")
	}
}

// TestVSAStrict: each is signed by the trusted key and yet is no summary of ours.
func TestVSAStrict(t *testing.T) {
	s := signerOf(7)
	payload := string(payloadOf(t, sealedVSA(t, s, accepted(t, s), sallyport.DecisionAccepted)))
	for _, c := range []struct{ name, old, new string }{
		{"another predicate", "verification_summary/v1", "verification_summary/v2"},
		{"passed with another level", "SLSA_BUILD_LEVEL_UNEVALUATED", "SLSA_BUILD_LEVEL_3"},
		{"passed and failed", `"verifiedLevels":["SLSA_BUILD_LEVEL_UNEVALUATED"]`, `"verifiedLevels":["FAILED"]`},
		{"no level", `"verifiedLevels":["SLSA_BUILD_LEVEL_UNEVALUATED"]`, `"verifiedLevels":[]`},
		{"another word", `"PASSED"`, `"passed"`},
		{"unknown member", `"slsaVersion"`, `"x":1,"slsaVersion"`},
		{"case twin", `"slsaVersion"`, `"VerificationResult":"FAILED","slsaVersion"`},
		{"white space", `"slsaVersion"`, ` "slsaVersion"`},
		{"no evidence", `"inputAttestations":[{`, `"inputAttestations":[],"x":[{`},
		{"another verifier", "verifier/embedded", "verifier/other"},
		{"no time", `"timeVerified":"2030-06-01T12:02:00Z"`, `"timeVerified":""`},
		{"no resource", `"resourceUri":"https://sallyport.dev/`, `"resourceUri":"`},
		{"no tree", `"name":"tree"`, `"name":"commit"`},
		{"tree without SHA-256", `,"sha256":"` + sallyport.Sum([]byte("tree")).Hex() + `"`, ""},
		{"tree that is a commit, too", `"gitTree":"` + string(oid("c")) + `"`, `"gitTree":"` + string(oid("c")) + `","gitCommit":"` + string(oid("d")) + `"`},
		{"commit with another digest", `{"gitCommit":"` + string(oid("d")) + `"}`, `{"gitCommit":"` + string(oid("d")) + `","sha256":"` + sallyport.Sum(nil).Hex() + `"}`},
		{"no commit", `,{"name":"commit","digest":{"gitCommit":"` + string(oid("d")) + `"}}`, ""},
		{"a third subject", `"subject":[`, `"subject":[{"name":"x","digest":{}},`},
	} {
		if !strings.Contains(payload, c.old) {
			t.Fatalf("%s: %q is not in the payload", c.name, c.old)
		}
		b := rebuild(t, s, PayloadType, []byte(strings.Replace(payload, c.old, c.new, 1)))
		if _, _, err := VerifyVSA(b, []PublicKey{s.trusted()}, ExpectVSA{}); err == nil {
			t.Errorf("%s: accepted", c.name)
		}
	}
	if _, _, err := VerifyVSA(rebuild(t, s, PayloadType, []byte(payload)), []PublicKey{s.trusted()}, ExpectVSA{}); err != nil {
		t.Errorf("the unchanged payload: %v", err)
	}
}

// FuzzVSA: no other bytes than those that were signed are a summary.
func FuzzVSA(f *testing.F) {
	s := signerOf(7)
	b := sealedVSA(f, s, accepted(f, s), sallyport.DecisionAccepted)
	f.Add(10, 0, []byte(" "))
	f.Add(60, 1, []byte("A"))
	f.Add(len(b)-5, 4, []byte("=="))
	f.Fuzz(func(t *testing.T, at, cut int, insert []byte) {
		if at < 0 || at > len(b) || cut < 0 || cut > len(b)-at || len(insert) > 1<<16 {
			return
		}
		m := append(append(bytes.Clone(b[:at]), insert...), b[at+cut:]...)
		if _, _, err := VerifyVSA(m, []PublicKey{s.trusted()}, ExpectVSA{}); err == nil && !bytes.Equal(bytes.TrimSuffix(m, lineFeed), bytes.TrimSuffix(b, lineFeed)) {
			t.Fatalf("accepted other bytes: %q", m)
		}
	})
}

// Who holds the decision reads a summary of either kind, and everything but the result is held to want.
func TestReadVSA(t *testing.T) {
	s := signerOf(7)
	v := accepted(t, s)
	for d, want := range map[sallyport.Decision]string{sallyport.DecisionAccepted: VSAPassed, sallyport.DecisionAwaitingApproval: VSAFailed, sallyport.DecisionRejected: VSAFailed} {
		b := sealedVSA(t, s, v, d)
		got, compared, err := ReadVSA(b, []PublicKey{s.trusted()}, SummaryOf(v))
		if err != nil || got.Predicate.VerificationResult != want || len(compared) != 6 {
			t.Errorf("%s: %q, compared %v, %v", d, got.Predicate.VerificationResult, compared, err)
		}
		other := SummaryOf(v)
		other.Evidence = sallyport.Sum(nil)
		if _, _, err := ReadVSA(b, []PublicKey{s.trusted()}, other); sallyport.CodeOf(err) != sallyport.CodeDenied {
			t.Errorf("%s of other evidence: %v", d, err)
		}
		if _, _, err := ReadVSA(b, []PublicKey{signerOf(8).trusted()}, SummaryOf(v)); sallyport.CodeOf(err) != sallyport.CodeDenied {
			t.Errorf("%s by another key: %v", d, err)
		}
	}
}
