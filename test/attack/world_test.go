package attack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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

// ordinary is the user that stands for everybody who is not root, stranger one more.
const (
	ordinary = 1000
	stranger = 1001
)

// patience bounds one command line.
const patience = 2 * time.Minute

// world is one person's machine: a home, a state folder, and a repository whose check wants of the program
// "prog" that it prints "base".
type world struct {
	t                      *testing.T
	uid                    int
	dir, home, state, repo string
	env                    []string
	files                  int // limit on open files; 0: as it is
}

// each runs a test as root, where we are root, and as an ordinary user.
func each(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	if os.Getuid() != 0 {
		f(t, newWorld(t, os.Getuid()))
		return
	}
	for name, uid := range map[string]int{"root": 0, "user": ordinary} {
		t.Run(name, func(t *testing.T) { f(t, newWorld(t, uid)) })
	}
}

func newWorld(t *testing.T, uid int) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "spa-") // short: sockets lie below it
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
	hostile, err := os.ReadFile(filepath.Join(programs, "hostile"))
	w.must(err)
	w.git("init", "-q", "-b", "main")
	w.file("x", string(hostile), 0o755)
	w.file("prog", "#!/bin/sh\necho base\n", 0o755)
	w.file("t.sh", "#!/bin/sh\nout=$(./prog)\n[ \"$out\" = base ] || { echo wrong; exit 1; }\necho fine\n", 0o755)
	w.policy("sh t.sh", "time: 40s")
	return w
}

// policy writes and commits sallyport.yaml with one check.
func (w *world) policy(check, limits string) {
	w.t.Helper()
	w.file("sallyport.yaml", "version: 1\nlimits: {"+limits+"}\nchecks:\n  - {name: test, run: "+check+", timeout: 10s}\n", 0o644)
	w.git("add", "-A")
	w.git("commit", "-q", "--allow-empty", "-m", "base")
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

func (w *world) file(name, content string, mode os.FileMode) {
	w.t.Helper()
	p := filepath.Join(w.repo, name)
	w.must(os.WriteFile(p, []byte(content), mode))
	w.must(os.Chmod(p, mode))
	w.own(p)
}

// close says what a passed test left of its sandboxes, and removes the world.
func (w *world) close() {
	for _, d := range []string{"local/allocations", "local/ids"} {
		left, err := os.ReadDir(filepath.Join(w.state, d))
		if err == nil && len(left) > 0 {
			w.t.Errorf("left in %s: %v", d, left)
		}
	}
	if w.t.Failed() {
		w.sallyport("reconcile")
	}
	_ = filepath.WalkDir(w.dir, func(p string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(p, 0o700)
		}
		return nil
	})
	w.must(os.RemoveAll(w.dir))
}

type result struct {
	t        *testing.T
	code     int
	out, err string
	took     time.Duration
}

// command runs a program as the person, in the repository.
func (w *world) command(argv ...string) result {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if w.files > 0 {
		argv = append([]string{"sh", "-c", `ulimit -n "$0" && exec "$@"`, itoa(w.files)}, argv...)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.WaitDelay = w.repo, 5*time.Second
	cmd.Env = append([]string{"HOME=" + w.home, "SALLYPORT_STATE=" + w.state, "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "TERM=dumb", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=U", "GIT_AUTHOR_EMAIL=u@example.invalid", "GIT_COMMITTER_NAME=U", "GIT_COMMITTER_EMAIL=u@example.invalid"}, w.env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if w.uid != os.Getuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(w.uid), Gid: uint32(w.uid)}}
	}
	began := time.Now()
	err := cmd.Run()
	r := result{t: w.t, out: out.String(), err: errs.String(), took: time.Since(began)}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		w.t.Fatalf("%q did not end within %v\n%s", argv, patience, r.err)
	case errors.As(err, &exit):
		r.code = exit.ExitCode()
	case err != nil:
		w.t.Fatalf("%q: %v", argv, err)
	}
	return r
}

func itoa(n int) string {
	b, _ := json.Marshal(n)
	return string(b)
}

func (w *world) git(args ...string) string {
	w.t.Helper()
	r := w.command(append([]string{"git"}, args...)...)
	if r.code != 0 {
		w.t.Fatalf("git %q: exit %d\n%s%s", args, r.code, r.out, r.err)
	}
	return strings.TrimSpace(r.out)
}

func (w *world) sallyport(args ...string) result {
	w.t.Helper()
	return w.command(append([]string{filepath.Join(programs, "sallyport")}, args...)...)
}

// agent runs a shell script as the agent.
func (w *world) agent(script string) result {
	w.t.Helper()
	return w.sallyport("run", "--json", "--name", "attack", "-m", "Attack", "--", "/bin/sh", "-c", script)
}

func (r result) report() (rep sallyport.Report) {
	r.t.Helper()
	if err := json.Unmarshal([]byte(r.out), &rep); err != nil {
		r.t.Fatalf("no report: %v\n%.2000s\n%.4000s", err, r.out, r.err)
	}
	return rep
}

// log is what the Attempt's agent or check said.
func (w *world) log(r result, name string) string {
	w.t.Helper()
	b, err := os.ReadFile(filepath.Join(w.state, "attempts", string(r.report().Attempt), name+".log"))
	w.must(err)
	return string(b)
}

// ended fails the test unless the run ended with the code, and says why with every one of the words.
func (r result) ended(code int, words ...string) result {
	r.t.Helper()
	if r.code != code {
		r.t.Fatalf("exit %d, want %d\n%.2000s\n%.4000s", r.code, code, r.out, r.err)
	}
	for _, s := range words {
		if !strings.Contains(r.err, s) {
			r.t.Errorf("expected the words %q in\n%.4000s", s, r.err)
		}
	}
	return r
}
