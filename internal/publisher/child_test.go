package publisher

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sallyport.dev/sallyport/internal/forge"
	"sallyport.dev/sallyport/internal/publication"
)

// childPlan names in the environment what this program does instead of its tests: be a Publisher.
const childPlan = "PUBLISHER_TEST_PLAN"

// plan is what a child does. All of it is in a file.
type plan struct {
	Config  Config
	Request publication.Request
	Pack    []byte
	Kill    string // the point at which it kills itself; name#2 is the second time
	Receipt string // the file for the receipt
	Start   string // a file that it waits for; "": it begins at once
}

// child publishes. It does not return where it is to be killed.
func child(path string) int {
	var c plan
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	var p *Publisher
	if err == nil {
		p, err = Open(c.Config, Options{At: killer(c.Kill), Driver: c.driver})
	}
	var receipt []byte
	if err == nil {
		defer p.Close()
		for c.Start != "" {
			if _, serr := os.Stat(c.Start); serr == nil {
				break
			}
			time.Sleep(time.Millisecond)
		}
		receipt, err = p.Publish(context.Background(), c.Request, bytes.NewReader(c.Pack), "none")
	}
	if err == nil {
		err = os.WriteFile(c.Receipt, receipt, 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// driver is the one for a target, with what the plan has to happen to its requests.
func (c plan) driver(t Target) (forge.Driver, error) {
	wrap := func(next http.RoundTripper) http.RoundTripper {
		return transport(func(r *http.Request) (*http.Response, error) { return c.send(next, r) })
	}
	if t.Kind == "github" {
		return onGitHub(wrap)(t)
	}
	return minting(wrap)(t)
}

// send kills the process once a request that the plan names has left.
func (c plan) send(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	if kind := sentPoint(r); kind != "" && kind == c.Kill {
		r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { die() }}))
	}
	return next.RoundTrip(r)
}

// sentPoint names the moments at which a request that changes something has left and nobody has heard an answer.
func sentPoint(r *http.Request) string {
	switch {
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/pulls"):
		return "sent create"
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/attestations"):
		return "sent attest"
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/tokens"):
		return "sent mint"
	case r.Method == http.MethodDelete:
		return "sent revoke"
	}
	return ""
}

func die() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL); select {} }

// killer dies at a point.
func killer(at string) func(string) {
	count := map[string]int{}
	return func(point string) {
		if numbered(count, point) == at {
			die()
		}
	}
}

// numbered tells the second time at a point from the first.
func numbered(count map[string]int, point string) string {
	if count[point]++; count[point] > 1 {
		return fmt.Sprintf("%s#%d", point, count[point])
	}
	return point
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// running is a child.
type running struct {
	cmd     *exec.Cmd
	said    *bytes.Buffer
	receipt string
}

// start begins a child for one request.
func (s *stage) start(o order1, alter func(*plan)) running {
	t := s.t
	t.Helper()
	dir := t.TempDir()
	c := plan{Config: s.config, Request: o.request, Pack: o.pack, Receipt: filepath.Join(dir, "receipt")}
	if alter != nil {
		alter(&c)
	}
	b, err := json.Marshal(c)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "plan"), b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	r := running{exec.Command(os.Args[0]), &bytes.Buffer{}, c.Receipt}
	r.cmd.Env = append(os.Environ(), childPlan+"="+filepath.Join(dir, "plan"))
	r.cmd.Stderr = r.said
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return r
}

// wait gives the receipt, or what the child said.
func (r running) wait() (string, error) {
	if err := r.cmd.Wait(); err != nil {
		return "", fmt.Errorf("%w: %s", err, r.said)
	}
	b, err := os.ReadFile(r.receipt)
	return string(b), err
}

// killed waits for a child that kills itself.
func (r running) killed(t testing.TB) {
	t.Helper()
	err := r.cmd.Wait()
	var e *exec.ExitError
	if !errors.As(err, &e) || e.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("it was not killed: %v %s", err, r.said)
	}
}
