package local

import (
	"strings"
	"testing"
	"time"
)

// What is said is about the sandbox alone: no first process, nothing of the host, however many there are, and
// nothing that a terminal would obey.
func TestTheRuntimeLimitSaysWhatWasRunning(t *testing.T) {
	b := newBench(t)
	for name, c := range map[string]struct {
		script string
		want   string // in this order
	}{
		"a shell and its children": {"sleep 1111 & sh -c 'sleep 2222; true'; true", "it was running: sleep 2222; sleep 1111|; sh -c "},
		"many":                     {"for i in 1 2 3 4 5 6 7 8; do sleep 7777 & done; wait", "it was running: sleep 7777; sleep 7777; sleep 7777; sleep 7777; sleep 7777; and 4 more"},
		"a daemon":                 {"setsid sh -c 'exec sleep 3333' & sleep 4444", "sleep 3333|sleep 4444"},
		"a name of its own choice": {`perl -e '$0 = "\e]0;x\a\nevil; it was running: true\x{202e}"; sleep 1000'`, "it was running: ]0;xevil; it was running: true"},
	} {
		t.Run(name, func(t *testing.T) {
			spec, auth := b.spec("sh", "-c", c.script)
			spec.Limits.Time = 1500 * time.Millisecond
			l := b.start(spec, auth)
			_, e := l.all()
			l.destroy()
			if e.Cause != "runtime" {
				t.Fatalf("%+v", e)
			}
			for _, part := range strings.Split(c.want, "|") {
				if !strings.Contains(e.Message, part) {
					t.Errorf("%q, want %q in it", e.Message, part)
				}
			}
			if strings.Contains(e.Message, "sallyport") || strings.ContainsAny(e.Message, "\x1b\x07\n\u202e") {
				t.Errorf("%q", e.Message)
			}
		})
	}
}
