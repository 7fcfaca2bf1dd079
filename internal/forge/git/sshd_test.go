package git_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
	"sallyport.dev/sallyport/internal/forge/forgetest"
	"sallyport.dev/sallyport/internal/forge/git"
)

// host is a repository behind a real sshd, and a clone that has something to push.
type host struct {
	server    *forgetest.SSHServer
	authority []byte // the private key that the server's certificates are signed with
	theirs    string
	ours      string
	base      sallyport.ObjectID // main, on both sides
	config    git.Config
}

func newHost(t *testing.T) host {
	t.Helper()
	signer, text := forgetest.NewKey(t)
	h := host{server: forgetest.ServeSSH(t, signer.PublicKey(), principal), authority: text, theirs: forgetest.Bare(t), ours: forgetest.Bare(t)}
	h.base = forgetest.CommitIn(t, h.theirs, "base")
	forgetest.Git(t, h.theirs, "update-ref", "refs/heads/main", string(h.base))
	h.config = certified(t, text)
	h.config.URL, h.config.KnownHosts = h.server.URL+h.theirs, h.server.KnownHosts
	return h
}

// commit makes one that only our side has.
func (h host) commit(t *testing.T, message string) sallyport.ObjectID {
	t.Helper()
	return forgetest.CommitIn(t, h.ours, message)
}

func (h host) at(t *testing.T, branch string, want sallyport.ObjectID) {
	t.Helper()
	if got := forgetest.Git(t, h.theirs, "for-each-ref", "--format=%(objectname)", "refs/heads/"+branch); got != string(want) {
		t.Errorf("%s is at %q, expected %q", branch, got, want)
	}
}

// TestSSHCertificate is a publication's way: look, fetch, push, push upon it, lose a race, give the credential back.
func TestSSHCertificate(t *testing.T) {
	for name, command := range map[string]bool{"any command": false, "only what publishes to one repository": true} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			if command {
				h.config.CA.Certificate.Push = "git-receive-pack '" + h.theirs + "'"
			}
			d := certifier(t, h.config)
			g := mint(t, d, "mark")
			in, err := d.Inspect(t.Context(), g, "main")
			if err != nil || in.Base != h.base || len(in.Findings) != 1 || in.Findings[0].Code != "not-told" {
				t.Fatalf("%+v, %v", in, err)
			}
			if id, err := forge.Fetch(t.Context(), h.ours, d.Remote(g), "refs/heads/main"); err != nil || id != h.base {
				t.Fatalf("%v, %v", id, err)
			}
			push := func(commit, expect sallyport.ObjectID) error {
				return forge.Push(t.Context(), h.ours, d.Remote(g), commit, expect, "sallyport/one")
			}
			one, two := h.commit(t, "one"), h.commit(t, "two")
			for range 2 {
				if err := push(one, ""); err != nil {
					t.Fatal(err)
				}
				h.at(t, "sallyport/one", one)
			}
			if err := push(two, one); err != nil {
				t.Fatal(err)
			}
			theirs := forgetest.CommitIn(t, h.theirs, "a person's", two)
			forgetest.Git(t, h.theirs, "update-ref", "refs/heads/sallyport/one", string(theirs))
			wantCode(t, push(one, two), sallyport.CodeConflict)
			h.at(t, "sallyport/one", theirs)

			if err := d.Revoke(t.Context(), g); err != nil {
				t.Fatal(err)
			}
			wantCode(t, push(one, theirs), sallyport.CodeDenied)
			h.at(t, "sallyport/one", theirs)
		})
	}
}

func TestSSHCertificateThatIsRefused(t *testing.T) {
	h := newHost(t)
	commit := h.commit(t, "one")
	_, stranger := forgetest.NewKey(t)
	shifted := func(by time.Duration) func(*git.CA) {
		return func(c *git.CA) { c.Now = func() time.Time { return time.Now().Add(by) } }
	}
	for _, c := range []struct {
		name  string
		alter func(*git.CA)
		good  bool
		log   string // what sshd has to say
	}{
		{"in time", func(*git.CA) {}, true, "Accepted certificate ID"},
		{"nearly expired", shifted(-4*time.Minute - 30*time.Second), true, "Accepted certificate ID"},
		{"expired", shifted(-5*time.Minute - 2*time.Second), false, "Certificate invalid: expired"},
		{"not yet", shifted(3 * time.Minute), false, "Certificate invalid: not yet valid"},
		{"of another authority", func(c *git.CA) { c.Key = authorityOf(stranger) }, false, "Failed publickey for"},
		{"of another principal", func(c *git.CA) { c.Certificate.Principal = "somebody" }, false, "does not contain an authorized principal"},
	} {
		t.Run(c.name, func(t *testing.T) {
			config, ca := h.config, *h.config.CA
			c.alter(&ca)
			config.CA = &ca
			d := certifier(t, config)
			before := len(h.server.Log())
			branch := "sallyport/" + strings.ReplaceAll(c.name, " ", "-")
			err := forge.Push(t.Context(), h.ours, d.Remote(mint(t, d, "mark")), commit, "", branch)
			if c.good {
				if err != nil {
					t.Error(err)
				}
				h.at(t, branch, commit)
			} else {
				wantCode(t, err, sallyport.CodeDenied)
				h.at(t, branch, "")
			}
			h.server.Says(t, before, c.log)
		})
	}
}

