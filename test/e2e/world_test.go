package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sallyport.dev/sallyport"
)

// ordinary is the user that stands for everybody who is not root.
const ordinary = 1000

// patience bounds one command line; the longest one compiles with a cold cache.
const patience = 3 * time.Minute

// world is one person's machine: a home, a state folder and a repository of their own.
type world struct {
	t     *testing.T
	uid   int // who runs everything
	dir   string
	home  string
	state string
	repo  string
	env   []string // beyond the basics
}

// newWorld makes a world for the user that runs the tests.
func newWorld(t *testing.T) *world { return worldOf(t, os.Getuid()) }

// worldOf makes a world for uid. At the end nothing of the sandboxes may be left.
func worldOf(t *testing.T, uid int) *world {
	t.Helper()
	if uid != os.Getuid() && os.Getuid() != 0 {
		t.Skipf("needs root, to act as uid %d", uid)
	}
	dir, err := os.MkdirTemp("", "spw-") // short: sockets lie below it
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, uid: uid, dir: dir, home: filepath.Join(dir, "home"), state: filepath.Join(dir, "state"), repo: filepath.Join(dir, "repo")}
	t.Cleanup(w.close)
	for _, d := range []string{dir, w.home, w.repo} {
		w.must(os.MkdirAll(d, 0o755))
		w.must(os.Chmod(d, 0o755))
		w.own(d)
	}
	w.git("init", "-q", "-b", "main")
	w.git("config", "user.name", "Una User")
	w.git("config", "user.email", "una@example.invalid")
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) own(path string) {
	w.t.Helper()
	if w.uid != os.Getuid() {
		w.must(os.Lchown(path, w.uid, w.uid))
	}
}

// close ends what a failed test left running, says what a passed one left, and removes the world.
func (w *world) close() {
	if _, err := os.Stat(filepath.Join(w.state, "journal.db")); err == nil && !w.t.Failed() {
		w.clean()
	}
	if w.t.Failed() {
		w.endLive()
	}
	if err := filepath.WalkDir(w.dir, func(p string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(p, 0o700)
		}
		return nil
	}); err != nil {
		w.t.Log(err)
	}
	if err := os.RemoveAll(w.dir); err != nil {
		w.t.Errorf("remove the world: %v", err)
	}
}

func (w *world) endLive() {
	r := w.sallyport("ps", "--json")
	var doc struct{ Attempts []sallyport.Report }
	if json.Unmarshal([]byte(r.out), &doc) != nil {
		return
	}
	for _, a := range doc.Attempts {
		w.sallyport("cancel", string(a.Attempt))
		w.sallyport("wait", string(a.Attempt))
	}
	w.sallyport("reconcile")
}

// file writes a file of the person's below the repository, or at an absolute path.
func (w *world) file(name, content string) string {
	w.t.Helper()
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(w.repo, name)
	}
	var made []string
	for d := filepath.Dir(path); d != w.dir && d != "/"; d = filepath.Dir(d) {
		if _, err := os.Lstat(d); err == nil {
			break
		}
		made = append(made, d)
	}
	w.must(os.MkdirAll(filepath.Dir(path), 0o755))
	w.must(os.WriteFile(path, []byte(content), 0o644))
	if strings.HasPrefix(content, "#!") {
		w.must(os.Chmod(path, 0o755))
	}
	for _, p := range append(made, path) {
		w.own(p)
	}
	return path
}

func (w *world) read(path string) string {
	w.t.Helper()
	if !filepath.IsAbs(path) {
		path = filepath.Join(w.repo, path)
	}
	b, err := os.ReadFile(path)
	w.must(err)
	return string(b)
}

func (w *world) commit(message string) string {
	w.t.Helper()
	w.git("add", "-A")
	w.git("commit", "-q", "--allow-empty", "-m", message)
	return w.git("rev-parse", "HEAD")
}

// environ is the person's environment: nothing of the tests' own user but PATH.
func (w *world) environ() []string {
	env := []string{"HOME=" + w.home, "SALLYPORT_STATE=" + w.state, "PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8",
		"TERM=dumb", "GIT_CONFIG_NOSYSTEM=1", "USER=una"}
	return append(env, w.env...) // the last one counts
}

type result struct {
	t    *testing.T
	name string
	code int
	out  string
	err  string
	took time.Duration
}

