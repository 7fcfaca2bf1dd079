package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sallyport.dev/sallyport"
)

// ordinary is the user that stands for everybody who is not root.
const ordinary = 1000

// patience bounds one command line.
const patience = 2 * time.Minute

// programs is the folder of the built programs, readable by every user.
var programs string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "spg-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = os.Chmod(dir, 0o755)
	}
	if err == nil {
		cmd := exec.Command("go", "build", "-trimpath", "-o", dir+string(filepath.Separator), "sallyport.dev/sallyport/cmd/...")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		var out []byte
		if out, err = cmd.CombinedOutput(); err != nil {
			err = fmt.Errorf("%w\n%s", err, out)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build the programs:", err)
		return 1
	}
	programs = dir
	return m.Run()
}

// world is one person's machine: a home, a state folder and a small repository. Its check wants "good" or
// "base" in file a.
type world struct {
	t                      *testing.T
	uid                    int
	dir, home, state, repo string
	path                   string   // folders before the usual PATH
	env                    []string // beyond the basics
}

func newWorld(t *testing.T) *world { return worldOf(t, os.Getuid()) }

func worldOf(t *testing.T, uid int) *world {
	t.Helper()
	if uid != os.Getuid() && os.Getuid() != 0 {
		t.Skipf("needs root, to act as uid %d", uid)
	}
	dir, err := os.MkdirTemp("", "spa-") // short: sockets lie below it
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, uid: uid, dir: dir, home: dir + "/home", state: dir + "/state", repo: dir + "/repo"}
	t.Cleanup(w.close)
	for _, d := range []string{dir, w.home, w.repo} {
		w.must(os.MkdirAll(d, 0o755))
		w.must(os.Chmod(d, 0o755))
		w.must(os.Lchown(d, uid, uid))
	}
	w.git("init", "-q", "-b", "main")
	w.git("config", "user.name", "Una User")
	w.git("config", "user.email", "una@example.invalid")
	w.file("a", "base\n")
	w.file("test.sh", "echo looking at a; grep -qE 'good|base' a\n")
	w.file("sallyport.yaml", "version: 1\nlimits: {time: 3m}\nchecks:\n  - {name: test, run: sh test.sh}\n")
	w.git("add", "-A")
	w.git("commit", "-q", "-m", "a small repository")
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) file(name, content string) {
	w.t.Helper()
	path := filepath.Join(w.repo, name)
	w.must(os.WriteFile(path, []byte(content), 0o644))
	w.must(os.Lchown(path, w.uid, w.uid))
}

// close ends what a failed test left running, says what a passed one left behind, and removes the world.
func (w *world) close() {
	if w.t.Failed() {
		w.endLive()
	}
	if left := w.leftovers(); len(left) > 0 {
		w.t.Errorf("left behind:\n  %s", strings.Join(left, "\n  "))
	}
	if err := os.RemoveAll(w.dir); err != nil {
		w.t.Errorf("remove the world: %v", err)
	}
}

func (w *world) endLive() {
	var doc struct{ Attempts []sallyport.Report }
	if json.Unmarshal([]byte(w.sallyport("ps", "--json").out), &doc) != nil {
		return
	}
	for _, a := range doc.Attempts {
		w.sallyport("cancel", string(a.Attempt))
		w.sallyport("wait", string(a.Attempt))
	}
	w.sallyport("reconcile")
}

// leftovers are sandboxes and processes of this world; a keeper may be a moment behind.
func (w *world) leftovers() (left []string) {
	for range 50 {
		left, _ = filepath.Glob(filepath.Join(w.state, "local", "allocations", "*"))
		if left = append(left, w.processes("SALLYPORT_STATE="+w.state)...); len(left) == 0 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	return left
}

// processes are those whose environment holds the text: "PID ARGUMENTS".
func (w *world) processes(text string) (found []string) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range all {
		if env, _ := os.ReadFile(p + "/environ"); bytes.Contains(env, []byte(text)) {
			argv, _ := os.ReadFile(p + "/cmdline")
			found = append(found, filepath.Base(p)+" "+strings.ReplaceAll(string(argv), "\x00", " "))
		}
	}
	return found
}

func (w *world) environ() []string {
	path := os.Getenv("PATH")
	if w.path != "" {
		path = w.path + ":" + path
	}
	env := []string{"HOME=" + w.home, "SALLYPORT_STATE=" + w.state, "PATH=" + path, "LANG=C.UTF-8", "TERM=xterm-256color",
		"GIT_CONFIG_NOSYSTEM=1", "USER=una"}
	return append(env, w.env...) // the last one counts
}

func (w *world) prepare(cmd *exec.Cmd) *exec.Cmd {
	cmd.Dir, cmd.Env, cmd.WaitDelay = w.repo, w.environ(), 5*time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if w.uid != os.Getuid() {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(w.uid), Gid: uint32(w.uid)}
	}
	return cmd
}

type result struct {
	t    *testing.T
	name string
	code int
	out  string
	err  string
}

func (w *world) command(argv ...string) result {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := w.prepare(exec.CommandContext(ctx, argv[0], argv[1:]...))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	r := result{t: w.t, name: strings.Join(argv, " "), out: out.String(), err: errs.String()}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		w.t.Errorf("%.300s did not end within %v\n%.3000s", r.name, patience, r.err)
		w.t.FailNow()
	case errors.As(err, &exit):
		r.code = exit.ExitCode()
	case err != nil:
		w.t.Fatalf("%s: %v", r.name, err)
	}
	return r
}

func (w *world) git(args ...string) string {
	w.t.Helper()
	return strings.TrimSpace(w.command(append([]string{"git"}, args...)...).want(0).out)
}

func (w *world) program() string { return filepath.Join(programs, "sallyport") }

func (w *world) sallyport(args ...string) result {
	w.t.Helper()
	return w.command(append([]string{w.program()}, args...)...)
}

// want fails the test unless the exit code is the one expected.
func (r result) want(code int) result {
	r.t.Helper()
	if r.code != code {
		r.t.Fatalf("%.300s\nexit %d, want %d\n--- stdout\n%.6000s\n--- stderr\n%.6000s", r.name, r.code, code, r.out, r.err)
	}
	return r
}

// says fails the test unless every text is on stdout or stderr.
func (r result) says(texts ...string) result {
	r.t.Helper()
	for _, s := range texts {
		if !strings.Contains(r.out+r.err, s) {
			r.t.Errorf("%.300s\nexpected the words %q in\n--- stdout\n%.4000s\n--- stderr\n%.4000s", r.name, s, r.out, r.err)
		}
	}
	return r
}

// report is the one JSON document on stdout.
func (r result) report() (rep sallyport.Report) {
	r.t.Helper()
	d := json.NewDecoder(strings.NewReader(r.out))
	d.DisallowUnknownFields()
	if err := d.Decode(&rep); err != nil {
		r.t.Fatalf("%.300s\nstdout is not a report: %v\n%.4000s\n%.4000s", r.name, err, r.out, r.err)
	}
	if err := d.Decode(new(any)); err != io.EOF {
		r.t.Fatalf("%.300s\nmore than one document on stdout: %.4000s", r.name, r.out)
	}
	return rep
}

// holding lists the files below dir that hold one of the texts.
func (w *world) holding(dir string, texts ...string) (found []string) {
	w.t.Helper()
	w.must(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, text := range texts {
			if bytes.Contains(b, []byte(text)) {
				found = append(found, path)
				break
			}
		}
		return nil
	}))
	return found
}
