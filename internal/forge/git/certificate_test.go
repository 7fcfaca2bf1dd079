package git_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
	"sallyport.dev/sallyport/internal/forge/forgetest"
	"sallyport.dev/sallyport/internal/forge/git"
)

const principal = "publisher"

// certified is a configuration for a server that nobody needs to run.
func certified(t *testing.T, authority []byte) git.Config {
	t.Helper()
	return git.Config{URL: "ssh://git@git.example/tool.git", KnownHosts: "/h", CA: &git.CA{
		Certificate: forge.Certificate{Principal: principal},
		Key:         authorityOf(authority),
		Folder:      filepath.Join(t.TempDir(), "certificates"),
	}}
}

func authorityOf(text []byte) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) { return text, nil }
}

func certifier(t *testing.T, c git.Config) *git.Driver {
	t.Helper()
	d, err := git.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func mint(t *testing.T, d *git.Driver, mark string) forge.Grant {
	t.Helper()
	g, err := d.Mint(t.Context(), mark)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// certificate reads one that lies beside a key.
func certificate(t *testing.T, g forge.Grant, name string) *ssh.Certificate {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(filepath.Dir(g.Key), name))
	if err != nil {
		t.Fatal(err)
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey(b)
	if err != nil {
		t.Fatal(err)
	}
	return key.(*ssh.Certificate)
}

func TestCertificateSaysNoMoreThanItMust(t *testing.T) {
	authority, text := forgetest.NewKey(t)
	c := certified(t, text)
	d := certifier(t, c)
	if s := d.Describe(); !s.Mints || s.PullRequests {
		t.Errorf("%+v", s)
	}
	before := time.Now()
	g := mint(t, d, "mark-1")
	cert := certificate(t, g, "both-cert.pub")
	if cert.CertType != ssh.UserCert || cert.KeyId != "mark-1" || cert.Serial == 0 || len(cert.ValidPrincipals) != 1 || cert.ValidPrincipals[0] != principal ||
		len(cert.Extensions) != 0 || len(cert.CriticalOptions) != 0 || cert.Key.Type() != ssh.KeyAlgoED25519 || string(cert.SignatureKey.Marshal()) != string(authority.PublicKey().Marshal()) {
		t.Errorf("%+v", cert)
	}
	from, until := time.Unix(int64(cert.ValidAfter), 0), time.Unix(int64(cert.ValidBefore), 0)
	if from.After(before.Add(-59*time.Second)) || from.Before(before.Add(-62*time.Second)) || until.After(time.Now().Add(5*time.Minute)) || until.Before(before.Add(5*time.Minute-2*time.Second)) {
		t.Errorf("from %v until %v, made at %v", from, until, before)
	}
	if g.ID != "mark-1" || g.Class != forge.ClassMinted || !g.Expires.Equal(until) || g.Secret != "" || g.Key != filepath.Join(c.CA.Folder, "mark-1", "key") {
		t.Errorf("%+v", struct{ ID, Class, Key, Secret, Expires any }{g.ID, g.Class, g.Key, g.Secret, g.Expires})
	}
	signer := privateKey(t, g)
	if string(signer.PublicKey().Marshal()) != string(cert.Key.Marshal()) {
		t.Error("the certificate is for another key")
	}
	for path, want := range map[string]fs.FileMode{c.CA.Folder: fs.ModeDir | 0o700, filepath.Dir(g.Key): fs.ModeDir | 0o700, g.Key: 0o600} {
		if fi, err := os.Lstat(path); err != nil || fi.Mode() != want {
			t.Errorf("%s: %v, %v", path, fi.Mode(), err)
		}
	}
	if again := certificate(t, mint(t, d, "mark-2"), "both-cert.pub"); again.Serial == cert.Serial || string(again.Key.Marshal()) == string(cert.Key.Marshal()) {
		t.Error("another mark has the same serial or key")
	}
}

func privateKey(t *testing.T, g forge.Grant) ssh.Signer {
	t.Helper()
	b, err := os.ReadFile(g.Key)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.ParsePrivateKey(b)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// The clock of who verifies it.
func TestCertificateByTheClock(t *testing.T) {
	authority, text := forgetest.NewKey(t)
	now := time.Date(2031, 2, 3, 4, 5, 6, 700, time.UTC)
	c := certified(t, text)
	c.CA.Now = func() time.Time { return now }
	for _, valid := range []time.Duration{time.Minute, 0, 15 * time.Minute} {
		c.CA.Certificate.Valid = valid
		if valid == 0 {
			valid = 5 * time.Minute
		}
		cert := certificate(t, mint(t, certifier(t, c), "mark"), "both-cert.pub")
		for _, at := range []struct {
			shift time.Duration
			good  bool
		}{{-61 * time.Second, false}, {-59 * time.Second, true}, {0, true}, {valid - time.Second, true}, {valid, false}, {valid + time.Second, false}, {24 * time.Hour, false}} {
			checker := ssh.CertChecker{Clock: func() time.Time { return now.Add(at.shift) }, SupportedCriticalOptions: []string{"force-command"},
				IsUserAuthority: func(k ssh.PublicKey) bool { return string(k.Marshal()) == string(authority.PublicKey().Marshal()) }}
			if err := checker.CheckCert(principal, cert); (err == nil) != at.good {
				t.Errorf("valid %v, %v after it was made: %v", valid, at.shift, err)
			}
		}
	}
}

func TestCertificateIsEndedByItsMark(t *testing.T) {
	_, text := forgetest.NewKey(t)
	c := certified(t, text)
	d := certifier(t, c)
	if err := d.RevokeMark(t.Context(), "nothing-yet"); err != nil {
		t.Error(err)
	}
	left := func(want ...string) {
		t.Helper()
		entries, err := os.ReadDir(c.CA.Folder)
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if err != nil || strings.Join(names, " ") != strings.Join(want, " ") {
			t.Errorf("left %v, %v, expected %v", names, err, want)
		}
	}
	one, two := mint(t, d, "a-1"), mint(t, d, "b-2")
	first := privateKey(t, one)
	again := mint(t, d, "a-1") // its answer was lost
	if again.Key != one.Key || string(privateKey(t, again).PublicKey().Marshal()) == string(first.PublicKey().Marshal()) {
		t.Error("the first key under the mark is still there")
	}
	left("a-1", "b-2")
	for range 2 {
		if err := d.RevokeMark(t.Context(), "a-1"); err != nil {
			t.Error(err)
		}
		left("b-2")
	}
	// Whoever sweeps may be configured otherwise by now.
	other := certifier(t, git.Config{URL: c.URL, Key: "/k", KnownHosts: "/h"})
	for range 2 {
		if err := other.Revoke(t.Context(), two); err != nil {
			t.Error(err)
		}
		left()
	}
}

// A mark is a name of ours, and a sealed Grant says where its key is: neither may lead elsewhere.
func TestCertificateMarksLeadNowhereElse(t *testing.T) {
	_, text := forgetest.NewKey(t)
	c := certified(t, text)
	d := certifier(t, c)
	mint(t, d, "mark")
	outside := filepath.Join(filepath.Dir(c.CA.Folder), "outside")
	if err := os.WriteFile(outside, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, mark := range []string{"", ".", "..", "../outside", "/etc", "a/b", "-x", "a\nb", strings.Repeat("x", 101)} {
		_, err := d.Mint(t.Context(), mark)
		wantCode(t, err, sallyport.CodeInvalid)
		wantCode(t, d.RevokeMark(t.Context(), mark), sallyport.CodeInvalid)
	}
	for _, g := range []forge.Grant{
		{ID: "outside", Key: outside}, {ID: "outside", Key: filepath.Join(outside, "other")}, {ID: "mark", Key: filepath.Join(c.CA.Folder, "key")}, {ID: "certificates", Key: "certificates/key"}, {},
	} {
		g.Class = forge.ClassMinted
		wantCode(t, d.Revoke(t.Context(), g), sallyport.CodeInvalid)
	}
	if err := os.Symlink(outside, filepath.Join(c.CA.Folder, "link")); err != nil {
		t.Fatal(err)
	}
	if err := d.RevokeMark(t.Context(), "link"); err != nil {
		t.Error(err)
	}
	for _, path := range []string{outside, filepath.Join(c.CA.Folder, "mark", "key")} {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("it is gone: %v", err)
		}
	}
}

func TestCertificateFolderThatOthersReachIsRefused(t *testing.T) {
	_, text := forgetest.NewKey(t)
	c := certified(t, text)
	for mode, ok := range map[fs.FileMode]bool{0o700: true, 0o750: false, 0o755: false, 0o707: false} {
		if err := errors.Join(os.MkdirAll(c.CA.Folder, 0o700), os.Chmod(c.CA.Folder, mode)); err != nil {
			t.Fatal(err)
		}
		_, err := certifier(t, c).Mint(t.Context(), "mark")
		if ok && err != nil {
			t.Error(err)
		}
		if !ok {
			wantCode(t, err, sallyport.CodeDenied)
		}
	}
}

func TestCertificateAuthorities(t *testing.T) {
	_, good := forgetest.NewKey(t)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(rsaKey, "")
	locked, lerr := ssh.MarshalPrivateKeyWithPassphrase(rsaKey, "", []byte(password))
	if err != nil || lerr != nil {
		t.Fatal(err, lerr)
	}
	for name, c := range map[string]struct {
		text []byte
		err  error
		want sallyport.Code
	}{
		"ed25519": {good, nil, -1}, "rsa": {pem.EncodeToMemory(block), nil, -1},
		"nothing": {nil, nil, sallyport.CodeInvalid}, "no key": {[]byte(password), nil, sallyport.CodeInvalid}, "cut": {good[:len(good)/2], nil, sallyport.CodeInvalid},
		"a passphrase": {pem.EncodeToMemory(locked), nil, sallyport.CodeInvalid}, "not read": {good, errors.New("others can read it"), sallyport.CodeDenied},
	} {
		config := certified(t, nil)
		config.CA.Key = func(context.Context) ([]byte, error) { return c.text, c.err }
		_, err := certifier(t, config).Mint(t.Context(), "mark")
		if c.want >= 0 {
			wantCode(t, err, c.want)
			if _, serr := os.Stat(filepath.Join(config.CA.Folder, "mark")); serr == nil {
				t.Errorf("%s: something was made", name)
			}
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCertificateConfigurationsThatAreRefused(t *testing.T) {
	for name, alter := range map[string]func(*git.Config){
		"":                func(c *git.Config) {},
		"a key as well":   func(c *git.Config) { c.Key = "/k" },
		"no known hosts":  func(c *git.Config) { c.KnownHosts = "" },
		"https":           func(c *git.Config) { c.URL = "https://git.example/x"; c.Credential = known("x", nil) },
		"file":            func(c *git.Config) { c.URL = "file:///srv/x" },
		"no principal":    func(c *git.Config) { c.CA.Certificate.Principal = "" },
		"two principals":  func(c *git.Config) { c.CA.Certificate.Principal = "a,b" },
		"too long":        func(c *git.Config) { c.CA.Certificate.Valid = 15*time.Minute + time.Second },
		"too short":       func(c *git.Config) { c.CA.Certificate.Valid = time.Second },
		"negative":        func(c *git.Config) { c.CA.Certificate.Valid = -time.Minute },
		"another command": func(c *git.Config) { c.CA.Certificate.Push = "sh" },
		"two commands":    func(c *git.Config) { c.CA.Certificate.Push = "git-receive-pack '/a'; sh '/b'" },
		"only reads":      func(c *git.Config) { c.CA.Certificate.Push = "git-upload-pack '/a'" },
		"no authority":    func(c *git.Config) { c.CA.Key = nil },
		"no folder":       func(c *git.Config) { c.CA.Folder = "" },
		"relative folder": func(c *git.Config) { c.CA.Folder = "certificates" },
	} {
		c := certified(t, nil)
		alter(&c)
		if _, err := git.New(c); name == "" && err != nil || name != "" && sallyport.CodeOf(err) != sallyport.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}
