package approval

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"
	"golang.org/x/crypto/ssh"

	"sallyport.dev/sallyport"
)

func sample() Approval {
	oid := func(c string) sallyport.ObjectID { return sallyport.ObjectID(strings.Repeat(c, 40)) }
	return Approval{
		Type: Type, Approver: "Ann O'Neill <ann>", BaseCommit: oid("a"), Tree: oid("b"),
		Evidence: sallyport.Sum([]byte("evidence")), Manifest: sallyport.Sum([]byte("manifest")), Given: "2026-11-30T13:27:46Z",
		Target: Target{Repository: "https://forge.example/owner/name", BaseBranch: "main", HeadBranch: "sallyport/fix-1432"},
	}
}

// memory signs with a key that a test holds. Each part can be made wrong.
type memory struct {
	key       ssh.Signer
	namespace string
	hash      string
}

func person(seed byte) memory {
	s, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, 32)))
	if err != nil {
		panic(err)
	}
	return memory{key: s}
}

func (m memory) Sign(_ context.Context, statement []byte) ([]byte, error) {
	sig, err := m.key.Sign(nil, m.toSign(statement))
	if err != nil {
		return nil, err
	}
	return m.seal(sig).armour(), nil
}

func (m memory) toSign(statement []byte) []byte {
	if m.namespace == "" && m.hash == "" {
		return toSign(statement)
	}
	h512, h256 := sha512.Sum512(statement), sha256.Sum256(statement)
	d := signedData{Magic: sigMagic, Namespace: Namespace, Hash: sigHash, Digest: h512[:]}
	if m.namespace != "" {
		d.Namespace = m.namespace
	}
	if m.hash != "" {
		d.Hash, d.Digest = m.hash, h256[:]
	}
	return ssh.Marshal(d)
}

func (m memory) seal(sig *ssh.Signature) sshSig {
	s := seal(m.key.PublicKey(), sig)
	if m.namespace != "" {
		s.Namespace = m.namespace
	}
	if m.hash != "" {
		s.Hash = m.hash
	}
	return s
}

// signed is any first line with a signature over it.
func (m memory) signed(t testing.TB, statement string) []byte {
	t.Helper()
	sig, err := m.Sign(context.Background(), []byte(statement))
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte(statement+"\n"), sig...)
}

func (m memory) allowed(name string) AllowedKey {
	return AllowedKey{Person: name, Key: m.key.PublicKey()}
}

