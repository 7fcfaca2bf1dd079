package e2e

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/credential/credentialtest"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/test/world"
)

const lentCanary = "canary-6d3f0b9a2c-Rt5Wn"

// lend gives a person's machine a credential of each source, and says how a run is lent all of them. What it defines is
// for *.corp.example, which a rule lists.
func lend(t *testing.T, w *world.World, forge *credentialtest.Forge) (flags []string) {
	t.Helper()
	config := filepath.Join(w.Home, ".config", "sallyport")
	secret := func(name, text string) string {
		w.File(name, text)
		w.Must(os.Chmod(name, 0o600))
		return name
	}
	key, err := os.ReadFile(forge.KeyFile)
	w.Must(err)
	secret(filepath.Join(w.Home, "token"), "file-"+lentCanary+"\n")
	secret(filepath.Join(w.Home, "app.pem"), string(key))
	secret(filepath.Join(w.Home, ".claude", ".credentials.json"), fmt.Sprintf(`{"claudeAiOauth":{"accessToken":"sk-ant-oat01-%s","refreshToken":"sk-ant-ort01-%s","expiresAt":%d,"scopes":["user:inference"]},"mcpOAuth":{"x":"mcp-%s"}}`,
		lentCanary, lentCanary, time.Now().Add(time.Hour).UnixMilli(), lentCanary))
	w.File(filepath.Join(config, "config.yaml"), `version: 1
egress: [{host: "*.corp.example", methods: ["*"], own-auth: true}]
credentials:
- {name: from-env, from: {env: OUTSIDE}, host: a.corp.example, header: authorization, prefix: "Bearer ", env: INSIDE, placeholder-prefix: npm_}
- {name: from-file, from: {file: ~/token}, host: b.corp.example, query: key, file: ~/.config/tool/token}
- {name: from-command, from: {command: [sh, -c, 'printf command-%s `+lentCanary+`']}, host: c.corp.example, basic: ann, env: COMMANDED}
- {name: from-login, from: {login: claude-code}, host: d.corp.example, header: authorization, prefix: "Bearer "}
- name: from-forge
  from: {github-app: {app: `+forge.App+`, installation: `+fmt.Sprint(forge.Installation)+`, key: ~/app.pem, repositories: [one], url: "`+forge.BaseURL()+`"}}
  host: e.corp.example
  basic: x-access-token
  env: FORGE_TOKEN
`)
	w.Env = append(w.Env, "OUTSIDE=env-"+lentCanary)
	for _, name := range []string{"from-env", "from-file", "from-command", "from-login", "from-forge"} {
		flags = append(flags, "--credential", name)
	}
	return flags
}

// look has an agent say what it sees: its environment, every environment that it can read, and its home folder.
const look = `
echo "inside: ${#INSIDE} $(printf %s "$INSIDE" | cut -c1-4) ${#COMMANDED} ${#FORGE_TOKEN}"
echo "file: $(wc -c < ~/.config/tool/token)"
echo "login: $(grep -c '"expiresAt": 4102444800000' ~/.claude/.credentials.json)"
env; cat /proc/[0-9]*/environ 2>/dev/null | tr '\0' '\n'
find ~ -type f -exec cat {} + ; cat ~/app.pem ~/token 2>&1
cp -r ~/.claude ~/.config seen/ 2>/dev/null; env > seen/env; cat /proc/[0-9]*/environ > seen/proc 2>/dev/null
grep -rl canary-6d3f ~ /tmp /run 2>/dev/null && echo FOUND
echo good > a
`

// tokens are what the journal says of minted ones, in order.
func tokens(w *world.World) (story []string) {
	mine := map[sallyport.AllocationID]bool{}
	for _, e := range w.Events() {
		if e.Type == lifecycle.AllocationIntended && strings.Contains(e.Data, `"purpose":"credential"`) {
			mine[e.Allocation] = true
		}
		if mine[e.Allocation] {
			story = append(story, strings.TrimPrefix(string(e.Type), "allocation."))
		}
	}
	return story
}

