package publisher

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/evidence"
	"sallyport.dev/sallyport/internal/forge"
	"sallyport.dev/sallyport/internal/forge/forgetest"
	"sallyport.dev/sallyport/internal/forge/git"
)

const certificateTarget = "version: 1\nmission-control: [mc.pub]\ntargets:\n  - {repository: https://git.example/tool, kind: git, bases: [main], push: \"ssh://git@git.example/tool.git\", credential: %s}\n"

func TestConfigOfCertificates(t *testing.T) {
	path := guideConfig(t, strings.ReplaceAll(certificateTarget, "%s", `{ssh-ca: {key: ca, principal: git}, known-hosts: hosts}`))
	dir := filepath.Dir(path)
	c, err := ReadConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	s := c.Targets[0].Credential
	if want := (SSHCA{Key: filepath.Join(dir, "ca"), Principal: "git", Valid: 5 * time.Minute, Folder: filepath.Join(dir, "publisher", "certificates")}); *s.SSHCA != want || s.KnownHost != filepath.Join(dir, "hosts") {
		t.Errorf("%+v, expected %+v", *s.SSHCA, want)
	}
	c, err = ReadConfig(guideConfig(t, strings.ReplaceAll(certificateTarget, "%s", `{ssh-ca: {key: /ca, principal: git, valid: 15m, command: "git-receive-pack '/srv/r.git'", folder: /run/p}, known-hosts: hosts}`)))
	if err != nil {
		t.Fatal(err)
	}
	if want := (SSHCA{Key: "/ca", Principal: "git", Valid: 15 * time.Minute, Command: "git-receive-pack '/srv/r.git'", Folder: "/run/p"}); *c.Targets[0].Credential.SSHCA != want {
		t.Errorf("%+v, expected %+v", *c.Targets[0].Credential.SSHCA, want)
	}
	if want := "git-upload-pack '/srv/r.git'"; c.Targets[0].Credential.SSHCA.Certificate().Read() != want {
		t.Errorf("%+v", c.Targets[0].Credential.SSHCA.Certificate())
	}
}

func TestConfigOfCertificatesThatAreRefused(t *testing.T) {
	for text, where := range map[string]string{
		`{ssh-ca: {key: ca, principal: git}}`:                                                                "credential.known-hosts",
		`{ssh-ca: {principal: git}, known-hosts: h}`:                                                         "credential.ssh-ca.key",
		`{ssh-ca: {key: ca}, known-hosts: h}`:                                                                "credential.ssh-ca.principal",
		`{ssh-ca: {key: ca, principal: "a,b"}, known-hosts: h}`:                                              "credential.ssh-ca.principal",
		`{ssh-ca: {key: ca, principal: git, valid: 16m}, known-hosts: h}`:                                    "credential.ssh-ca.valid",
		`{ssh-ca: {key: ca, principal: git, valid: 10s}, known-hosts: h}`:                                    "credential.ssh-ca.valid",
		`{ssh-ca: {key: ca, principal: git, valid: -5m}, known-hosts: h}`:                                    "credential.ssh-ca.valid",
		`{ssh-ca: {key: ca, principal: git, command: git-receive-pack}, known-hosts: h}`:                     "credential.ssh-ca.command",
		`{ssh-ca: {key: ca, principal: git, command: "git-receive-pack '/a' || sh -c 'b'"}, known-hosts: h}`: "credential.ssh-ca.command",
		`{ssh-ca: {key: ca, principal: git}, ssh-key: k, known-hosts: h}`:                                    "credential",
		`{ssh-ca: {key: ca, principal: git}, token-file: t, known-hosts: h}`:                                 "credential",
		`{ssh-ca: {key: ca, principal: git}, user: u, password-file: t, known-hosts: h}`:                     "credential",
		`{ssh-ca: {key: ca, principal: git, extensions: [permit-pty]}, known-hosts: h}`:                      "extensions",
	} {
		_, err := ReadConfig(guideConfig(t, strings.ReplaceAll(certificateTarget, "%s", text)))
		if sallyport.CodeOf(err) != sallyport.CodeInvalid || !strings.Contains(err.Error(), where) {
			t.Errorf("%s: %v, expected %s", text, err, where)
		}
	}
	for _, other := range [][2]string{{"kind: git", "kind: gitea"}, {"ssh://", "https://"}} {
		text := strings.ReplaceAll(certificateTarget, "%s", `{ssh-ca: {key: ca, principal: git}, known-hosts: h}`)
		if _, err := ReadConfig(guideConfig(t, strings.Replace(text, other[0], other[1], 1))); sallyport.CodeOf(err) != sallyport.CodeInvalid || !strings.Contains(err.Error(), "credential.ssh-ca") {
			t.Errorf("%s: %v", other[1], err)
		}
	}
}

