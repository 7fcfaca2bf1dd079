//go:build amd64

package crash_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge/forgetest"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/test/crash/fault"
	"sallyport.dev/sallyport/test/world"
)

// The scenes, in an order: a point that one has shown is not tried in a later one again.
var scenes = []*scene{mainJob, firstJob, withSetup, wayOut, pullRequest, pickedUp, cancelled, approved, swept1}

// mainJob is the agent that is checked and becomes a branch.
var mainJob = &scene{
	name:    "a branch",
	parties: []fault.Party{fault.Command, fault.Driver, fault.Keeper, fault.Runner},
	prepare: func(t *testing.T) *world.World { return withTree(coldWorld(t, right).Warm()) },
	args: func(_ *world.World, p fault.Party) []string {
		return detached(p, "--copy", ".env", "--", "sh", "-c", agent+treeAgent)
	},
	judge: judgeMainJob,
}

// withTree has a folder, a link and something to remove, and treeAgent makes and removes such.
func withTree(w *world.World) *world.World {
	w.T.Helper()
	w.File("dir/gone", "soon\n")
	w.File("dir/stays", "long\n")
	w.Must(os.Symlink("dir/stays", w.Path("link")))
	w.File(".gitignore", ".env\n")
	w.File(".env", "NAME=value\n")
	w.Commit("a tree")
	return w
}

const treeAgent = `; mkdir made; ln -s ../value made/link; rm dir/gone`

// firstJob is the same on a machine where nobody knows yet what limits are worth.
var firstJob = &scene{
	name:    "a first branch",
	parties: []fault.Party{fault.Driver},
	prepare: func(t *testing.T) *world.World { return withTree(coldWorld(t, right)) },
	args:    mainJob.args,
	judge:   judgeMainJob,
}

// withSetup is the same after a command that prepares the base.
var withSetup = &scene{
	name:    "a setup",
	parties: []fault.Party{fault.Driver},
	prepare: setupWorld,
	args:    func(_ *world.World, p fault.Party) []string { return detached(p, "--", "sh", "-c", setupAgent) },
	judge:   judgeMainJob,
}

// detached is a run that only the command line's own scene follows.
func detached(p fault.Party, args ...string) []string {
	run := []string{"run", "--name", "job", "-m", "make it right"}
	if p != fault.Command {
		run = append(run, "-d")
	}
	return append(run, args...)
}

// wayOut is the same with a model, under a spend limit, and with a server outside.
var wayOut = &scene{
	name:    "a way out",
	parties: []fault.Party{fault.Driver, fault.Keeper, fault.Runner},
	prepare: outside,
	args: func(w *world.World, p fault.Party) []string {
		return detached(p, "--agent", "claude-code", "--spend", "usd=5", "--egress", "{host: files.test, protocol: http, port: "+strings.TrimSpace(w.Read(filepath.Join(w.Dir, "port")))+"}")
	},
	judge: judgeMainJob,
}

// outside is a world with a model and a server, on loopback. Its agent asks until it is answered: a driver that is replaced is the
// end of a request, and of nothing else.
func outside(t *testing.T) *world.World {
	t.Helper()
	if _, err := os.Stat("/usr/bin/curl"); err != nil {
		t.Skip("missing capability: /usr/bin/curl")
	}
	w := newWorld(t)
	mux := http.NewServeMux()
	mux.HandleFunc("/hello", func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprintln(rw, "hello from outside") })
	mux.HandleFunc("POST /v1/messages", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		fmt.Fprint(rw, `{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-6","content":[{"type":"text","text":"do it"}],"stop_reason":"end_turn","usage":{"input_tokens":10,"output_tokens":5}}`)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	port := server.URL[strings.LastIndexByte(server.URL, ':')+1:]
	w.File(filepath.Join(w.Dir, "port"), port)
	w.File(filepath.Join(w.Home, ".config", "sallyport", "config.yaml"), "version: 1\nresolve: {files.test: 127.0.0.1}\ntools: [auto, "+filepath.Join(w.Dir, "bin")+"]\n")
	const ask = "curl -sS -m 10 --retry 5 --retry-delay 1 --retry-all-errors "
	w.File(filepath.Join(w.Dir, "bin", "claude"), "#!/bin/sh\n"+
		ask+`-H "x-api-key: $ANTHROPIC_API_KEY" -H "content-type: application/json" -H "anthropic-version: 2023-06-01" -d '{"model":"claude-sonnet-4-6","max_tokens":50,"messages":[{"role":"user","content":"what now?"}]}' "$ANTHROPIC_BASE_URL/v1/messages"`+"\n"+
		ask+"http://files.test:"+port+"/hello\n"+agent+"\n")
	w.Env = append(w.Env, "PATH="+filepath.Join(w.Dir, "bin")+":/usr/local/bin:/usr/bin:/bin", "ANTHROPIC_API_KEY=sk-real-0123456789abcdef", "ANTHROPIC_BASE_URL="+server.URL)
	return w
}