func told(t *testing.T, w *world.World, want string) {
	t.Helper()
	if got := strings.Join(tokens(w), " "); got != want {
		t.Errorf("the journal says of tokens:\n got %s\nwant %s", got, want)
	}
}

// TestNoCredentialIsKept: an agent is lent one of each source. It sees placeholders in the places that its tools read;
// the secrets are in no file of the state folder, no log, no evidence and no change.
func TestNoCredentialIsKept(t *testing.T) {
	world.Each(t, func(t *testing.T, w *world.World) {
		w.Small()
		forge := credentialtest.NewForge(t, lentCanary)
		flags := lend(t, w, forge)
		// It puts all that it sees into its change, and a placeholder looks enough like a key to be refused there.
		rep := w.Run("job", "mkdir seen; "+look, flags...).Want(20).Report()
		log := w.Log(rep.Attempt, "agent")
		for _, want := range []string{"inside: 36 npm_ 42 42", "file: 42", "login: 1", "INSIDE=[redacted:placeholder.from-env]", "FORGE_TOKEN=[redacted:placeholder.from-forge]"} {
			if !strings.Contains(log, want) {
				t.Errorf("the agent did not say %q:\n%s", want, log)
			}
		}
		if strings.Contains(log, "FOUND") {
			t.Errorf("the agent found a secret:\n%s", log)
		}
		// The definitions themselves hold the lentCanary in one place: the command that prints it, in the frozen Manifest.
		frozen := func(rel string) bool { return strings.HasPrefix(rel, "manifests/") }
		w.Forget()
		if n := credentialtest.NoCanary(t, lentCanary, frozen, w.State, w.Repo); n < 10 {
			t.Errorf("%d files were looked at", n)
		}
		told(t, w, "intended bound ready teardown terminated")
		if len(forge.Minted()) != 1 || forge.Valid() != 0 {
			t.Errorf("minted %d, valid %d", len(forge.Minted()), forge.Valid())
		}
		if left, _ := filepath.Glob(filepath.Join(w.State, "attempts/*/token-*")); len(left) != 0 {
			t.Errorf("left: %q", left)
		}
	})
}

// TestNoCredentialInACrash: what a driver leaves when it is made to dump itself, with all secrets in its hands, has none.
func TestNoCredentialInACrash(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Small()
	forge := credentialtest.NewForge(t, lentCanary)
	id := w.Start("long", look+"until test -e /tmp/never; do sleep 0.1; test $((i=i+1)) -gt 30 && break; done; echo good > a", lend(t, w, forge)...)
	w.AwaitEvent(lifecycle.AttemptStage, `"running"`)
	w.Await("the agent's words", func() bool {
		said, _ := os.ReadFile(filepath.Join(w.State, "attempts", string(id), "agent.log"))
		return strings.Contains(string(said), "login: 1")
	})
	driver := w.Driver()
	w.Must(syscall.Kill(driver, syscall.SIGABRT))
	w.Await("the dump", func() bool { return w.Driver() != driver })
	if log := w.DriverLogs(); !strings.Contains(log, "SIGABRT") || !strings.Contains(log, "goroutine ") {
		t.Fatalf("the driver has dumped nothing:\n%s", log)
	}
	if rep, code := w.Wait(id); code != 0 {
		t.Errorf("the next driver ended it with %d: %s %+v", code, rep.State, rep.Reason)
	}
	w.Forget()
	if n := credentialtest.NoCanary(t, lentCanary, func(rel string) bool { return strings.HasPrefix(rel, "manifests/") }, w.State, w.Repo); n < 10 {
		t.Errorf("%d files were looked at", n)
	}
}