// A certificate for one command gives nothing else, whoever has it.
func TestSSHCertificateForOneCommand(t *testing.T) {
	h := newHost(t)
	h.config.CA.Certificate.Push = "git-receive-pack '" + h.theirs + "'"
	d := certifier(t, h.config)
	g := mint(t, d, "mark")
	commit := h.commit(t, "one")

	other := forgetest.Bare(t)
	r := d.Remote(g)
	r.URL = h.server.URL + other
	_ = forge.Push(t.Context(), h.ours, r, commit, "", "sallyport/other")
	if got := forgetest.Git(t, other, "for-each-ref"); got != "" {
		t.Errorf("another repository has %s", got)
	}
	r = d.Remote(g)
	r.PushSSH = r.SSH // the one for reading
	if err := forge.Push(t.Context(), h.ours, r, commit, "", "sallyport/read"); err == nil {
		t.Error("the certificate for reading pushes")
	}
	h.at(t, "sallyport/read", "")
	proof := filepath.Join(t.TempDir(), "proof")
	for name, command := range map[string]string{"read": d.Remote(g).SSH, "push": d.Remote(g).PushSSH} {
		host, port, _ := strings.Cut(strings.TrimPrefix(h.server.URL, "ssh://"), ":")
		cmd := exec.CommandContext(t.Context(), "sh", "-c", command+" -p "+port+" "+host+" touch "+proof+" </dev/null")
		out, _ := cmd.CombinedOutput()
		if _, err := os.Stat(proof); err == nil || !bytes.Contains(out, []byte(h.base)) { // the forced command greets with the branches
			t.Errorf("%s: %v: %q", name, err, out)
		}
	}
	// Without a forced command the same does run: the look above can fail.
	h.config.CA.Certificate.Push = ""
	d = certifier(t, h.config)
	host, port, _ := strings.Cut(strings.TrimPrefix(h.server.URL, "ssh://"), ":")
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", d.Remote(mint(t, d, "wide")).SSH+" -p "+port+" "+host+" touch "+proof).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	if _, err := os.Stat(proof); err != nil {
		t.Error(err)
	}
}

// TestSSHCertificateIsInNoArguments holds a push in the server's hook, and looks at every process that has to do with it.
func TestSSHCertificateIsInNoArguments(t *testing.T) {
	h := newHost(t)
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	hook := "#!/bin/sh\n: >'" + in + "'\nwhile [ ! -e '" + out + "' ]; do sleep 0.05; done\n"
	if err := os.WriteFile(filepath.Join(h.theirs, "hooks", "pre-receive"), []byte(hook), 0o700); err != nil {
		t.Fatal(err)
	}
	d := certifier(t, h.config)
	g := mint(t, d, "mark")
	done := make(chan error, 1)
	go func() {
		done <- forge.Push(t.Context(), h.ours, d.Remote(g), h.commit(t, "one"), "", "sallyport/one")
	}()
	release := func() { _ = os.WriteFile(out, nil, 0o600) }
	defer release()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(in); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the hook was not run")
		}
	}
	key, err := os.ReadFile(g.Key)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, p := range processesOf(t, g.Key, h.theirs) {
		seen[filepath.Base(p.name)] = true
		for _, secret := range append(strings.Fields(string(key)), strings.Fields(string(h.authority))...) {
			if len(secret) > 30 && strings.Contains(p.text, secret) {
				t.Errorf("%s has a line of a private key", p.name)
			}
		}
	}
	if !seen["git"] || !seen["ssh"] {
		t.Errorf("only looked at %v", seen)
	}
	release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// process is one that runs: arguments and environment.
type process struct{ name, text string }

// processesOf are those with any of the words in their arguments or their environment.
func processesOf(t *testing.T, words ...string) []process {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var found []process
	for _, dir := range all {
		args, aerr := os.ReadFile(filepath.Join(dir, "cmdline"))
		env, eerr := os.ReadFile(filepath.Join(dir, "environ"))
		if aerr != nil || eerr != nil {
			continue // it has ended, or is another user's
		}
		name, _, _ := strings.Cut(string(args), "\x00")
		for _, w := range words {
			if text := string(args) + "\x00" + string(env); strings.Contains(text, w) {
				found = append(found, process{name, text})
				break
			}
		}
	}
	return found
}