func statementOf(t testing.TB, a Approval) string {
	t.Helper()
	b, err := a.encode()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func approve(t testing.TB, s Signer, a Approval) []byte {
	t.Helper()
	b, err := Sign(context.Background(), s, a)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func wantCode(t testing.TB, what string, err error, code sallyport.Code) {
	t.Helper()
	if err == nil || sallyport.CodeOf(err) != code {
		t.Errorf("%s: %v (%s), want %s", what, err, sallyport.CodeOf(err), code)
	}
}

func TestRoundTrip(t *testing.T) {
	ann, bob := person(1), person(2)
	blob := approve(t, ann, sample())
	a, k, err := Verify(blob, []AllowedKey{bob.allowed("bob"), ann.allowed("ann")})
	if err != nil || a != sample() || k.Person != "ann" {
		t.Fatalf("%+v %+v %v", a, k, err)
	}
	_, _, err = Verify(blob, []AllowedKey{bob.allowed("bob")})
	wantCode(t, "a key that is not allowed", err, sallyport.CodeDenied)
	_, _, err = Verify(blob, nil)
	wantCode(t, "no keys", err, sallyport.CodeInvalid)
}

// The statement is RFC 8785 by somebody else's reading of it.
func TestStatementIsCanonicalJSON(t *testing.T) {
	a := sample()
	a.Approver = `<>&"\/ é 漢 🙂 ` + "\ufffd."
	got := statementOf(t, a)
	want, err := jcs.Transform([]byte(got))
	if err != nil || got != string(want) {
		t.Errorf("%s\nwant %s (%v)", got, want, err)
	}
	if err := a.Check(); err != nil {
		t.Error(err)
	}
}

func TestEveryByteCounts(t *testing.T) {
	ann := person(1)
	blob, allowed := approve(t, ann, sample()), []AllowedKey{ann.allowed("ann")}
	refuse := func(what string, at int, b []byte) {
		if _, _, err := Verify(b, allowed); err == nil {
			t.Errorf("%s at %d is accepted", what, at)
		}
	}
	for i := range blob {
		for _, x := range []byte{0x01, 0x02, 0x10, 0x20, 0x80, 0xff} {
			m := bytes.Clone(blob)
			m[i] ^= x
			refuse(fmt.Sprintf("flip %#x", x), i, m)
		}
		refuse("a lost byte", i, slices.Concat(blob[:i], blob[i+1:]))
		for _, c := range []string{" ", "\n", "\r", "A", "\x00"} {
			if string(blob[i]) != c {
				refuse(fmt.Sprintf("%q put in", c), i, slices.Concat(blob[:i], []byte(c), blob[i:]))
			}
		}
		refuse("an end", i, blob[:i])
	}
	for _, tail := range []string{"\n", " ", "x", string(blob), "-----END SSH SIGNATURE-----\n"} {
		refuse("a tail", len(blob), append(bytes.Clone(blob), tail...))
	}
}

// Well signed, and no approval: the signature alone does not make it one.
func TestSignedIsNotEnough(t *testing.T) {
	ann := person(1)
	allowed, good := []AllowedKey{ann.allowed("ann")}, statementOf(t, sample())
	for name, statement := range map[string]string{
		"unknown member":   strings.Replace(good, `{`, `{"and":"more",`, 1),
		"last member":      strings.TrimSuffix(good, "}") + `,"zzz":1}`,
		"doubled member":   strings.Replace(good, `{`, `{"approver":"eve",`, 1),
		"another case":     strings.Replace(good, `"tree"`, `"Tree"`, 1),
		"white space":      strings.Replace(good, `,`, `, `, 1),
		"two statements":   good + good,
		"trailing space":   good + " ",
		"carriage return":  good + "\r",
		"null":             strings.Replace(good, `"main"`, `null`, 1),
		"escaped":          strings.Replace(good, `"main"`, `"m\u0061in"`, 1),
		"not UTF-8":        strings.Replace(good, `"main"`, "\"m\xffin\"", 1),
		"missing member":   strings.Replace(good, `"approver":"Ann O'Neill <ann>",`, ``, 1),
		"other type":       strings.Replace(good, "approval/v1", "approval/v2", 1),
		"local time":       strings.Replace(good, `46Z`, `46+00:00`, 1),
		"fraction":         strings.Replace(good, `46Z`, `46.5Z`, 1),
		"short digest":     strings.Replace(good, `"sha256:`, `"sha256:0`, 1),
		"upper-case tree":  strings.Replace(good, strings.Repeat("b", 40), strings.Repeat("B", 40), 1),
		"full ref":         strings.Replace(good, `"main"`, `"refs/heads/main"`, 1),
		"bidi in approver": strings.Replace(good, "Ann", "A\u202enn", 1),
		"user in address":  strings.Replace(good, "https://", "https://me:secret@", 1),
		"query":            strings.Replace(good, "owner/name", "owner/name?x", 1),
		"one branch":       strings.Replace(good, "sallyport/fix-1432", "main", 1),
		"empty":            "",
		"no object":        "[]",
		"long":             strings.Replace(good, "Ann", strings.Repeat("n", maxStatement), 1),
	} {
		if statement == good {
			t.Fatalf("%s changes nothing", name)
		}
		_, _, err := Verify(ann.signed(t, statement), allowed)
		wantCode(t, name, err, sallyport.CodeInvalid)
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error tells the password: %v", name, err)
		}
	}
	if _, _, err := Verify(ann.signed(t, good), allowed); err != nil {
		t.Errorf("what they were made of: %v", err)
	}
}

func TestNamespaceAndHash(t *testing.T) {
	for name, change := range map[string]func(*memory){
		"namespace of git":   func(m *memory) { m.namespace = "git" },
		"namespace of files": func(m *memory) { m.namespace = "file" },
		"longer namespace":   func(m *memory) { m.namespace = Namespace + "x" },
		"sha256":             func(m *memory) { m.hash = "sha256" },
	} {
		m := person(1)
		allowed := []AllowedKey{m.allowed("ann")}
		change(&m)
		_, _, err := Verify(m.signed(t, statementOf(t, sample())), allowed)
		wantCode(t, name, err, sallyport.CodeDenied)
		if _, err := Sign(context.Background(), m, sample()); err == nil {
			t.Errorf("%s: Sign lets it out", name)
		}
	}
}

// A signature of another envelope, or for another key, in the right frame.
func TestEnvelopeIsBound(t *testing.T) {
	ann, bob := person(1), person(2)
	allowed := []AllowedKey{ann.allowed("ann"), bob.allowed("bob")}
	statement := statementOf(t, sample())
	sig, err := ann.key.Sign(nil, toSign([]byte(statement)))
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*sshSig){
		"another's key": func(s *sshSig) { s.PublicKey = bob.key.PublicKey().Marshal() },
		"version":       func(s *sshSig) { s.Version = 2 },
		"reserved":      func(s *sshSig) { s.Reserved = "x" },
		"magic":         func(s *sshSig) { s.Magic[0] = 's' },
		"algorithm": func(s *sshSig) {
			s.Signature = ssh.Marshal(&ssh.Signature{Format: ssh.KeyAlgoSKED25519, Blob: sig.Blob, Rest: []byte{1, 0, 0, 0, 1}})
		},
		"a rest": func(s *sshSig) {
			s.Signature = ssh.Marshal(&ssh.Signature{Format: sig.Format, Blob: sig.Blob, Rest: []byte{1}})
		},
		"short": func(s *sshSig) {
			s.Signature = ssh.Marshal(&ssh.Signature{Format: sig.Format, Blob: sig.Blob[:63]})
		},
		"no key": func(s *sshSig) { s.PublicKey = nil },
	} {
		s := seal(ann.key.PublicKey(), sig)
		change(&s)
		if _, _, err := Verify(append([]byte(statement+"\n"), s.armour()...), allowed); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// A security token signs a digest of what it was shown, with flags of its own. This is PROTOCOL.u2f, in software.
type token struct {
	key   ed25519.PrivateKey
	flags byte
}

func (k token) public(t testing.TB) ssh.PublicKey {
	t.Helper()
	p, err := ssh.ParsePublicKey(ssh.Marshal(struct {
		Type        string
		Key         []byte
		Application string
	}{ssh.KeyAlgoSKED25519, k.key.Public().(ed25519.PublicKey), "ssh:"}))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (k token) blob(t testing.TB, a Approval) []byte {
	t.Helper()
	statement := []byte(statementOf(t, a))
	app, msg := sha256.Sum256([]byte("ssh:")), sha256.Sum256(toSign(statement))
	rest := []byte{k.flags, 0, 0, 0, 7}
	sig := &ssh.Signature{Format: ssh.KeyAlgoSKED25519, Blob: ed25519.Sign(k.key, slices.Concat(app[:], rest, msg[:])), Rest: rest}
	return append(append(statement, '\n'), seal(k.public(t), sig).armour()...)
}

func TestTokenMustBeTouched(t *testing.T) {
	for flags, ok := range map[byte]bool{0x01: true, 0x05: true, 0x00: false, 0x04: false, 0x41: false, 0x81: false} {
		k := token{key: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{9}, 32)), flags: flags}
		_, by, err := Verify(k.blob(t, sample()), []AllowedKey{{Person: "ann", Key: k.public(t)}})
		if (err == nil) != ok || ok && by.Person != "ann" {
			t.Errorf("flags %#02x: %v", flags, err)
		}
		if !ok && !strings.Contains(fmt.Sprint(err), "touched") {
			t.Errorf("flags %#02x: the person does not learn why: %v", flags, err)
		}
	}
}

// One signature in two forms would be two approvals by their bytes. OpenSSH takes both forms of these.
func TestOneFormOfASignature(t *testing.T) {
	small, err := rsa.GenerateKey(rand.Reader, minRSABits)
	if err != nil {
		t.Fatal(err)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	longer := func(s *ssh.Signature) *ssh.Signature { // r with a zero too many
		n := binary.BigEndian.Uint32(s.Blob)
		blob := binary.BigEndian.AppendUint32(nil, n+1)
		return &ssh.Signature{Format: s.Format, Blob: slices.Concat(blob, []byte{0}, s.Blob[4:])}
	}
	shorter := func(s *ssh.Signature) *ssh.Signature { // without a zero at its beginning; nil: it has none
		if s.Blob[0] != 0 {
			return nil
		}
		return &ssh.Signature{Format: s.Format, Blob: s.Blob[1:]}
	}
	for name, c := range map[string]struct {
		key    any
		change func(*ssh.Signature) *ssh.Signature
	}{"rsa": {small, shorter}, "ecdsa": {curve, longer}} {
		signer, err := ssh.NewSignerFromKey(c.key)
		if err != nil {
			t.Fatal(err)
		}
		allowed := []AllowedKey{{Person: "ann", Key: signer.PublicKey()}}
		changed := false
		for i := 0; !changed && i < 5000; i++ {
			a := sample()
			a.Approver = fmt.Sprint("ann ", i)
			statement := []byte(statementOf(t, a))
			sig, err := signer.(ssh.AlgorithmSigner).SignWithAlgorithm(rand.Reader, toSign(statement), algorithm(signer.PublicKey()))
			if err != nil {
				t.Fatal(err)
			}
			other := c.change(sig)
			if changed = other != nil; !changed {
				continue
			}
			blob := func(s *ssh.Signature) []byte {
				return slices.Concat(statement, []byte("\n"), seal(signer.PublicKey(), s).armour())
			}
			if _, _, err := Verify(blob(sig), allowed); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			_, _, err = Verify(blob(other), allowed)
			wantCode(t, name+" in another form", err, sallyport.CodeInvalid)
		}
		if !changed {
			t.Errorf("%s: no signature that has another form", name)
		}
	}
}

// FuzzVerify: nobody but the holder of the key makes an approval: no other bytes than those that were signed are one.
func FuzzVerify(f *testing.F) {
	ann := person(1)
	good := approve(f, ann, sample())
	f.Add(good)
	f.Add(ann.signed(f, "{}"))
	f.Add(bytes.ReplaceAll(good, []byte("\n"), []byte("\r\n")))
	f.Fuzz(func(t *testing.T, b []byte) {
		// Nobody but the holder of the key makes another one.
		if _, _, err := Verify(b, []AllowedKey{ann.allowed("ann")}); err == nil && !bytes.Equal(b, good) {
			t.Errorf("forged: %q", b)
		}
	})
}

// FuzzStatement: what is read is complete and is its own canonical form, so that one approval has one text.
func FuzzStatement(f *testing.F) {
	f.Add([]byte(statementOf(f, sample())))
	f.Add([]byte(`{"approver":"\u0061"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := decode(b)
		if err != nil {
			return
		}
		again, err := jcs.Transform(b)
		if err != nil || !bytes.Equal(again, b) || a.Check() != nil {
			t.Errorf("%q is read, and is not canonical: %q %v", b, again, err)
		}
	})
}

// FuzzSignature: what is read of SSH's armour is written back as the same bytes, and is of our namespace and hash.
func FuzzSignature(f *testing.F) {
	_, armoured, _ := bytes.Cut(approve(f, person(1), sample()), []byte("\n"))
	f.Add(armoured)
	f.Add([]byte(sigBegin + sigEnd))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := parseArmoured(b)
		if err != nil {
			return
		}
		if !bytes.Equal(s.armour(), b) || s.Namespace != Namespace || s.Hash != sigHash {
			t.Errorf("%q is read as %+v", b, s)
		}
		_ = s.verify(person(1).key.PublicKey(), nil) // must not panic
	})
}

// FuzzParseKey: a key that is taken is the one that golang.org/x/crypto/ssh writes, without options before it.
func FuzzParseKey(f *testing.F) {
	f.Add(string(ssh.MarshalAuthorizedKey(person(1).key.PublicKey())))
	f.Add(`restrict ssh-ed25519 AAAA`)
	f.Fuzz(func(t *testing.T, line string) {
		k, err := ParseKey("ann", line)
		if err != nil {
			return
		}
		want := strings.TrimSuffix(string(ssh.MarshalAuthorizedKey(k.Key)), "\n")
		if fields := strings.Fields(line); len(fields) < 2 || fields[0]+" "+fields[1] != want {
			t.Errorf("%q is read as %q", line, want)
		}
	})
}