// TestCredentialThatCannotBeRead: nothing starts.
func TestCredentialThatCannotBeRead(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Small()
	forge := credentialtest.NewForge(t, lentCanary)
	lend(t, w, forge)
	w.Must(os.Chmod(filepath.Join(w.Home, "token"), 0o644))
	w.Run("open", "echo good > a", "--credential", "from-file").Want(40).Says("from-file", "has mode 0644", "chmod 600")
	w.Run("none", "echo good > a", "--credential", "nine").Want(2).Says(`no credential "nine" is defined on this machine`)
	// What is only known when it is asked for ends the Attempt before its agent runs.
	forge.Fail(http.MethodPost, http.StatusUnprocessableEntity)
	rep := w.Run("refused", "echo ran", "--credential", "from-forge").Report()
	if rep.State != sallyport.AttemptFailed || rep.Reason.Code != "denied" || !strings.Contains(rep.Reason.Message, "does not reach these repositories") {
		t.Errorf("%s %+v %+v", rep.State, rep.Reason, rep.Agent)
	}
	told(t, w, "intended terminated")
}

// TestTokenOutlivesItsDriver: the next driver goes on with the same token and revokes it.
func TestTokenOutlivesItsDriver(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Small()
	forge := credentialtest.NewForge(t, lentCanary)
	lend(t, w, forge)
	id := w.Start("long", "touch here; until test -e /tmp/never; do sleep 0.1; test $((i=i+1)) -gt 60 && break; done; echo good > a", "--credential", "from-forge")
	w.AwaitEvent(lifecycle.AttemptStage, `"running"`)
	w.Kill(w.Driver())
	if forge.Valid() != 1 {
		t.Fatalf("%d valid", forge.Valid())
	}
	rep, code := w.Wait(id)
	if code != 0 || len(forge.Minted()) != 1 || forge.Valid() != 0 {
		t.Errorf("exit %d, %s %+v; minted %d, valid %d", code, rep.State, rep.Reason, len(forge.Minted()), forge.Valid())
	}
	told(t, w, "intended bound ready teardown terminated")
	w.Forget()
	credentialtest.NoCanary(t, lentCanary, nil, w.State)
}

// TestTokenIsRevokedLater: the forge cannot be asked at the Attempt's end. A person is told, and reconcile does it.
func TestTokenIsRevokedLater(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Small()
	forge := credentialtest.NewForge(t, lentCanary)
	lend(t, w, forge)
	forge.Fail(http.MethodDelete, http.StatusBadGateway)
	rep := w.Run("job", "echo good > a", "--credential", "from-forge").Want(0).Report()
	if !has(rep.Notices, "not revoked yet, `sallyport reconcile` tries again") || forge.Valid() != 1 {
		t.Errorf("%q, %d valid", rep.Notices, forge.Valid())
	}
	told(t, w, "intended bound ready teardown failed")
	w.Forget()
	credentialtest.NoCanary(t, lentCanary, nil, w.State)
	w.Sallyport("fsck").Want(0).Says("to reconcile: revoke the tokens of")
	w.Sallyport("reconcile").Says("could not revoke the tokens of", "answers 502")
	forge.Fail(http.MethodDelete, 0)
	w.Sallyport("reconcile").Want(0).Says("revoked the tokens of " + string(rep.Attempt) + " (from-forge)")
	w.Sallyport("reconcile").Want(0).Silent("the tokens of")
	if forge.Valid() != 0 {
		t.Error("it is still valid")
	}
	if got := tokens(w); got[len(got)-1] != "terminated" {
		t.Errorf("%q %s", got, w.Story())
	}
}

