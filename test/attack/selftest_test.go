package attack

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sallyport.dev/sallyport/internal/selftest"
	"sallyport.dev/sallyport/test/world"
)

// mayLack are the beginnings of the reasons for which a case may be not-applicable where the tests run.
var mayLack = []string{"an ordinary user's sandbox does not promise this", "it does not work on this host outside of a sandbox either", "it is about", "the layer", "perl is not installed", "pgrep is not installed", "python3 is not installed"}

// TestCorpus takes all of testdata/attacks through the program that is installed, as a person starts it.
func TestCorpus(t *testing.T) {
	world.Each(t, func(t *testing.T, w *world.World) {
		r := selftestOf(w, "--json").finish(t, 15*time.Minute, 0)
		var doc struct {
			Cases []selftest.Outcome `json:"cases"`
		}
		if err := json.Unmarshal(r.out.Bytes(), &doc); err != nil {
			t.Fatalf("%v\n%s", err, r.errs.String())
		}
		for _, c := range doc.Cases {
			switch c.Status {
			case selftest.Held:
			case selftest.NotApplicable:
				if !begins(c.Detail, mayLack) {
					t.Errorf("%s/%s: %s", c.Class, c.Name, c.Detail)
				}
			default:
				t.Errorf("%s/%s %s: %s", c.Class, c.Name, c.Status, c.Detail)
			}
		}
	})
}

// TestSelftestIsInterrupted: whatever it is at, nothing stays.
func TestSelftestIsInterrupted(t *testing.T) {
	world.Each(t, func(t *testing.T, w *world.World) {
		for _, after := range []time.Duration{100 * time.Millisecond, 3 * time.Second} {
			r := selftestOf(w, "--only", "links")
			time.Sleep(after)
			w.Must(r.cmd.Process.Signal(syscall.SIGINT))
			r.finish(t, time.Minute, 130)
		}
	})
}

// TestSelftestRefuses what it cannot do.
func TestSelftestRefuses(t *testing.T) {
	w := world.New(t)
	w.In(w.Dir, "selftest", "--only", "lynx").Want(2).Says("there is no attack", "links, ")
	w.In(w.Dir, "selftest", "--provider", "vm").Want(40).Says("there is no provider")
}

type started struct {
	w         *world.World
	cmd       *exec.Cmd
	out, errs bytes.Buffer
}

func selftestOf(w *world.World, args ...string) *started {
	w.T.Helper()
	w.Env = append(w.Env, "TMPDIR="+w.Dir)
	s := &started{w: w, cmd: w.Verb(append([]string{"selftest"}, args...)...)}
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = w.Dir, &s.out, &s.errs
	w.Must(s.cmd.Start())
	return s
}

// finish waits, and demands the exit code and that nothing is left.
func (s *started) finish(t *testing.T, patience time.Duration, code int) *started {
	t.Helper()
	clock := time.AfterFunc(patience, func() { _ = s.cmd.Process.Kill() })
	defer clock.Stop()
	if got := s.w.WaitFor(s.cmd); got != code {
		t.Errorf("exit %d, want %d\n%s\n%s", got, code, s.out.String(), s.errs.String())
	}
	if left, _ := filepath.Glob(filepath.Join(s.w.Dir, "sallyport-selftest-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	s.w.Clean()
	return s
}

func begins(s string, beginnings []string) bool {
	for _, b := range beginnings {
		if strings.HasPrefix(s, b) {
			return true
		}
	}
	return false
}