// pullRequest is one that a Publisher opens at a real Gitea, with a token of its own for each publication.
var pullRequest = &scene{
	name:    "a pull request",
	parties: []fault.Party{fault.Driver, fault.Publisher},
	prepare: func(t *testing.T) *world.World { return atForge(t).World },
	args: func(_ *world.World, p fault.Party) []string {
		return detached(p, "--publish", "pr", "--", "sh", "-c", agent)
	},
	judge: judgePullRequest,
}

// forged is a person's clone of a repository at a forge.
type forged struct {
	*world.World
	forge     *forgetest.Gitea
	repo, bot string
}

var (
	forges   = map[string]*forged{} // by the world's folder
	forgesMu = make(chan struct{}, 1)
	numbered atomic.Int64
)

func atForge(t *testing.T) *forged {
	t.Helper()
	g := forgetest.Shared(t)
	w := newWorld(t)
	n := numbered.Add(1)
	f := &forged{w, g, fmt.Sprintf("owner/crash-%d", n), fmt.Sprintf("bot-%d", n)}
	forgesMu <- struct{}{} // Gitea's users and repositories are made one after another: SQLite
	if n == 1 {
		g.User(t, "owner")
	}
	g.User(t, f.bot)
	g.Repository(t, f.repo, map[string]string{f.bot: "write"})
	forges[w.Dir] = f
	<-forgesMu
	owner := "http.extraHeader=Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("owner:"+forgetest.Password))
	w.Git("remote", "add", "origin", g.URL+"/"+f.repo+".git")
	w.Git("-c", owner, "push", "-q", "-f", "origin", "main")
	w.Git("-c", owner, "fetch", "-q", "origin")
	w.Git("branch", "-q", "--set-upstream-to=origin/main")
	config := filepath.Join(w.Home, ".config", "sallyport")
	w.Folder(config)
	w.Must(os.Chmod(w.File(filepath.Join(config, "bot.password"), forgetest.Password+"\n"), 0o600))
	w.File(filepath.Join(config, "mission-control.pub"), w.Sallyport("keys").Want(0).Out)
	w.File(filepath.Join(config, "publisher.yaml"), fmt.Sprintf("version: 1\nmission-control: [mission-control.pub]\ntargets:\n  - repository: %s\n    kind: gitea\n    bases: [main]\n    allow: [unprotected-base, can-merge]\n    credential: {user: %s, password-file: bot.password}\n",
		g.URL+"/"+f.repo, f.bot))
	return f
}

// judgePullRequest: one pull request, of the accepted commit, and no token.
func judgePullRequest(w *world.World, c *trial) {
	w.T.Helper()
	forgesMu <- struct{}{}
	f := forges[w.Dir]
	<-forgesMu
	id := w.Created()
	if c != nil && c.result.Hit && c.Column.Kills() && c.Point.Party == fault.Driver {
		w.Sallyport("reconcile").Want(0)
	}
	rep, code := w.Wait(id)
	w.Await("the end of all", func() bool { return w.Driver() == 0 && len(w.Processes()) == 0 })
	if rep.State == sallyport.AttemptAccepted && rep.PullRequest == "" {
		w.T.Logf("not published: exit %d %+v", code, rep.Reason)
		if code != 10 || rep.Reason.Message == "" {
			w.T.Errorf("exit %d, not published, and no reason: %+v", code, rep.Reason)
		}
		r := w.Sallyport("publish", string(id))
		if r.Code != 0 {
			w.T.Errorf("publishing again: exit %d\n%s%s\n%s", r.Code, r.Out, r.Err, w.Story())
		}
		rep, code = w.Wait(id)
		if c != nil {
			c.end = "accepted, and published when asked again"
		}
	} else if c != nil {
		c.end = "accepted"
	}
	if rep.State != sallyport.AttemptAccepted {
		c.end = fmt.Sprintf("%s (%s)", rep.State, rep.Reason.Code)
		endedWell(w, id, rep, code)
		return
	}
	if code != 0 {
		w.T.Errorf("exit %d, %s: %+v\n%s", code, rep.State, rep.Reason, w.Story())
	}
	var pulls []struct {
		State string `json:"state"`
		URL   string `json:"html_url"`
		Head  struct {
			SHA string `json:"sha"`
		} `json:"head"`
	}
	f.forge.Do(w.T, "", http.MethodGet, "/repos/"+f.repo+"/pulls?state=all&limit=50", nil, &pulls)
	if len(pulls) != 1 || pulls[0].State != "open" || pulls[0].Head.SHA != string(rep.Commit) || pulls[0].URL != rep.PullRequest {
		w.T.Errorf("%+v, want one of %s at %s", pulls, rep.Commit, rep.PullRequest)
	}
	if n := w.Count(lifecycle.PublicationDone, "", id); n != 1 {
		w.T.Errorf("%d publications\n%s", n, w.Story())
	}
	publisher := filepath.Join(filepath.Dir(w.Program()), "sallyport-publisher")
	w.Command("", publisher, "reconcile").Want(0)
	var tokens []struct {
		Name string `json:"name"`
	}
	f.forge.Do(w.T, f.bot, http.MethodGet, "/users/"+f.bot+"/tokens?limit=50", nil, &tokens)
	if len(tokens) > 0 {
		w.T.Errorf("tokens that live: %+v", tokens)
	}
	tidy(w)
}