// TestKilledWhileMinting: kill -9 of the driver while the forge answers, and while it revokes. Nothing that was seen
// stays valid; what nobody saw is in the record until its time is over.
func TestKilledWhileMinting(t *testing.T) {
	for _, method := range []string{http.MethodPost, http.MethodDelete} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			w := world.New(t)
			w.Small()
			forge := credentialtest.NewForge(t, lentCanary)
			lend(t, w, forge)
			killed := false
			forge.Before(func(m string) {
				if m == method && !killed {
					killed = true
					w.Kill(w.Driver())
				}
			})
			id := w.Start("job", "echo good > a", "--credential", "from-forge")
			w.Await("the kill", func() bool { return len(forge.Calls()) > 0 && killed })
			rep, code := w.Wait(id)
			if code != 0 {
				t.Errorf("exit %d, %s %+v", code, rep.State, rep.Reason)
			}
			story := strings.Join(tokens(w), " ")
			if method == http.MethodDelete {
				if forge.Valid() != 0 || !strings.HasSuffix(story, "terminated") {
					t.Errorf("%d valid; %s", forge.Valid(), story)
				}
				return
			}
			// One that the dead driver never saw, and one that was used and revoked.
			if len(forge.Minted()) != 2 || forge.Valid() != 1 || !has(rep.Notices, "nobody can revoke it; it ends by itself before") {
				t.Errorf("minted %d, valid %d, %q; %s", len(forge.Minted()), forge.Valid(), rep.Notices, story)
			}
			w.Sallyport("reconcile").Says("could not revoke the tokens of", "it ends by itself before")
			left, err := filepath.Glob(filepath.Join(w.State, "attempts/*/token-*.json"))
			if err != nil || len(left) != 1 {
				t.Fatalf("%q %v", left, err)
			}
			b, err := os.ReadFile(left[0])
			w.Must(err)
			at := strings.LastIndex(string(b), `"at":`) + 5
			w.Must(os.WriteFile(left[0], []byte(string(b[:at])+fmt.Sprint(time.Now().Add(-2*time.Hour).Unix())+"}"), 0o600))
			w.Sallyport("reconcile").Want(0).Says("revoked the tokens of")
			if got := tokens(w); got[len(got)-1] != "terminated" {
				t.Errorf("%q", got)
			}
		})
	}
}

// TestDriverIsKilledAfterEachTokenEvent: whatever the journal says last of a token when its driver dies, the next one
// leaves none that anybody has seen valid.
func TestDriverIsKilledAfterEachTokenEvent(t *testing.T) {
	for _, last := range []lifecycle.Type{lifecycle.AllocationIntended, lifecycle.AllocationBound, lifecycle.AllocationReady, lifecycle.AllocationTeardown, lifecycle.AllocationTerminated} {
		t.Run(string(last), func(t *testing.T) {
			t.Parallel()
			w := world.New(t)
			w.Small()
			forge := credentialtest.NewForge(t, lentCanary)
			lend(t, w, forge)
			forge.Before(func(string) { time.Sleep(100 * time.Millisecond) }) // time to be killed in
			run := w.Verb("run", "-d", "--name", "job", "-m", "x", "--credential", "from-forge", "--", "sh", "-c", "echo good > a")
			w.Must(run.Start())
			pid := 0
			w.Await("the driver", func() bool { pid = w.Driver(); return pid != 0 })
			for !has(tokens(w), strings.TrimPrefix(string(last), "allocation.")) && !world.Dead(pid) {
				time.Sleep(time.Millisecond)
			}
			w.Kill(pid)
			w.Must(run.Wait())
			rep, code := w.Wait(w.Created())
			seen := 0
			for _, e := range w.Events() {
				if e.Type == lifecycle.AllocationBound && strings.Contains(e.Data, "token-") {
					seen++
				}
			}
			if unseen := len(forge.Minted()) - seen; code != 0 || forge.Valid() != unseen || unseen > 1 {
				t.Errorf("exit %d, %s %+v; minted %d, seen %d, valid %d: %q", code, rep.State, rep.Reason, len(forge.Minted()), seen, forge.Valid(), tokens(w))
			}
			w.Forget()
			credentialtest.NoCanary(t, lentCanary, nil, w.State)
		})
	}
}

