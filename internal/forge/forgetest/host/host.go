// Package host is what the test servers of forges have in common: a real bare repository served by git's own HTTP
// server, faults on demand, and a memory of what was asked. For tests only.
package host

import (
	"bytes"
	"crypto/rand"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Host has one bare repository. It is safe for concurrent use.
type Host struct {
	Dir string // the bare repository
	t   testing.TB

	mu     sync.Mutex
	faults []*Fault
	asked  []string
}

// New makes a repository with one commit on the branch main.
func New(t testing.TB) *Host {
	t.Helper()
	h := &Host{t: t, Dir: filepath.Join(t.TempDir(), "repo.git")}
	h.run(nil, "init", "--quiet", "--bare", "--initial-branch=main", h.Dir)
	h.Git("config", "http.receivepack", "true")
	h.Git("config", "receive.autogc", "false")
	h.Commit("main", "first")
	return h
}

// Git runs git in the repository and gives what it prints.
func (h *Host) Git(args ...string) string {
	h.t.Helper()
	return h.run(nil, append([]string{"--git-dir=" + h.Dir}, args...)...)
}

func (h *Host) run(stdin []byte, args ...string) string {
	h.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Stdin = bytes.NewReader(stdin)
	cmd.Env = Env()
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// Env is an environment for git that no configuration of this machine reaches.
func Env() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com"}
}

// Commit puts a new commit on a branch, which it makes where it is not there, and gives the commit's name.
func (h *Host) Commit(branch, message string) string {
	h.t.Helper()
	tree := h.Git("hash-object", "-t", "tree", "-w", "/dev/null")
	// The same commit twice would be one.
	args := []string{"commit-tree", tree, "-m", message + " " + rand.Text()}
	if tip := h.Tip(branch); tip != "" {
		args = append(args, "-p", tip)
	} else if tip := h.Tip("main"); tip != "" {
		args = append(args, "-p", tip)
	}
	id := h.Git(args...)
	h.Git("update-ref", "refs/heads/"+branch, id)
	return id
}

// Tip is where a branch is, "" where there is none.
func (h *Host) Tip(branch string) string {
	// A list of pull requests asks hundreds of times: git is started only for what is not in a file of its own.
	if id, err := os.ReadFile(filepath.Join(h.Dir, "refs", "heads", branch)); err == nil {
		return strings.TrimSpace(string(id))
	}
	return h.Git("for-each-ref", "--format=%(objectname)", "refs/heads/"+branch)
}

// Serve is git over HTTP at prefix, for whom may says so.
func (h *Host) Serve(prefix string, may func(user, password string) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, ok := r.BasicAuth()
		if !ok || !may(user, password) {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		git, err := exec.LookPath("git")
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		(&cgi.Handler{Path: git, Args: []string{"http-backend"}, Root: prefix, Env: append(Env(),
			"GIT_PROJECT_ROOT="+h.Dir, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER="+user)}).ServeHTTP(w, r)
	})
}

// Fault is what goes wrong with a request. Lose, Answer and Change exclude each other.
type Fault struct {
	Method, Path string // "": any; Path: the end of the path without query
	Times        int    // zero: always
	// Lose cuts the connection after the request was acted on.
	Lose bool
	// Answer answers in its place; nothing is acted on.
	Answer http.HandlerFunc
	// Change may change the answer to a request that was acted on.
	Change func(res *httptest.ResponseRecorder)
	// Before is called before the request is acted on; Filter may change the request.
	Before func()
	Filter func(*http.Request)
}

// Break adds a fault.
func (h *Host) Break(f Fault) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if f.Times == 0 {
		f.Times = -1
	}
	h.faults = append(h.faults, &f)
}

// Mend takes all faults away.
func (h *Host) Mend() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults = nil
}

// Asked lists the requests so far, "POST /path?query", and forgets them.
func (h *Host) Asked() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	asked := h.asked
	h.asked = nil
	return asked
}

func (h *Host) fault(r *http.Request) *Fault {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = append(h.asked, r.Method+" "+r.URL.RequestURI())
	for _, f := range h.faults {
		if f.Times == 0 || f.Method != "" && f.Method != r.Method || !strings.HasSuffix(r.URL.Path, f.Path) {
			continue
		}
		if f.Times > 0 {
			f.Times--
		}
		return f
	}
	return nil
}

// Wrap puts the faults before a server.
func (h *Host) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := h.fault(r)
		if f == nil {
			next.ServeHTTP(w, r)
			return
		}
		if f.Answer != nil {
			_, _ = io.Copy(io.Discard, r.Body)
			f.Answer(w, r)
			return
		}
		if f.Before != nil {
			f.Before()
		}
		if f.Filter != nil {
			f.Filter(r)
		}
		res := httptest.NewRecorder()
		next.ServeHTTP(res, r)
		if f.Lose {
			// No answer at all: net/http closes the connection.
			panic(http.ErrAbortHandler)
		}
		if f.Change != nil {
			f.Change(res)
		}
		for k, v := range res.Header() {
			w.Header()[k] = v
		}
		w.WriteHeader(res.Code)
		_, _ = w.Write(res.Body.Bytes())
	})
}

// Status answers with a status, headers and a body.
func Status(code int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}
