package approval

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"sallyport.dev/sallyport"
)

// program is a program of OpenSSH, the counterpart that these tests are about.
func program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("missing capability: %s (openssh-client)", name)
	}
	return path
}

// keygen makes a key and gives its path and its public line.
func keygen(t testing.TB, args ...string) (path, line string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "key")
	if out, err := exec.Command(program(t, "ssh-keygen"), append([]string{"-q", "-N", "", "-C", "a comment", "-f", path}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b, err := os.ReadFile(path + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	return path, string(b)
}

// opensshVerifies takes an approval apart as the package comment says, and lets ssh-keygen judge.
func opensshVerifies(t testing.TB, blob []byte, line string) error {
	t.Helper()
	dir := t.TempDir()
	statement, sig, _ := bytes.Cut(blob, []byte("\n"))
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cmd := exec.Command(program(t, "ssh-keygen"), "-Y", "verify", "-f", write("allowed", []byte(`ann namespaces="`+Namespace+`" `+line)),
		"-I", "ann", "-n", Namespace, "-s", write("sig", sig))
	cmd.Stdin = bytes.NewReader(statement)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	return err
}

var kinds = map[string][]string{"ed25519": {"-t", "ed25519"}, "ecdsa 256": {"-t", "ecdsa", "-b", "256"}, "ecdsa 384": {"-t", "ecdsa", "-b", "384"},
	"ecdsa 521": {"-t", "ecdsa", "-b", "521"}, "rsa": {"-t", "rsa", "-b", "3072"}}

func TestOpenSSHAgrees(t *testing.T) {
	for name, args := range kinds {
		t.Run(name, func(t *testing.T) {
			path, line := keygen(t, args...)
			key, err := ParseKey("ann", line)
			if err != nil {
				t.Fatal(err)
			}
			for how, s := range map[string]Signer{"file": KeyFile{Path: path}, "agent": Agent{Socket: agentWith(t, path), Key: key.Key}} {
				blob := approve(t, s, sample())
				if a, k, err := Verify(blob, []AllowedKey{key}); err != nil || a != sample() || k.Person != "ann" {
					t.Errorf("%s: %+v %v", how, a, err)
				}
				if err := opensshVerifies(t, blob, line); err != nil {
					t.Errorf("%s: ssh-keygen refuses it: %v", how, err)
				}
				// Both refuse the same signature over another statement.
				other := bytes.Replace(blob, []byte("fix-1432"), []byte("fix-1433"), 1)
				if _, _, err := Verify(other, []AllowedKey{key}); sallyport.CodeOf(err) != sallyport.CodeDenied {
					t.Errorf("%s: another target: %v", how, err)
				}
				if opensshVerifies(t, other, line) == nil {
					t.Errorf("%s: ssh-keygen takes another target", how)
				}
			}
		})
	}
}

// Signed by hand, with nothing of ours.
func TestSignedByHand(t *testing.T) {
	path, line := keygen(t, "-t", "ed25519")
	key, err := ParseKey("ann", line)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		ok   bool
	}{
		"as the package comment says": {[]string{"-n", Namespace}, true},
		"another namespace":           {[]string{"-n", "file"}, false},
		"another hash":                {[]string{"-n", Namespace, "-O", "hashalg=sha256"}, false},
	} {
		cmd := exec.Command("ssh-keygen", append([]string{"-Y", "sign", "-f", path}, c.args...)...)
		cmd.Stdin = strings.NewReader(statementOf(t, sample()))
		sig, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = Verify(append([]byte(statementOf(t, sample())+"\n"), sig...), []AllowedKey{key})
		if (err == nil) != c.ok || !c.ok && sallyport.CodeOf(err) != sallyport.CodeDenied {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOpenSSHTakesTheToken(t *testing.T) {
	k := token{key: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{9}, 32)), flags: 1}
	line := string(ssh.MarshalAuthorizedKey(k.public(t)))
	if err := opensshVerifies(t, k.blob(t, sample()), line); err != nil {
		t.Errorf("the token of these tests is not one of OpenSSH's: %v", err)
	}
}

// agentWith is the socket of a real ssh-agent that holds one key.
func agentWith(t testing.TB, keyFile string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	cmd := exec.Command(program(t, "ssh-agent"), "-D", "-a", socket)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for range 500 {
		if _, err := os.Stat(socket); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	add := exec.Command(program(t, "ssh-add"), "-q", keyFile)
	add.Env = append(os.Environ(), "SSH_AUTH_SOCK="+socket)
	if out, err := add.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return socket
}

func TestParseKey(t *testing.T) {
	_, good := keygen(t, "-t", "ed25519")
	fields := strings.Fields(good)
	kind, body := fields[0], fields[1]
	_, small := keygen(t, "-t", "rsa", "-b", "2048")
	ca, _ := keygen(t, "-t", "ed25519")
	path, _ := keygen(t, "-t", "ed25519")
	if out, err := exec.Command("ssh-keygen", "-q", "-s", ca, "-I", "x", "-n", "ann", path+".pub").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cert, err := os.ReadFile(path + "-cert.pub")
	if err != nil {
		t.Fatal(err)
	}
	for name, line := range map[string]string{
		"an option":        "restrict " + good,
		"two options":      `from="10.0.0.0/8",no-pty ` + good,
		"authority":        "cert-authority " + good,
		"certificate":      string(cert),
		"another type":     strings.Replace(good, kind, "ssh-rsa", 1),
		"option as type":   "restrict " + body,
		"small RSA":        small,
		"two lines":        good + good,
		"comment line":     "# " + good,
		"no key":           kind,
		"empty":            "",
		"not base64":       kind + " !!!",
		"cut":              kind + " " + body[:40],
		"bytes at the end": kind + " " + body + "AAAA",
	} {
		_, err := ParseKey("ann", line)
		wantCode(t, name, err, sallyport.CodeInvalid)
	}
	for _, line := range []string{good, strings.TrimSpace(good), kind + " " + body, good + "\n"} {
		k, err := ParseKey("ann", line)
		if err != nil || !strings.HasPrefix(k.Fingerprint(), "SHA256:") {
			t.Errorf("%q: %v", line, err)
		}
	}
	for _, name := range []string{"", " ann", "a\nnn", "a\u202e", strings.Repeat("a", 101)} {
		_, err := ParseKey(name, good)
		wantCode(t, name, err, sallyport.CodeInvalid)
	}
}

func TestFingerprintIsOpenSSHs(t *testing.T) {
	path, line := keygen(t, "-t", "ed25519")
	k, err := ParseKey("ann", line)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("ssh-keygen", "-l", "-f", path).Output()
	if err != nil || !strings.Contains(string(out), " "+k.Fingerprint()+" ") {
		t.Errorf("%s, ssh-keygen says %s (%v)", k.Fingerprint(), out, err)
	}
}

// weakAgent signs with the older hash, whatever it is asked for.
type weakAgent struct {
	agent.Agent
	key ssh.AlgorithmSigner
}

func (w weakAgent) SignWithFlags(_ ssh.PublicKey, data []byte, _ agent.SignatureFlags) (*ssh.Signature, error) {
	return w.key.SignWithAlgorithm(rand.Reader, data, ssh.KeyAlgoRSASHA256)
}

func (w weakAgent) Extension(string, []byte) ([]byte, error) {
	return nil, agent.ErrExtensionUnsupported
}

// serve is an agent of the test's own; nil: one that never answers.
func serve(t testing.TB, a agent.Agent) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if a != nil {
				go func() { _ = agent.ServeAgent(a, c); c.Close() }()
			}
		}
	}()
	return l.Addr().String()
}