// TestCredentialIsPutIn: real programs send what they hold, and the servers outside are shown the secrets. A request
// without its placeholder, with another login, or with the placeholder elsewhere is shown to nobody.
func TestCredentialIsPutIn(t *testing.T) {
	world.Each(t, func(t *testing.T, w *world.World) {
		w.Small()
		forge := credentialtest.NewForge(t, lentCanary)
		lend(t, w, forge)
		var mu sync.Mutex
		var shown []string
		server := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			user, password, _ := r.BasicAuth()
			shown = append(shown, strings.Join([]string{r.Host, r.URL.RequestURI(), user, password, r.Header.Get("Authorization")}, " "))
			fmt.Fprintln(rw, "served")
		}))
		defer server.Close()
		p := port(t, server.URL)
		config := filepath.Join(w.Home, ".config", "sallyport", "config.yaml")
		b, err := os.ReadFile(config)
		w.Must(err)
		text := strings.ReplaceAll(string(b), "corp.example", "example.com") // what httptest's certificate is for
		text = strings.Replace(text, `{host: "*.example.com", `, `{host: "*.example.com", port: `+p+", ", 1)
		text = strings.Replace(text, ", own-auth: true", "", 1) // so that what goes to other hosts is read as well
		w.File(config, text+"resolve: {a.example.com: 127.0.0.1, b.example.com: 127.0.0.1, c.example.com: 127.0.0.1, e.example.com: 127.0.0.1, x.example.com: 127.0.0.1}\n")
		certificate := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
		w.Env = append(w.Env, "SSL_CERT_FILE="+w.File(filepath.Join(w.Dir, "outside.pem"), certificate))
		get := "curl -sS -m 20 -w ' %{http_code}\\n' "
		script := strings.Join([]string{
			"a=https://a.example.com:" + p + " b=https://b.example.com:" + p + " c=https://c.example.com:" + p + " e=https://e.example.com:" + p + " x=https://x.example.com:" + p,
			get + `-H "Authorization: Bearer $INSIDE" $a/header`,
			get + `"$b/query?key=$(cat ~/.config/tool/token)"`,
			get + `-u "ann:$COMMANDED" $c/basic`,
			get + `-u "x-access-token:$FORGE_TOKEN" $e/forge`,
			"echo refused:",
			get + `$a/without`,
			get + `-H "Authorization: Bearer mine-0123456789abcdef" $a/other`,
			get + `-H "Authorization: Bearer $INSIDE" -H "X-Api-Key: mine-0123456789abcdef" $a/both`,
			get + `-H "Authorization: Bearer $INSIDE" $x/elsewhere`,
			get + `-H "Authorization: Bearer $COMMANDED" $a/another`,
			"echo good > a",
		}, "\n")
		rep := w.Run("job", script, "--credential", "from-env", "--credential", "from-file", "--credential", "from-command", "--credential", "from-forge").Want(0).Report()
		log := w.Log(rep.Attempt, "agent")
		good, bad, _ := strings.Cut(log, "refused:")
		if strings.Count(good, "served\n 200") != 4 || strings.Contains(bad, "served") || strings.Count(bad, " 403") != 5 {
			t.Errorf("the agent saw:\n%s", log)
		}
		mu.Lock()
		got := strings.Join(shown, "\n")
		mu.Unlock()
		for _, want := range []string{"/header   Bearer env-" + lentCanary, "/query?key=file-" + lentCanary, "/basic ann command-" + lentCanary, "/forge x-access-token " + forge.Minted()[0]} {
			if !strings.Contains(got, want) {
				t.Errorf("outside nobody was shown %q:\n%s", want, got)
			}
		}
		if len(shown) != 4 {
			t.Errorf("outside saw %d requests:\n%s", len(shown), got)
		}
		told(t, w, "intended bound ready teardown terminated")
		w.Forget()
		credentialtest.NoCanary(t, lentCanary, func(rel string) bool { return strings.HasPrefix(rel, "manifests/") }, w.State, w.Repo)
	})
}
