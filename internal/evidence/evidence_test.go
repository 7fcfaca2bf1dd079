package evidence

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport"
)

var update = flag.Bool("update", false, "rewrite golden files")

// fixedSigner is a key made from a seed, valid over 2030.
type fixedSigner struct{ key ed25519.PrivateKey }

func signerOf(seed byte) fixedSigner {
	return fixedSigner{ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))}
}

func (s fixedSigner) KeyID() string             { return KeyID(s.Public()) }
func (s fixedSigner) Public() ed25519.PublicKey { return s.key.Public().(ed25519.PublicKey) }
func (s fixedSigner) Sign(_ context.Context, m []byte) ([]byte, error) {
	return ed25519.Sign(s.key, m), nil
}
func (s fixedSigner) trusted() PublicKey {
	return PublicKey{s.KeyID(), s.Public(), date("2030-01-01T00:00:00Z"), date("2030-12-31T00:00:00Z")}
}

func date(s string) time.Time {
	t, err := parseTime(s)
	if err != nil {
		panic(err)
	}
	return t
}

func oid(c string) sallyport.ObjectID { return sallyport.ObjectID(strings.Repeat(c, 40)) }

// sample is a full predicate with a journal note by s.
func sample(t testing.TB, s Signer) Predicate {
	t.Helper()
	const origin = "sallyport.dev/journal/fac_00000000000000000000000000"
	hash := sallyport.Sum([]byte("journal"))
	n, err := SignCheckpoint(t.Context(), s, origin, 42, hash)
	if err != nil {
		t.Fatal(err)
	}
	return Predicate{
		WorkOrder: WorkOrder{ID: sallyport.WorkOrderID(sallyport.FormatID("wo", [16]byte{1})), Name: "fix <login> & \"more\""},
		Attempt:   Attempt{ID: sallyport.AttemptID(sallyport.FormatID("att", [16]byte{2})), Number: 2, Nonce: "0123456789abcdef0123"},
		Manifest:  sallyport.Sum([]byte("manifest")),
		Base:      Base{Ref: "refs/heads/main", Commit: oid("a"), Tree: oid("b"), StartTree: oid("b")},
		Result:    Result{Tree: oid("c"), TreeSHA256: sallyport.Sum([]byte("tree")), Commit: oid("d"), Bundle: sallyport.Sum([]byte("bundle"))},
		Policy:    Policy{Kind: "protected-ref", Ref: "refs/remotes/origin/main", Commit: oid("a"), Digest: sallyport.Sum([]byte("policy"))},
		Layers: []Layer{
			{Layer: sallyport.LayerNetwork, Status: sallyport.LayerHeld, Required: true, Proof: "connect: network is unreachable", Grade: sallyport.GradeProbe},
			{Layer: sallyport.LayerMemory, Status: sallyport.LayerNotHeld, Proof: "no cgroup", Grade: sallyport.GradeObservation},
		},
		Findings: []Finding{{Rule: "hazard.ci", Severity: sallyport.SeverityWarn, Path: ".github/x.yml", Message: "changes what CI runs"}},
		Checks: []Check{{Name: "test", Command: "go test ./...", Status: sallyport.CheckPassed, StatusBy: "keeper", Seconds: 1.25,
			BaseStatus: sallyport.CheckFailed, Controls: []Control{{Name: "must-fail", Held: true, Detail: "exit 1"}}}},
		NotChecked: []string{"the tests' own worth"},
		Attempts:   []Earlier{{ID: sallyport.AttemptID(sallyport.FormatID("att", [16]byte{1})), Number: 1, State: sallyport.AttemptRejected, Decision: sallyport.DecisionRejected}},
		Decision:   Decision{Decision: sallyport.DecisionAwaitingApproval, Code: "finding", Message: "a person must look at CI"},
		Separation: "none",
		Journal:    JournalRef{Origin: origin, Seq: 42, Hash: hash, Note: n},
		Provider:   "local",
		Host:       Host{Kernel: "6.18.0", BootSHA256: sallyport.Sum([]byte("boot"))},
		Started:    "2030-06-01T12:00:00Z", Ended: "2030-06-01T12:01:00.5Z", Signed: "2030-06-01T12:01:01Z",
		By:     By{Version: "0.1.0", Independence: IndependenceEmbedded},
		Claims: Claims{Agent: "claude-code", Command: []string{"claude", "-p"}, Messages: []string{"Fix it ✔"}},
	}
}

