package review

import (
	"fmt"
	"strings"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/screen"
)

// Setup is one command that ran before the agent, or for the checks.
type Setup struct {
	Command, Status, Detail, Tail string
	Tone                          string // "good", "bad" or "wait"
}

func setup(r sallyport.SetupResult) Setup {
	s := Setup{Command: line(r.Run), Status: string(r.Status), Tone: "wait", Tail: screen.Text([]byte(r.Tail))}
	if r.Dir != "" {
		s.Command += " (in " + name(r.Dir) + ")"
	}
	var words []string
	say := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	switch r.Status {
	case sallyport.SetupDone:
		s.Tone = "good"
	case sallyport.SetupFailed:
		s.Tone = "bad"
	}
	if r.Status != sallyport.SetupRunning {
		say("exit %d", r.Exit)
		say("%s", screen.Seconds(r.Seconds))
	}
	if e := r.Egress; e != nil {
		say("%s, %d refused, %s bytes up, %s down", count(int(e.Requests), "request"), e.Refused, screen.Thousands(int(e.BytesUp)), screen.Thousands(int(e.BytesDown)))
	} else if r.Status != sallyport.SetupRunning {
		say("no way out")
	}
	if r.For == "change" {
		var locks []string
		for _, l := range r.Locks {
			locks = append(locks, name(l))
		}
		say("from the change's %s, without scripts", strings.Join(locks, ", "))
	}
	if r.Reused != "" {
		say("run in attempt %s and kept", screen.Short(r.Reused))
	}
	if r.Message != "" {
		say("%s", line(r.Message))
	}
	s.Detail = strings.Join(words, "; ")
	return s
}

func (t *text) setup(list []Setup) {
	if len(list) == 0 {
		return
	}
	t.head("Setup")
	for _, s := range list {
		t.line("%s: %s   $ %s", t.paint(tones[s.Tone], s.Status), s.Detail, s.Command)
		if s.Tail == "" {
			continue
		}
		for l := range strings.SplitSeq(strings.TrimRight(s.Tail, "\n"), "\n") {
			t.line("  │ %s", l)
		}
	}
}

// under is the list that a refused request's rule belongs to.
func under(f sallyport.Refusal) string {
	if f.Stage == "" {
		return "egress"
	}
	return "egress of " + line(f.Stage)
}