// pickedUp is a person's command that finds an Attempt whose driver is dead, its sandbox alive.
var pickedUp = &scene{
	name:    "reconcile after a dead driver",
	parties: []fault.Party{fault.Command},
	prepare: func(t *testing.T) *world.World {
		w := newWorld(t)
		start(w, gated)
		w.AwaitEvent(lifecycle.AllocationRunning, "")
		if pid := w.Driver(); pid != 0 {
			w.Kill(pid)
		}
		return w
	},
	args: func(*world.World, fault.Party) []string { return []string{"reconcile"} },
	judge: func(w *world.World, c *trial) {
		id := w.Created()
		w.Sallyport("reconcile").Want(0)
		awaitEnd(w, id)
		accepted(w, id)
		c.done("accepted")
	},
}

// done says how a trial ended, where it is one.
func (c *trial) done(how string) {
	if c != nil {
		c.end = how
	}
}

// cancelled is a person's word while the agent works.
var cancelled = &scene{
	name:    "cancel",
	parties: []fault.Party{fault.Command},
	prepare: func(t *testing.T) *world.World {
		w := newWorld(t)
		half(w, start(w, slow))
		return w
	},
	args: func(w *world.World, _ fault.Party) []string { return []string{"cancel", string(w.Created())} },
	judge: func(w *world.World, c *trial) {
		id := w.Created()
		if r := w.Sallyport("cancel", string(id)); r.Code != 0 && !w.Show(id).State.Ended() {
			w.T.Errorf("cancelled again: exit %d\n%s", r.Code, r.Err)
		}
		awaitEnd(w, id)
		cancelledWell(w, id, true)
		c.done("cancelled")
	},
}

// approved is a person's word on a change that waits for it.
var approved = &scene{
	name:    "approve",
	parties: []fault.Party{fault.Command},
	prepare: func(t *testing.T) *world.World {
		w := newWorld(t)
		w.Sallyport("run", "--name", "job", "-m", "make it right", "--approve", "always", "--", "sh", "-c", agent).Want(10)
		return w
	},
	args: func(w *world.World, _ fault.Party) []string {
		return []string{"approve", string(w.Created()), "--why", "read it"}
	},
	judge: func(w *world.World, c *trial) {
		id := w.Created()
		w.Sallyport("reconcile").Want(0)
		if w.Show(id).State != sallyport.AttemptAccepted {
			w.Sallyport("approve", string(id), "--why", "read it").Want(0)
		}
		awaitEnd(w, id)
		if c != nil && !c.Column.Kills() && w.Count(lifecycle.PublicationRefused, "", id) > 0 {
			w.Sallyport("publish", string(id)).Want(0)
		}
		accepted(w, id)
		c.done("accepted")
	},
}

// swept1 is a collection of garbage that has something to take.
var swept1 = &scene{
	name:    "gc",
	parties: []fault.Party{fault.Command},
	prepare: func(t *testing.T) *world.World {
		w := newWorld(t)
		awaitEnd(w, start(w, agent))
		old := time.Now().Add(-90 * 24 * time.Hour)
		for _, name := range []string{"quarantine/x-1.tmp", "manifests/.x.json1", "base-checks/.x.json1", "checks/.x.json1"} {
			p := w.File(filepath.Join(w.State, name), "half")
			w.Must(os.Chtimes(p, old, old))
		}
		return w
	},
	args: func(*world.World, fault.Party) []string { return []string{"gc"} },
	judge: func(w *world.World, c *trial) {
		w.Sallyport("gc").Want(0)
		accepted(w, w.Created())
		c.done("accepted")
	},
}