func sealed(t testing.TB, s Signer, change func(*Predicate)) []byte {
	t.Helper()
	p := sample(t, s)
	if change != nil {
		change(&p)
	}
	b, _, err := Seal(t.Context(), s, New(p))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func all(p Predicate) Expect {
	return Expect{p.Result.Tree, p.Result.TreeSHA256, p.Result.Commit, p.Manifest, p.Base.Commit, p.Result.Bundle,
		p.Attempt.ID, p.WorkOrder.ID, p.Attempt.Nonce, p.Decision.Decision, p.Result.Patch, Head{p.Journal.Origin, p.Journal.Seq, p.Journal.Hash}}
}

// full is sample with everything that a predicate can hold.
func full(t testing.TB, s Signer) Predicate {
	p := sample(t, s)
	earlier := p.Attempts[0].ID
	p.Result.Patch = sallyport.Sum([]byte("patch"))
	p.Attempts[0].Code = "check-failed"
	p.Findings[0].Default = sallyport.SeverityInfo
	p.Checks[0].Controls = append(p.Checks[0].Controls, Control{Name: "min-tests", Held: true, Required: true, Detail: "12 of 1"})
	p.Checks[0].Tests = &Tally{Format: "go-json", Tests: 12, Passed: 12, Skipped: 1}
	p.Checks[0].BaseTally = &Tally{Format: "go-json", Tests: 11, Passed: 10, Failed: 1}
	p.Checks = append(p.Checks,
		Check{Name: "lint", Command: "make lint", Status: sallyport.CheckPassed, StatusBy: "keeper", Reused: earlier},
		Check{Name: "e2e", Command: "make e2e", Status: sallyport.CheckFlaky, StatusBy: "keeper",
			Runs: []Run{{sallyport.CheckFailed, 1, 2.5}, {sallyport.CheckPassed, 0, 2}}})
	p.Validated = []Validated{{PurposeResult, p.Result.Tree}, {PurposeBase, p.Base.Tree}, {PurposePlantedFault, oid("e")}}
	p.Environment = []Environment{{"tool go", sallyport.Sum([]byte("go"))}, {"cache go", sallyport.Sum([]byte("cache"))}}
	p.Logs = []Log{{"agent", sallyport.Sum([]byte("log")), 3, 0}, {"check-test-validate", sallyport.Sum([]byte("more")), 4096, 2}}
	p.Egress, p.Spend = &Egress{Requests: 9, Refused: 1, BytesUp: 2048, BytesDown: 4096}, &Spend{}
	return p
}

func TestPAE(t *testing.T) {
	// The example of the DSSE specification, protocol.md.
	if got, want := string(pae("http://example.com/HelloWorld", []byte("hello world"))), "DSSEv1 29 http://example.com/HelloWorld 11 hello world"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := string(pae("é", nil)), "DSSEv1 2 é 0 "; got != want {
		t.Errorf("lengths count bytes: got %q, want %q", got, want)
	}
}

// TestGolden holds the format still: what was sealed once must verify for ever, and equal input must give
// equal bytes.
func TestGolden(t *testing.T) {
	s := signerOf(7)
	fullOne := sealed(t, s, func(p *Predicate) { *p = full(t, s) })
	if v, err := Verify(golden(t, "attempt-v1-full.golden.json", fullOne), []PublicKey{s.trusted()}, all(full(t, s))); err != nil || len(v.Compared) != 12 {
		t.Errorf("compared %v, %v", v.Compared, err)
	}
	want := golden(t, "attempt-v1.golden.json", sealed(t, s, nil))
	v, err := Verify(want, []PublicKey{s.trusted()}, all(sample(t, s)))
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Compared) != 11 || v.Envelope != sallyport.Sum(want) {
		t.Errorf("compared %v, envelope %s", v.Compared, v.Envelope)
	}
	if v.Statement.Predicate.WorkOrder.Name != "fix <login> & \"more\"" {
		t.Errorf("name %q", v.Statement.Predicate.WorkOrder.Name)
	}
}

// golden returns the stored file, which got must equal.
func golden(t testing.TB, name string, got []byte) []byte {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the format changed; if that is meant, it is a new predicate version\ngot  %s\nwant %s", got, want)
	}
	return want
}