// certifiedStage is a stage whose repository is behind a real sshd, good for one command, and a Publisher for it.
func certifiedStage(t *testing.T) (s *stage, p *Publisher, repo string) {
	t.Helper()
	repo = forgetest.Bare(t)
	signer, text := forgetest.NewKey(t)
	server := forgetest.ServeSSH(t, signer.PublicKey(), "git")
	s = &stage{t: t, forge: &forgetest.Gitea{}, bot: "none", repo: "owner/none"} // no Gitea: local needs names
	s.local()
	s.config.Targets = []Target{{Repository: server.URL + repo, Kind: "git", Bases: []string{"main"}, Credential: Source{KnownHost: server.KnownHosts,
		SSHCA: &SSHCA{Key: "given", Principal: "git", Command: "git-receive-pack '" + repo + "'"}}}}
	if err := s.config.check(s.config.State); err != nil {
		t.Fatal(err)
	}
	s.git("commit", "-q", "--allow-empty", "-m", "base")
	s.git("push", "-q", repo, "HEAD:refs/heads/main")
	p = s.publisher(Options{Driver: func(t Target) (forge.Driver, error) {
		return git.New(git.Config{URL: t.Repository, KnownHosts: t.Credential.KnownHost,
			CA: &git.CA{Certificate: t.Credential.SSHCA.Certificate(), Folder: t.Credential.SSHCA.Folder, Key: func(context.Context) ([]byte, error) { return text, nil }}})
	}})
	return s, p, repo
}

// keysLeft are the marks that have a key.
func keysLeft(t *testing.T, s *stage) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(s.config.Targets[0].Credential.SSHCA.Folder, "*", "key"))
	if err != nil {
		t.Fatal(err)
	}
	for i, path := range all {
		all[i] = filepath.Base(filepath.Dir(path))
	}
	return all
}

func TestSSHCertificateIsCheckedAndDeleted(t *testing.T) {
	s, p, _ := certifiedStage(t)
	var during []string
	p.options.At = func(point string) {
		if point == "before revoke" {
			during = keysLeft(t, s)
		}
	}
	r, err := p.Check(t.Context(), s.config.Targets[0])
	lines := strings.Join(r.Lines(), "\n")
	if err != nil || r.Blocked() || !strings.Contains(lines, "minted [principal git git-receive-pack ") || strings.Contains(lines, "long-lived") {
		t.Errorf("%v\n%s", err, lines)
	}
	if after := keysLeft(t, s); len(during) != 1 || len(after) != 0 {
		t.Errorf("keys of %v while it was used, of %v afterwards", during, after)
	}
}

func TestSSHCertificatePublishes(t *testing.T) {
	s, p, repo := certifiedStage(t)
	o := s.accept("one", nil)
	for range 2 { // the second finds the receipt
		receipt, err := p.Publish(t.Context(), o.request, bytes.NewReader(o.pack), "none")
		if err != nil {
			t.Fatal(err)
		}
		keys, err := p.Keys()
		if err != nil {
			t.Fatal(err)
		}
		public, err := evidence.ParsePublicKeys(keys)
		if err != nil {
			t.Fatal(err)
		}
		r, err := evidence.VerifyPublication(receipt, public, []byte(o.request.Acceptance))
		if err != nil {
			t.Fatal(err)
		}
		c := r.Predicate.Credential
		if c.Class != forge.ClassMinted || c.Revoked == "" || c.Expires == "" || len(c.Scope) != 3 {
			t.Errorf("%+v", c)
		}
	}
	if got := forgetest.Git(t, repo, "rev-parse", "refs/heads/sallyport/fix"); got != string(o.commit) {
		t.Errorf("the branch is at %s, expected %s", got, o.commit)
	}
	if after := keysLeft(t, s); len(after) != 0 {
		t.Errorf("left: %v", after)
	}
}

// TestSSHCertificateIsSweptAfterACrash: killed after the intention, or with the credential sealed, a Publisher leaves a key, which
// whoever comes next deletes, also when the certificate has expired long ago.
func TestSSHCertificateIsSweptAfterACrash(t *testing.T) {
	for name, later := range map[string]time.Duration{"at once": 0, "the next day": 24 * time.Hour} {
		t.Run(name, func(t *testing.T) { certificateIsSwept(t, later) })
	}
}

func certificateIsSwept(t *testing.T, later time.Duration) {
	s, p, _ := certifiedStage(t)
	d, err := p.options.Driver(s.config.Targets[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, bound := range map[string]bool{"intended": false, "bound": true} {
		scope := Scope{Target: s.config.Targets[0].Repository, WorkOrder: sallyport.WorkOrderID(name)}
		mark, err := newMark()
		if err != nil {
			t.Fatal(err)
		}
		if err := p.record(t.Context(), scope, nil, Record{Type: CredentialIntended, Credential: &CredentialRow{Mark: mark}}); err != nil {
			t.Fatal(err)
		}
		g, err := d.Mint(t.Context(), mark)
		if err != nil {
			t.Fatal(err)
		}
		row, err := p.sealed(mark, g)
		if err != nil {
			t.Fatal(err)
		}
		if row.Class != forge.ClassMinted || row.Expires == "" {
			t.Errorf("%+v", row)
		}
		if bound {
			if err := p.record(t.Context(), scope, nil, Record{Type: CredentialBound, Credential: &row}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := len(keysLeft(t, s)); n != 2 {
		t.Fatalf("%d keys before", n)
	}
	p.options.Now = func() time.Time { return time.Now().Add(later) }
	if _, err := p.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := keysLeft(t, s); len(after) != 0 {
		t.Errorf("left: %v", after)
	}
	all, err := p.ledger.Scopes(t.Context())
	if err != nil || len(all) != 0 {
		t.Errorf("still to be swept: %+v, %v", all, err)
	}
}