// command runs a program as the person, in dir.
func (w *world) command(dir string, argv ...string) result {
	w.t.Helper()
	return w.commandWith(dir, nil, "", argv...)
}

func (w *world) commandWith(dir string, attr *syscall.SysProcAttr, stdin string, argv ...string) result {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdin = dir, w.environ(), strings.NewReader(stdin)
	cmd.WaitDelay = 5 * time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if attr == nil {
		attr = &syscall.SysProcAttr{}
		if w.uid != os.Getuid() {
			attr.Credential = &syscall.Credential{Uid: uint32(w.uid), Gid: uint32(w.uid)}
		}
	}
	cmd.SysProcAttr = attr
	began := time.Now()
	err := cmd.Run()
	r := result{t: w.t, name: strings.Join(argv, " "), out: out.String(), err: errs.String(), took: time.Since(began)}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		w.t.Fatalf("%s did not end within %v\n%s", r.name, patience, r.err)
	case errors.As(err, &exit):
		r.code = exit.ExitCode()
	case err != nil:
		w.t.Fatalf("%s: %v", r.name, err)
	}
	return r
}

// git runs the person's git and returns its output; it must succeed.
func (w *world) git(args ...string) string {
	w.t.Helper()
	r := w.command(w.repo, append([]string{"git"}, args...)...)
	if r.code != 0 {
		w.t.Fatalf("git %s: exit %d\n%s%s", strings.Join(args, " "), r.code, r.out, r.err)
	}
	return strings.TrimSpace(r.out)
}

// sallyport runs a verb in the repository.
func (w *world) sallyport(args ...string) result {
	w.t.Helper()
	return w.in("", args...)
}

// in runs a verb in a subfolder of the repository, or in an absolute folder.
func (w *world) in(dir string, args ...string) result {
	w.t.Helper()
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(w.repo, dir)
	}
	return w.command(dir, append([]string{w.program()}, args...)...)
}

func (w *world) program() string { return filepath.Join(programs, "sallyport") }

// run is run --json with a shell script as agent.
func (w *world) run(name, script string, flags ...string) result {
	w.t.Helper()
	return w.runIn("", name, script, flags...)
}

func (w *world) runIn(dir, name, script string, flags ...string) result {
	w.t.Helper()
	args := append([]string{"run", "--json", "--name", name, "-m", "Task of " + name}, flags...)
	return w.in(dir, append(args, "--", "sh", "-c", script)...)
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

// silent fails the test if any text is on stdout or stderr.
func (r result) silent(texts ...string) result {
	r.t.Helper()
	for _, s := range texts {
		if strings.Contains(r.out+r.err, s) {
			r.t.Errorf("%.300s\nunexpected words %q in\n--- stdout\n%.4000s\n--- stderr\n%.4000s", r.name, s, r.out, r.err)
		}
	}
	return r
}

// report is the one JSON document on stdout; a second, or an unknown key, is a failure.
func (r result) report() sallyport.Report {
	r.t.Helper()
	var rep sallyport.Report
	r.document(&rep)
	return rep
}

func (r result) document(v any) {
	r.t.Helper()
	d := json.NewDecoder(strings.NewReader(r.out))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		r.t.Fatalf("%.300s\nstdout is not the document: %v\n--- stdout\n%.4000s\n--- stderr\n%.4000s", r.name, err, r.out, r.err)
	}
	if err := d.Decode(new(any)); err != io.EOF {
		r.t.Fatalf("%.300s\nmore than one document on stdout: %.4000s", r.name, r.out)
	}
}

// policy is a sallyport.yaml with one check.
func policy(check string, more ...string) string {
	return "version: 1\nlimits: {time: 5m}\n" + strings.Join(more, "\n") + "\nchecks:\n  - {name: test, run: " + check + ", timeout: 2m}\n"
}

// small is a repository that a shell can test: the check wants "good" or "base" in file a.
func (w *world) small() {
	w.t.Helper()
	w.file("a", "base\n")
	w.file("t.sh", "#!/bin/sh\necho looking at a; grep -qE 'good|base' a\n")
	w.file("sallyport.yaml", policy("sh t.sh"))
	w.commit("a small repository")
}

func has(list []string, part string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, part) })
}