func TestVerifyDeniesEveryOtherDigest(t *testing.T) {
	s := signerOf(1)
	b := sealed(t, s, func(p *Predicate) { *p = full(t, s) })
	good := all(full(t, s))
	typ := reflect.TypeFor[Expect]()
	for i := range typ.NumField() {
		t.Run(typ.Field(i).Name, func(t *testing.T) {
			want := good
			f := reflect.ValueOf(&want).Elem().Field(i)
			if f.Kind() == reflect.Struct {
				want.Since.Seq++
			} else {
				f.SetString(f.String() + "0")
			}
			if _, err := Verify(b, []PublicKey{s.trusted()}, want); sallyport.CodeOf(err) != sallyport.CodeDenied {
				t.Errorf("got %v, want denied", err)
			}
		})
	}
}

func TestVerifyMissingCommitDoesNotMatch(t *testing.T) {
	s := signerOf(1)
	b := sealed(t, s, func(p *Predicate) {
		p.Result.Commit = ""
		p.Decision.Decision = sallyport.DecisionRejected
	})
	if _, err := Verify(b, []PublicKey{s.trusted()}, Expect{}); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(b, []PublicKey{s.trusted()}, Expect{Commit: oid("d")}); sallyport.CodeOf(err) != sallyport.CodeDenied {
		t.Errorf("got %v, want denied", err)
	}
}

