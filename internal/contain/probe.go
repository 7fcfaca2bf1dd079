package contain

import (
	"fmt"
	"sort"
	"strings"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

// Targets is what Probe aims at. A target that is missing is a trial that was never made, and its layer is
// reported as not held: an empty list proves nothing.
type Targets struct {
	UID, GID int  // what the thread must be
	OneID    bool // only one id is mapped: the runner shares the agent's uid, and its groups stay

	// Processes is how many processes may be visible, pid 1 included; 0 means 1.
	Processes int

	Absent   []string // host paths that must not exist inside
	Writable []string // folders that must be writable: workspace, home

	HostPort int    // a TCP port on which the trusted side listens on 127.0.0.1 of the HOST's network
	Abstract string // the name, without its leading NUL, of an abstract socket on which it listens there

	// Redirect: everything sent must be led to these sockets of the sandbox's own. nil: nothing may get anywhere.
	Redirect *Redirect `json:"-"`

	Env          []string // the complete environment that the command will get: "NAME=value"
	ForbidNames  []string // globs (path.Match) for variable names, in upper case: "*_TOKEN", "AWS_*"
	AllowNames   []string // exact names excused from ForbidNames: placeholders
	ForbidValues []string // what no "NAME=value" may contain: "ghp_", "-----BEGIN"; never shown
}

// Probe tries to break the layers process, filesystem, syscalls, network and credentials from inside, and
// reports one line for each, in that order. It belongs on a thread that Apply has confined, before any code
// of the WorkOrder runs, in a process of the sandbox's own pid namespace with its own /proc. What it tries is
// harmless where a layer is missing, so it may also run unconfined to show that.
//
// Required is left to the caller. About 1 ms; at most 0.5 s more where packets find a way out.
func Probe(t Targets) []sallyport.LayerReport {
	others := []sallyport.LayerReport{probeFilesystem(t), probeSyscalls(), probeNetwork(t), probeCredentials(t)}
	// Last, since it forks: from then on each page of ours that is written is copied first.
	return append([]sallyport.LayerReport{probeProcess(t)}, others...)
}

// trial is one attempt to break a layer. The layer stands when Refused.
type trial struct {
	Name    string
	Answer  string
	Refused bool
}

// trials collects what was tried on one layer.
type trials struct {
	layer  sallyport.Layer
	made   []trial
	weaker []string
	fix    string
}

func (t *trials) add(name, answer string, refused bool) {
	t.made = append(t.made, trial{name, answer, refused})
}

// want records a call that must fail with one of the given errors.
func (t *trials) want(name string, got error, accepted ...unix.Errno) {
	for _, e := range accepted {
		if got == e {
			t.add(name, errName(got), true)
			return
		}
	}
	t.add(name, errName(got), false)
}

func (t *trials) weak(format string, args ...any) {
	t.weaker = append(t.weaker, fmt.Sprintf(format, args...))
}

func (t *trials) report() sallyport.LayerReport {
	r := sallyport.LayerReport{Layer: t.layer, Status: sallyport.LayerNotHeld, Grade: sallyport.GradeProbe, Weaker: strings.Join(t.weaker, "; ")}
	var open []trial
	for _, k := range t.made {
		if !k.Refused {
			open = append(open, k)
		}
	}
	switch {
	case len(t.made) == 0:
		r.Proof = "nothing was tried"
	case len(open) > 0:
		r.Proof = fmt.Sprintf("%d of %d trials got through: %s", len(open), len(t.made), grouped(open))
		r.Fix = t.fix
	default:
		r.Status = sallyport.LayerHeld
		r.Proof = fmt.Sprintf("%d trials: %s", len(t.made), grouped(t.made))
	}
	return r
}

// grouped lists trials by their answer: "bpf, keyctl: EPERM; clone3: ENOSYS".
func grouped(list []trial) string {
	names := map[string][]string{}
	var answers []string
	for _, k := range list {
		if names[k.Answer] == nil {
			answers = append(answers, k.Answer)
		}
		names[k.Answer] = append(names[k.Answer], k.Name)
	}
	sort.SliceStable(answers, func(i, j int) bool { return len(names[answers[i]]) > len(names[answers[j]]) })
	parts := make([]string, len(answers))
	for i, a := range answers {
		parts[i] = strings.Join(names[a], ", ") + ": " + a
	}
	return strings.Join(parts, "; ")
}

// errName is EPERM, ENOENT, …; "allowed" for no error.
func errName(err error) string {
	if err == nil {
		return "allowed"
	}
	if e, ok := err.(unix.Errno); ok {
		if name := unix.ErrnoName(e); name != "" {
			return name
		}
	}
	return err.Error()
}
