package selftest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/corpus"
)

// before is what every script begins with: x is the hostile program and must demands that a step worked. What did
// not work is told in a word that the judge knows: an attack that was not made proves nothing.
const before = `X=$PWD/x
x() { "$X" "$@" || echo "BROKEN x $*"; }
must() { "$@" || echo "BROKEN $*"; }
`

// after is the last word of a script that came to its end.
const (
	after = "\necho " + atEnd + "\n"
	atEnd = "END OF THE ATTACK"
)

// run is what came of one attack.
type run struct {
	g       *ground
	repo    string
	branch  string
	report  sallyport.Report
	told    string // what a person was shown, beside the document
	logs    string // what agent and checks said
	outside *outside
}

// lacks says what a case needs and this host does not have; empty: nothing.
func (g *ground) lacks(ctx context.Context, k corpus.Case) string {
	for _, need := range k.Needs {
		kind, what, _ := strings.Cut(need, " ")
		switch {
		case kind == "root" && os.Getuid() != 0:
			return "an ordinary user's sandbox does not promise this (docs/THREATS.md, 8)"
		case kind == "ipv6" && !hasIPv6():
			return "this host has no IPv6"
		case kind == "arch" && what != runtime.GOARCH:
			return "it is about " + what
		case kind == "layer" && !g.held[sallyport.Layer(what)]:
			return "the layer " + what + " is not held on this host: sallyport doctor"
		case kind == "program" && !installed(what):
			return what + " is not installed"
		}
	}
	if k.Proves != "" {
		// Tried where nothing stops it: what this kernel refuses everybody says nothing about a sandbox.
		out, _ := g.command(ctx, g.dir, g.path("configs"), g.c.Hostile, strings.Fields(k.Proves)...).Output()
		if !strings.Contains(string(out), "WON") {
			return fmt.Sprintf("it does not work on this host outside of a sandbox either: %.100s", strings.Join(strings.Fields(string(out)), " "))
		}
	}
	return ""
}

// known refuses a corpus that asks for what lacks and InRoom do not know: it would hold by mistake.
func known(cases []corpus.Case) error {
	for _, k := range cases {
		for _, need := range k.Needs {
			kind, _, _ := strings.Cut(need, " ")
			if !slices.Contains([]string{"root", "ipv6", "arch", "layer", "program"}, kind) {
				return fmt.Errorf("%s: unknown need %q", k.ID(), need)
			}
		}
		if k.Room != "" && rooms[k.Room] == nil {
			return fmt.Errorf("%s: unknown room %q", k.ID(), k.Room)
		}
	}
	return nil
}

func installed(program string) bool {
	return slices.ContainsFunc(filepath.SplitList(searched), func(dir string) bool {
		fi, err := os.Stat(filepath.Join(dir, program))
		return err == nil && fi.Mode()&0o111 != 0
	})
}

// attack takes a case through the main job.
func (g *ground) attack(ctx context.Context, k corpus.Case) (*run, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	repo, err := g.repository(k)
	if err != nil {
		return nil, err
	}
	o, err := g.newOutside(k)
	if err != nil {
		return nil, err
	}
	defer o.close()
	config, err := g.configFolder(o.config(k))
	if err != nil {
		return nil, err
	}
	name := k.Class + "-" + k.Name
	args := []string{"run", "--json", "--name", name, "-m", "the attack " + k.ID()}
	for _, f := range k.Flags {
		args = append(args, strings.Fields(f)...)
	}
	script := "CANARY=" + g.path("canary") + "\nSTATE=" + g.path("state") + "\n" + o.variables() + before + k.Agent + after
	cmd := g.command(ctx, repo, config, g.c.Program, append(args, "--", "sh", "-c", script)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	failed := cmd.Run()
	w := &run{g: g, repo: repo, branch: "sallyport/" + name, told: errs.String(), outside: o}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("it did not end within %v: %.300s", patience, errs.String())
	}
	if err := json.Unmarshal(out.Bytes(), &w.report); err != nil {
		return nil, fmt.Errorf("no report: %v, %v: %.300s", failed, err, errs.String())
	}
	w.readLogs()
	return w, nil
}

// readLogs reads what agent and checks said; there is none where nothing ran.
func (w *run) readLogs() {
	if w.report.Attempt == "" {
		return
	}
	found, _ := filepath.Glob(filepath.Join(w.g.path("state/attempts"), string(w.report.Attempt), "*.log"))
	for _, f := range found {
		if filepath.Base(f) != "driver.log" {
			text, _ := os.ReadFile(f)
			w.logs += string(text)
		}
	}
}

// configFolder holds the operator's config.yaml of a case.
func (g *ground) configFolder(text string) (string, error) {
	sum := sha256.Sum256([]byte(text))
	dir := g.path("configs/" + hex.EncodeToString(sum[:6]))
	if err := os.MkdirAll(filepath.Join(dir, "sallyport"), 0o755); err != nil || text == "" {
		return dir, err
	}
	return dir, os.WriteFile(filepath.Join(dir, "sallyport/config.yaml"), []byte(text), 0o644)
}

