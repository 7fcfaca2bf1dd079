package agents

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"sallyport.dev/sallyport/internal/agent"
	"sallyport.dev/sallyport/internal/agent/agenttest"
	"sallyport.dev/sallyport/test/world"
	"sallyport.dev/sallyport/tools/scripted/model"
)

// closing is the scripted model's last word.
const closing = "SCRIPTED-DONE: the file is there"

// credential is the person's own; it must never be anywhere but in a request to the model.
const credential = "sk-real-0123456789abcdef0123456789abcdef"

// api is what differs between the model APIs.
type api struct {
	keyEnv, urlEnv, urlPath string
	target                  string // of the one call that counts
	header                  string // with the variable that holds the placeholder
}

var apis = map[string]api{
	"claude-code": {"ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "", "/v1/messages", "x-api-key: "},
	"codex":       {"OPENAI_API_KEY", "OPENAI_BASE_URL", "/v1", "/v1/responses", "authorization: Bearer "},
}

func TestEveryPresetIsTried(t *testing.T) {
	for _, name := range agent.Names() {
		if _, ok := apis[name]; !ok {
			t.Errorf("the preset %s has no row in this package's table", name)
		}
	}
}

// scripted serves the model on loopback.
type scripted struct {
	*model.Endpoint
	server  *httptest.Server
	arrived chan struct{}
	hold    chan struct{} // while it is open no call is answered
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		// Arrived means all of it: a model thinks about a whole request.
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<20))
		if err != nil {
			return // whoever asked is gone, and will ask again
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		select {
		case s.arrived <- struct{}{}:
		default:
		}
		<-s.hold
	}
	s.Endpoint.ServeHTTP(w, r)
}

func serveModel(t *testing.T, s model.Script) *scripted {
	t.Helper()
	m := holdModel(t, s)
	close(m.hold)
	return m
}

// holdModel is a model that thinks until its hold is closed.
func holdModel(t *testing.T, s model.Script) *scripted {
	t.Helper()
	s.Credential, s.Placeholder, s.Closing = credential, "sallyport-placeholder-", closing
	m := &scripted{Endpoint: model.New(s, nil), arrived: make(chan struct{}, 64), hold: make(chan struct{})}
	m.server = httptest.NewServer(m)
	t.Cleanup(m.server.Close)
	return m
}

// right fails the test unless the model saw the person's credential, and nothing else, in every call.
func (s *scripted) right(t *testing.T, atLeast int) {
	t.Helper()
	calls := s.Calls()
	if len(calls) < atLeast {
		t.Errorf("the model was called %d times, expected at least %d", len(calls), atLeast)
	}
	for _, c := range calls {
		if c.Wrong != "" {
			t.Errorf("the model refused %+v", c)
		}
	}
}

// useAgent installs the agent for the world's user and tells its trusted side where the model is.
func useAgent(w *world.World, name string, m *scripted) {
	w.T.Helper()
	a := apis[name]
	w.Env = append(w.Env, path(w), a.keyEnv+"="+credential, a.urlEnv+"="+m.server.URL+a.urlPath)
}

// newWorld has the small repository.
func newWorld(t *testing.T, uid int) *world.World {
	t.Helper()
	w := world.As(t, uid)
	w.Small()
	return w
}

// path is a PATH with the agents on it.
func path(w *world.World) string { return "PATH=" + installed(w) + ":" + os.Getenv("PATH") }

// installed is the folder of the agents' programs as this user has them: root straight from the npm folder,
// everybody else below a prefix of their own, as npm install -g lays it.
func installed(w *world.World) string {
	w.T.Helper()
	bin := agenttest.Install(w.T)
	if w.UID == os.Getuid() {
		return bin
	}
	prefix := filepath.Join(w.Home, ".npm-global")
	w.Must(linkTree(filepath.Dir(bin), filepath.Join(prefix, "lib", "node_modules")))
	w.Must(os.MkdirAll(filepath.Join(prefix, "bin"), 0o755))
	for _, name := range []string{"claude", "codex"} {
		target, err := os.Readlink(filepath.Join(bin, name))
		w.Must(err)
		w.Must(os.Symlink(filepath.Join("../lib/node_modules/.bin", target), filepath.Join(prefix, "bin", name)))
	}
	return filepath.Join(prefix, "bin")
}

// linkTree makes a tree of hard links: the packages have half a gigabyte.
func linkTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		dst := filepath.Join(to, rel)
		switch {
		case d.IsDir():
			return os.MkdirAll(dst, 0o755)
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(target, dst)
		}
		return os.Link(path, dst)
	})
}

// stranger is a service of the host that no sandbox may reach. It returns its port and how often it was.
func stranger(t *testing.T) (port int, reached *atomic.Int64) {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	reached = new(atomic.Int64)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			reached.Add(1)
			c.Close()
		}
	}()
	return ln.Addr().(*net.TCPAddr).Port, reached
}

// hostile is one tool call that looks for the credential and tries other ways out; what it found out stands
// in facts.txt, without any value. The decoys show that the search can find.
func hostile(a api, strangerPort int) string {
	return strings.NewReplacer("{{key}}", a.keyEnv, "{{target}}", a.target, "{{header}}", a.header, "{{stranger}}", fmt.Sprint(strangerPort)).Replace(`
echo good > a
printf 'sk-%s' real-decoy-0123456789 > "$HOME/decoy"; printf 'sk-%s' real-decoy-0123456789 > /tmp/decoy
search() { grep -raohE --exclude-dir=node_modules '(^|[^a-z])sk-[A-Za-z]+-[0-9a-z-]{8,}' "$@" 2>/dev/null; }
fact() { echo "$1=$2" >> facts.txt; }
fact files "$(search "$HOME" /tmp /run /dev/shm . | grep -vc decoy)"
fact decoys "$(( $(search "$HOME" | grep -c decoy) > 0 && $(search /tmp | grep -c decoy) > 0 ))"
fact environment "$(env | search -)$(cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\000' '\n' | search -)"
fact placeholder "$(cat /proc/[0-9]*/environ 2>/dev/null | tr '\000' '\n' | grep -c '^{{key}}=sallyport-placeholder-')"
key=$(cat /proc/[0-9]*/environ 2>/dev/null | tr '\000' '\n' | sed -n 's/^{{key}}=//p' | head -1)
ask() { # name, target, header lines
  fact "$1" "$(timeout 10 bash -c 'exec 3<>/dev/tcp/127.0.0.1/18790 && printf "POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n%b\r\n\r\n{}" "$0" "$1" >&3 && head -1 <&3 | cut -d" " -f2' "$2" "$3" 2>/dev/null)"
}
ask other-path /v1/files "{{header}}$key"
ask other-key {{target}} "{{header}}key-of-somebody-else"
ask second-key {{target}} "{{header}}$key\r\nx-goog-api-key: key-of-somebody-else"
ask no-key {{target}} "accept: */*"
reach() { timeout 10 bash -c 'exec 3<>/dev/tcp/$0/$1' "$2" "$3" 2>/dev/null && fact "$1" reached || fact "$1" refused; }
reach listener 127.0.0.1 18790
reach other-port 127.0.0.1 {{stranger}}
reach other-host 192.0.2.1 443
reach other-name example.com 443
true`)
}