func TestVerifyKeys(t *testing.T) {
	s, other := signerOf(1), signerOf(2)
	b := sealed(t, s, nil)
	early, late, open, renamed := s.trusted(), s.trusted(), s.trusted(), other.trusted()
	early.NotAfter = date("2030-06-01T12:01:00Z") // a second before it was signed
	late.NotBefore = date("2030-06-01T12:01:02Z")
	open.NotAfter = time.Time{}
	renamed.ID = s.KeyID()
	for _, c := range []struct {
		name string
		keys []PublicKey
		want sallyport.Code
	}{
		{"none", nil, sallyport.CodeInvalid},
		{"another", []PublicKey{other.trusted()}, sallyport.CodeDenied},
		{"expired", []PublicKey{early}, sallyport.CodeDenied},
		{"not yet valid", []PublicKey{late}, sallyport.CodeDenied},
		{"without end", []PublicKey{open}, sallyport.CodeInvalid},
		{"under another's id", []PublicKey{renamed}, sallyport.CodeInvalid},
		{"twice", []PublicKey{s.trusted(), s.trusted()}, sallyport.CodeInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Verify(b, c.keys, Expect{}); err == nil || sallyport.CodeOf(err) != c.want {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
	if _, err := Verify(b, []PublicKey{other.trusted(), s.trusted()}, Expect{}); err != nil {
		t.Errorf("one of two keys: %v", err)
	}
}

// rebuild signs any payload: a signer that is honest about the bytes and careless about their meaning.
func rebuild(t testing.TB, s Signer, payloadType string, payload []byte) []byte {
	t.Helper()
	b, _, err := sealBytes(t.Context(), payloadType, payload, s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func payloadOf(t testing.TB, b []byte) []byte {
	t.Helper()
	e, err := parseEnvelope(b, PayloadType)
	if err != nil {
		t.Fatal(err)
	}
	return e.payload
}

// TestVerifyStrict: each line is signed by the trusted key and yet is not evidence.
func TestVerifyStrict(t *testing.T) {
	s := signerOf(1)
	payload := string(payloadOf(t, sealed(t, s, nil)))
	for _, c := range []struct{ name, old, new string }{
		{"statement type", "in-toto.io/Statement/v1", "in-toto.io/Statement/v0.1"},
		{"predicate type", "attestation/attempt/v1", "attestation/attempt/v2"},
		{"unknown member", `"separation":"none"`, `"separation":"none","more":1`},
		{"doubled member", `"separation":"none"`, `"separation":"none","separation":"none"`},
		{"case twin", `"separation":"none"`, `"separation":"none","SEPARATION":"host"`},
		{"case twin beyond ASCII", `"separation":"none"`, `"separation":"none","ſeparation":"host"`},
		{"case variant alone", `"separation":"none"`, `"Separation":"none"`},
		{"escaped name twin", `"separation":"none"`, `"separation":"none","s\u0065paration":"host"`},
		{"deep twin", `"exit":0,"seconds"`, `"exit":0,"Exit":1,"seconds"`},
		{"null list", `"messages":["Fix it ✔"]`, `"messages":null`},
		{"white space", `"separation":"none"`, `"separation": "none"`},
		{"another spelling", `"separation":"none"`, `"separation":"\u006eone"`},
		{"number form", `"seq":42`, `"seq":4.2e1`},
		{"missing subject", `{"name":"manifest"`, `{"name":"other"`},
		{"subject of another tree", `"gitTree":"cccc`, `"gitTree":"cccd`},
		{"contradiction", `"decision":"awaiting-approval"`, `"decision":"approved"`},
		{"no reason", `"code":"finding"`, `"code":""`},
		{"time with zone", `"signed":"2030-06-01T12:01:01Z"`, `"signed":"2030-06-01T14:01:01+02:00"`},
		{"signed before ended", `"signed":"2030-06-01T12:01:01Z"`, `"signed":"2030-06-01T11:01:01Z"`},
		{"journal elsewhere", `"seq":42`, `"seq":43`},
		{"required layer not held", `"status":"held","required":true`, `"status":"not-held","required":true`},
		{"blocking finding", `"severity":"warn"`, `"severity":"block"`},
		{"short nonce", `"nonce":"0123456789abcdef0123"`, `"nonce":"01"`},
		{"an earlier attempt without number", `"number":1,"state"`, `"number":0,"state"`},
		{"not UTF-8", "Fix it ✔", "Fix it \xff"},
		{"trailing data", `"messages":["Fix it ✔"]}}}`, `"messages":["Fix it ✔"]}}}{}`},
		{"number with a fraction", `"exit":0,"seconds"`, `"exit":0.0,"seconds"`},
		{"number with an exponent", `"seconds":1.25`, `"seconds":125e-2`},
		{"number with a closing zero", `"seconds":1.25`, `"seconds":1.250`},
		{"negative zero", `"exit":0,"seconds"`, `"exit":-0,"seconds"`},
		{"number as text", `"seq":42`, `"seq":"42"`},
		{"empty list said", `"messages":["Fix it ✔"]}`, `"messages":["Fix it ✔"]},"validated":[]`},
		{"subject removed", `,{"name":"commit","digest":{"gitCommit":"dddddddddddddddddddddddddddddddddddddddd"}}`, ""},
		{"subject added", `"subject":[`, `"subject":[{"name":"x","digest":{"sha256":"` + strings.Repeat("0", 64) + `"}},`},
		{"subject without a digest", `"sha256":"` + sallyport.Sum([]byte("manifest")).Hex() + `"`, ""},
		{"subject with another digest beside", `"gitCommit":"dddd`, `"gitTree":"cccccccccccccccccccccccccccccccccccccccc","gitCommit":"dddd`},
		{"key of another", s.KeyID(), signerOf(2).KeyID()},
	} {
		t.Run(c.name, func(t *testing.T) {
			if strings.Count(payload, c.old) < 1 {
				t.Fatalf("%q is not in the payload", c.old)
			}
			b := rebuild(t, s, PayloadType, []byte(strings.Replace(payload, c.old, c.new, 1)))
			if _, err := Verify(b, []PublicKey{s.trusted()}, Expect{}); err == nil {
				t.Error("accepted")
			}
		})
	}
	if _, err := Verify(rebuild(t, s, PayloadType, []byte(payload)), []PublicKey{s.trusted()}, Expect{}); err != nil {
		t.Errorf("the unchanged payload: %v", err)
	}
	if _, err := Verify(rebuild(t, s, "application/json", []byte(payload)), []PublicKey{s.trusted()}, Expect{}); err == nil {
		t.Error("another payload type was accepted")
	}
}

func TestAcceptedNeedsPassingChecks(t *testing.T) {
	s := signerOf(1)
	for _, status := range []sallyport.CheckStatus{sallyport.CheckFailed, sallyport.CheckError, sallyport.CheckFlaky, ""} {
		p := sample(t, s)
		p.Decision.Decision = sallyport.DecisionAccepted
		p.Checks[0].Status = status
		if _, _, err := Seal(t.Context(), s, New(p)); sallyport.CodeOf(err) != sallyport.CodeInvalid {
			t.Errorf("status %q: got %v, want invalid", status, err)
		}
		p.Checks[0].Status, p.Checks[0].BaseTests = sallyport.CheckPassed, status
		if _, _, err := Seal(t.Context(), s, New(p)); status != "" && sallyport.CodeOf(err) != sallyport.CodeInvalid {
			t.Errorf("base tests %q: got %v, want invalid", status, err)
		}
	}
}

func TestEnvelopeStrict(t *testing.T) {
	s, other := signerOf(1), signerOf(2)
	good := string(sealed(t, s, func(p *Predicate) { p.WorkOrder.Name = "???>>>~~~" })) // both letters that alphabets differ in
	var e struct {
		PayloadType, Payload string
		Signatures           []struct{ KeyID, Sig string }
	}
	if err := json.Unmarshal([]byte(good), &e); err != nil {
		t.Fatal(err)
	}
	sig := e.Signatures[0].Sig
	foreign := base64.StdEncoding.EncodeToString(ed25519.Sign(other.key, pae(PayloadType, payloadOf(t, []byte(good)))))
	one := `{"keyid":"` + s.KeyID() + `","sig":"` + sig + `"}`
	make := func(sigs string) string {
		return `{"payloadType":"` + e.PayloadType + `","payload":"` + e.Payload + `","signatures":[` + sigs + `]}`
	}
	for _, c := range []struct {
		name, envelope string
		ok             bool
	}{
		{"plain", make(one), true},
		{"plain with a line feed", make(one) + "\n", true},
		{"two line feeds", make(one) + "\n\n", false},
		{"white space", strings.ReplaceAll(make(one), ",", " ,"), false},
		{"white space before", " " + make(one), false},
		{"an escape", strings.Replace(make(one), "payloadType", `payloadT\u0079pe`, 1), false},
		{"members in another order", `{"payload":"` + e.Payload + `","payloadType":"` + e.PayloadType + `","signatures":[` + one + `]}`, false},
		{"wrong hint", make(`{"keyid":"x","sig":"` + sig + `"}`), false},
		{"no hint", make(`{"keyid":"","sig":"` + sig + `"}`), false},
		{"another payload type", strings.Replace(make(one), "in-toto+json", "in-toto+jsom", 1), false},
		{"payload in the other alphabet", strings.Replace(make(one), e.Payload, strings.NewReplacer("+", "-", "/", "_").Replace(e.Payload), 1), false},
		{"payload without padding", strings.Replace(make(one), e.Payload, strings.TrimRight(e.Payload, "="), 1), false},
		{"payload with loose last bits", strings.Replace(make(one), e.Payload, looseBits(e.Payload), 1), false},
		{"stranger beside", make(`{"keyid":"` + other.KeyID() + `","sig":"` + foreign + `"},` + one), true},
		{"none", make(""), false},
		{"only a stranger", make(`{"keyid":"","sig":"` + foreign + `"}`), false},
		{"hint of ours, signature of a stranger", make(one + `,{"keyid":"` + s.KeyID() + `","sig":"` + foreign + `"}`), false},
		{"the same signature in another name", make(one + `,{"keyid":"x","sig":"` + sig + `"}`), false},
		{"empty signature", make(`{"keyid":"` + s.KeyID() + `","sig":""}`), false},
		{"unknown member", make(one[:len(one)-1] + `,"cert":"x"}`), false},
		{"case variant", strings.Replace(make(one), "payload\"", "Payload\"", 1), false},
		{"doubled payload", strings.Replace(make(one), `"payload":`, `"payload":"e30=","payload":`, 1), false},
		{"line feed in base64", strings.Replace(make(one), sig, sig[:4]+`\n`+sig[4:], 1), false},
		{"no padding", strings.Replace(make(one), sig, strings.TrimRight(sig, "="), 1), false},
		{"trailing document", make(one) + "{}", false},
		{"trailing letter", make(one) + "x", false},
		{"list", "[" + make(one) + "]", false},
		{"too many signatures", make(strings.Repeat(one+",", maxSignatures) + one), false},
		{"too large", make(one) + strings.Repeat(" ", MaxEnvelopeBytes), false},
		{"empty", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !c.ok && c.envelope == make(one) {
				t.Fatal("nothing was changed")
			}
			_, err := Verify([]byte(c.envelope), []PublicKey{s.trusted()}, Expect{})
			if (err == nil) != c.ok {
				t.Errorf("got %v, want ok=%v", err, c.ok)
			}
		})
	}
}

// TestSignerMustBeNamed: a valid signature by a trusted key does not lend that key to a statement that names
// another.
func TestSignerMustBeNamed(t *testing.T) {
	s, other := signerOf(1), signerOf(2)
	b := rebuild(t, other, PayloadType, payloadOf(t, sealed(t, s, nil)))
	if _, err := Verify(b, []PublicKey{s.trusted(), other.trusted()}, Expect{}); sallyport.CodeOf(err) != sallyport.CodeDenied {
		t.Errorf("got %v, want denied", err)
	}
}

type brokenSigner struct {
	fixedSigner
	sig []byte
	err error
}

func (b brokenSigner) Sign(context.Context, []byte) ([]byte, error) { return b.sig, b.err }

func TestSealRefusesABrokenSigner(t *testing.T) {
	good := signerOf(1)
	p := sample(t, good)
	for _, b := range []brokenSigner{{good, []byte("nonsense"), nil}, {good, nil, errors.New("away")}, {good, make([]byte, 64), nil}} {
		if out, _, err := Seal(t.Context(), b, New(p)); sallyport.CodeOf(err) != sallyport.CodeUnavailable || out != nil {
			t.Errorf("got %q, %v, want unavailable", out, err)
		}
	}
}

// looseBits is another text that lenient decoders read as the same bytes: the last letter before the padding
// has bits that no byte takes.
func looseBits(s string) string {
	b := []byte(strings.TrimRight(s, "="))
	if len(b) == len(s) {
		panic("the sample's payload has no padding: change its length")
	}
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	b[len(b)-1] = letters[strings.IndexByte(letters, b[len(b)-1])|1]
	return string(b) + s[len(b):]
}

// mutationLaw: whatever is done to the bytes of an envelope, Verify says no; only the line feed at its end is
// nobody's. The statement is compared all the same.
func mutationLaw(t testing.TB, key PublicKey, original, mutated []byte, before Verified) {
	after, err := Verify(mutated, []PublicKey{key}, Expect{})
	if err != nil {
		return
	}
	if !bytes.Equal(bytes.TrimSuffix(original, lineFeed), bytes.TrimSuffix(mutated, lineFeed)) {
		t.Fatalf("accepted other bytes: %q", mutated)
	}
	// The loosest reader there is, not our own.
	read := func(b []byte) (payload, sig []byte) {
		var e struct {
			Payload    []byte
			Signatures []struct{ Sig []byte }
		}
		if json.Unmarshal(b, &e) != nil || len(e.Signatures) != 1 {
			t.Fatalf("accepted, but not readable by others: %q", b)
		}
		return e.Payload, e.Signatures[0].Sig
	}
	p1, s1 := read(original)
	p2, s2 := read(mutated)
	if !bytes.Equal(p1, p2) || !bytes.Equal(s1, s2) {
		t.Fatalf("accepted with another payload or signature: %q", mutated)
	}
	if !reflect.DeepEqual(before.Statement, after.Statement) || before.Payload != after.Payload {
		t.Fatalf("the statement changed: %q", mutated)
	}
}

func TestMutations(t *testing.T) {
	s := signerOf(3)
	b := sealed(t, s, nil)
	v, err := Verify(b, []PublicKey{s.trusted()}, Expect{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		if i%3 != 0 && i > 200 && i < len(b)-200 {
			continue // the middle is all payload: every third byte says as much in a third of the time
		}
		for _, x := range []byte{0x01, 0x20, 0x80} {
			m := bytes.Clone(b)
			m[i] ^= x
			mutationLaw(t, s.trusted(), b, m, v)
		}
		mutationLaw(t, s.trusted(), b, append(bytes.Clone(b[:i]), b[i+1:]...), v)
		for _, x := range []byte(" =A\n") {
			mutationLaw(t, s.trusted(), b, append(append(bytes.Clone(b[:i]), x), b[i:]...), v)
		}
	}
}

// FuzzVerify: no other bytes than those that were signed are evidence, to us and to the loosest reader there is.
func FuzzVerify(f *testing.F) {
	s := signerOf(3)
	b := sealed(f, s, nil)
	v, err := Verify(b, []PublicKey{s.trusted()}, Expect{})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(10, 0, []byte(" "))
	f.Add(len(b)-5, 4, []byte("=="))
	f.Add(60, 1, []byte("A"))
	f.Fuzz(func(t *testing.T, at, cut int, insert []byte) {
		if at < 0 || at > len(b) || cut < 0 || cut > len(b)-at || len(insert) > 1<<16 {
			return
		}
		m := append(append(bytes.Clone(b[:at]), insert...), b[at+cut:]...)
		mutationLaw(t, s.trusted(), b, m, v)
	})
}

// FuzzPayload: bytes that the trusted key signed and Verify accepts are read alike by a reader without types.
func FuzzPayload(f *testing.F) {
	s := signerOf(3)
	p := payloadOf(f, sealed(f, s, nil))
	f.Add(10, 0, []byte(" "))
	f.Add(bytes.Index(p, []byte(`"separation"`)), 0, []byte(`"Separation":"host",`))
	f.Add(bytes.Index(p, []byte(`awaiting-approval`)), 17, []byte(`accepted`))
	f.Fuzz(func(t *testing.T, at, cut int, insert []byte) {
		if at < 0 || at > len(p) || cut < 0 || cut > len(p)-at || len(insert) > 1<<16 {
			return
		}
		m := append(append(bytes.Clone(p[:at]), insert...), p[at+cut:]...)
		v, err := Verify(rebuild(t, s, PayloadType, m), []PublicKey{s.trusted()}, Expect{})
		if err != nil {
			return
		}
		var loose map[string]any
		if err := json.Unmarshal(m, &loose); err != nil {
			t.Fatal(err)
		}
		pred := loose["predicate"].(map[string]any)
		if pred["separation"] != v.Statement.Predicate.Separation || pred["decision"].(map[string]any)["decision"] != string(v.Statement.Predicate.Decision.Decision) {
			t.Fatalf("two readings of %q", m)
		}
		again, err := New(v.Statement.Predicate).encode()
		if err != nil || !bytes.Equal(again, m) {
			t.Fatalf("another byte form was accepted: %q", m)
		}
	})
}

func TestSummary(t *testing.T) {
	s := signerOf(1)
	b := sealed(t, s, func(p *Predicate) {
		p.Checks = append(p.Checks, Check{Name: "lint", Command: "x", Status: sallyport.CheckPassed, StatusBy: "runner"})
	})
	v, err := Verify(b, []PublicKey{s.trusted()}, Expect{})
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(Summary(v), "\n")
	for _, want := range []string{
		"Not compared: you gave no digest",
		`Observed by the signer: check "test" ("go test ./...") passed`, "on the base it failed", `control must-fail of check "test" held ("exit 1").`,
		"Not recorded: the digest of the patch.", "Not recorded: what was spent.",
		`Claim (the status passed through the sandbox): check "lint"`, "nothing showed that it can fail",
		"Not fully: memory (not-held)", "1 earlier attempt(s) of this work order: 1 rejected",
		`Claim: the change was made by "claude-code"`, "Not checked: the tests' own worth.",
		"the submitter holds the key",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("missing %q in\n%s", want, text)
		}
	}
	v, err = Verify(b, []PublicKey{s.trusted()}, Expect{Tree: oid("c")})
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(Summary(v), "\n"); strings.Contains(text, "Not compared") || !strings.Contains(text, "it matches what you hold in: tree.") {
		t.Errorf("compared digests are not named in\n%s", text)
	}
}

func TestFromReport(t *testing.T) {
	p := FromReport(sallyport.Report{Number: 3, Tree: oid("c"), Decision: sallyport.DecisionRejected,
		Layers:   []sallyport.LayerReport{{Layer: sallyport.LayerDisk, Status: sallyport.LayerWatched}},
		Findings: []sallyport.Finding{{Rule: "r", Severity: sallyport.SeverityBlock}},
		Checks: []sallyport.CheckResult{{Name: "t", Run: "make", Exit: 2, Tail: "secret output", Controls: []sallyport.Control{{Name: "c", Held: true, Required: true}},
			Tests: &sallyport.Tally{Format: "tap", Tests: 7, Passed: 7}, BaseTally: &sallyport.Tally{Format: "tap", Tests: 6, Passed: 6},
			Runs: []sallyport.Run{{Status: sallyport.CheckFailed, Exit: 2}}, Reused: "att_x"}}})
	b, err := New(p).encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"layer":"disk"`, `"rule":"r"`, `"command":"make"`, `"exit":2`, `"held":true`, `"decision":"rejected"`,
		`"required":true`, `"tests":{"format":"tap","tests":7,"passed":7,"failed":0,"skipped":0}`, `"base_tally":{"format":"tap","tests":6`, `"runs":[{"status":"failed"`, `"reused":"att_x"`} {
		if !bytes.Contains(b, []byte(want)) {
			t.Errorf("missing %s", want)
		}
	}
	if bytes.Contains(b, []byte("secret output")) {
		t.Error("the output's tail is in the statement")
	}
}