// judge says what is wrong with what came of an attack; empty: it was made and did not get through.
func (w *run) judge(k corpus.Case) string {
	for line := range strings.Lines(w.logs) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "WON"):
			return "it got through: " + line
		case strings.HasPrefix(line, "BROKEN"):
			return "the attack was not made: " + line
		}
	}
	for _, judge := range []func(corpus.Case) string{w.wrongEnd, w.wrongChecks, w.wrongBranch, w.wrongWords, w.wrongHost} {
		if wrong := judge(k); wrong != "" {
			return wrong
		}
	}
	return ""
}

// state is "refused" where there never was an Attempt.
func (w *run) state() string {
	if w.report.Attempt == "" {
		return "refused"
	}
	return string(w.report.State)
}

// wrongEnd holds the main job's answer against what is expected, and the attack to its own end.
func (w *run) wrongEnd(k corpus.Case) string {
	got := w.summary()
	if !slices.ContainsFunc(k.Expect, func(o corpus.Outcome) bool {
		return o.State == w.state() && (o.Code == "" || o.Code == w.report.Reason.Code)
	}) {
		return fmt.Sprintf("it ended %s (%.200s), expected %v", got, w.report.Reason.Message, k.Expect)
	}
	switch {
	case w.state() == "refused":
		return ""
	case k.Ends != "":
		if !slices.Contains(strings.Split(k.Ends, " or "), w.report.Agent.Ended) {
			return fmt.Sprintf("the agent was ended by %q, expected %q", w.report.Agent.Ended, k.Ends)
		}
	case !strings.Contains(w.logs, atEnd):
		return fmt.Sprintf("the attack did not come to its end: exit %d, %s: %.300q", w.report.Agent.Exit, w.report.Agent.Ended, w.logs)
	}
	return ""
}

// wrongChecks: a check that fails on the base says nothing about an attack.
func (w *run) wrongChecks(corpus.Case) string {
	for _, c := range w.report.Checks {
		if c.BaseStatus != "" && c.BaseStatus != sallyport.CheckPassed {
			return fmt.Sprintf("check %s %s on the base: %.200s", c.Name, c.BaseStatus, c.Tail)
		}
	}
	return ""
}

// wrongBranch: what is not accepted is not there, what is accepted changes what it should, and the person's own
// branch and files are as they were.
func (w *run) wrongBranch(k corpus.Case) string {
	there := exec.Command("git", "-C", w.repo, "rev-parse", "--verify", "-q", "refs/heads/"+w.branch).Run() == nil
	if there != (w.state() == "accepted") {
		return fmt.Sprintf("the branch is there: %v, and the attempt is %s", there, w.state())
	}
	if there && k.Change != nil {
		got, err := w.g.git(w.repo, "diff", "--no-renames", "--name-status", "main", w.branch)
		if err != nil || got != *k.Change {
			return fmt.Sprintf("the branch changes %q, expected %q (%v)", got, *k.Change, err)
		}
	}
	if dirty, err := w.g.git(w.repo, "status", "--porcelain", "--branch"); err != nil || dirty != "## main" {
		return fmt.Sprintf("the person's own tree is touched: %.200s (%v)", dirty, err)
	}
	return ""
}

func (w *run) wrongWords(k corpus.Case) string {
	said, _ := json.Marshal(w.report)
	all := w.told + string(said)
	for _, s := range k.Says {
		if !strings.Contains(all, s) {
			return fmt.Sprintf("%q is not said: %.300s", s, w.report.Reason.Message)
		}
	}
	for _, s := range k.Log {
		if !strings.Contains(w.logs, s) {
			return fmt.Sprintf("%q is not in what agent and checks said: %.300q", s, w.logs)
		}
	}
	for _, s := range append(k.Silent, secret) {
		if strings.Contains(w.logs, s) || strings.Contains(all, s) {
			return fmt.Sprintf("%q is shown", s)
		}
	}
	if i := strings.IndexAny(w.told, "\x1b\u202e\u0007\u009b"); i >= 0 {
		return fmt.Sprintf("raw bytes for a terminal: %q", w.told[max(0, i-20):min(len(w.told), i+20)])
	}
	return ""
}

// wrongHost: what lies outside of every sandbox is as it was, and has heard nothing.
func (w *run) wrongHost(k corpus.Case) string {
	if b, err := os.ReadFile(w.g.path("canary")); err != nil || string(b) != untouched {
		return fmt.Sprintf("a file of the host is changed: %q, %v", b, err)
	}
	return w.outside.wrong(k)
}

// summary is how it ended.
func (w *run) summary() string {
	if c := w.report.Reason.Code; c != "" {
		return w.state() + ", " + c
	}
	return w.state()
}