func TestSignersFail(t *testing.T) {
	raw, err := rsa.GenerateKey(rand.Reader, 3072)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewSignerFromKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	soon, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	ended, end := context.WithCancel(context.Background())
	end()
	ctx, public := context.Background(), person(1).key.PublicKey()
	incomplete := sample()
	incomplete.Tree = ""
	var notices bytes.Buffer
	for name, c := range map[string]struct {
		ctx  context.Context
		s    Signer
		a    Approval
		code sallyport.Code
	}{
		"incomplete":       {ctx, person(1), incomplete, sallyport.CodeInvalid},
		"no key file":      {ctx, KeyFile{Path: filepath.Join(t.TempDir(), "none"), Notices: &notices}, sample(), sallyport.CodeDenied},
		"no program":       {ctx, KeyFile{Path: "x", Program: "no-such-program-of-ssh"}, sample(), sallyport.CodeUnsupported},
		"no path":          {ctx, KeyFile{}, sample(), sallyport.CodeInvalid},
		"ended":            {ended, KeyFile{Path: "x"}, sample(), sallyport.CodeUnavailable},
		"no agent":         {ctx, Agent{Socket: filepath.Join(t.TempDir(), "none"), Key: public}, sample(), sallyport.CodeUnavailable},
		"no such key":      {ctx, Agent{Socket: serve(t, agent.NewKeyring()), Key: public}, sample(), sallyport.CodeDenied},
		"no key":           {ctx, Agent{Socket: "x"}, sample(), sallyport.CodeInvalid},
		"agent is silent":  {soon, Agent{Socket: serve(t, nil), Key: public}, sample(), sallyport.CodeUnavailable},
		"another hash":     {ctx, Agent{Socket: serve(t, weakAgent{agent.NewKeyring(), key.(ssh.AlgorithmSigner)}), Key: key.PublicKey()}, sample(), sallyport.CodeDenied},
		"another's answer": {ctx, Agent{Socket: serve(t, weakAgent{agent.NewKeyring(), key.(ssh.AlgorithmSigner)}), Key: public}, sample(), sallyport.CodeDenied},
	} {
		b, err := Sign(c.ctx, c.s, c.a)
		wantCode(t, name, err, c.code)
		if b != nil {
			t.Errorf("%s: gives %q", name, b)
		}
	}
	if notices.Len() == 0 {
		t.Error("what ssh-keygen said did not reach the person")
	}
}
