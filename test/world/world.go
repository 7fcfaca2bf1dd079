// Package world is one person's machine for tests of the whole: the real programs, built once, a home, a state
// folder and a git repository of their own, as the user that runs the tests or as an ordinary one.
//
//	w := world.New(t)
//	w.Small()
//	rep := w.Run("good", "echo good > a").Want(0).Report()
//
// It runs command lines and judges how they end (Result), reads the journal beside its writers (Event), finds
// and ends processes (Process), drives a terminal (Terminal), and fails a test that leaves anything behind or
// touches what is the person's. What goes wrong ends the test; no method returns an error.
//
// Not for tests of one room, which stand beside it and need the programs at most (internal/testkit).
package world

import (
	"database/sql"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"sallyport.dev/sallyport/internal/testkit"
)

// Ordinary is the uid that stands for everybody who is not root. It needs no account.
const Ordinary = 1000

// World is not safe for concurrent use, but its commands may run beside each other.
type World struct {
	T     *testing.T
	UID   int    // who runs everything
	Dir   string // short, since sockets lie below it; all the others are in it
	Home  string
	State string   // not there until something makes it
	Repo  string   // an empty git repository, on main
	Env   []string // beyond the basics; the last one counts

	programs string
	db       *sql.DB
}

// New makes a world for the user that runs the tests. At the test's end it fails the test if any sandbox,
// process, mount or cgroup is left, and is removed.
func New(t *testing.T) *World {
	t.Helper()
	return As(t, os.Getuid())
}

// As makes a world for uid; only root can for another than its own.
func As(t *testing.T, uid int) *World {
	t.Helper()
	if uid != os.Getuid() && os.Getuid() != 0 {
		t.Skipf("missing capability: only root can act as uid %d", uid)
	}
	programs := testkit.Programs(t)
	dir, err := os.MkdirTemp("", "spw-")
	if err != nil {
		t.Fatal(err)
	}
	w := &World{T: t, UID: uid, Dir: dir, Home: filepath.Join(dir, "home"), State: filepath.Join(dir, "state"), Repo: filepath.Join(dir, "repo"), programs: programs}
	t.Cleanup(w.close)
	for _, d := range []string{dir, w.Home, w.Repo} {
		w.Folder(d)
	}
	w.Git("init", "-q", "-b", "main")
	w.Git("config", "user.name", "Una User")
	w.Git("config", "user.email", "una@example.invalid")
	return w
}

// Each runs a test as root and as an ordinary user, beside each other; where we are not root, as who we are.
func Each(t *testing.T, f func(t *testing.T, w *World)) {
	t.Helper()
	if os.Getuid() != 0 {
		f(t, New(t))
		return
	}
	for name, uid := range map[string]int{"root": 0, "user": Ordinary} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, As(t, uid))
		})
	}
}

// Must ends the test on an error.
func (w *World) Must(err error) {
	w.T.Helper()
	if err != nil {
		w.T.Fatal(err)
	}
}

// Own gives a path to the person, whoever runs the tests.
func (w *World) Own(path string) {
	w.T.Helper()
	if w.UID != os.Getuid() {
		w.Must(os.Lchown(path, w.UID, w.UID))
	}
}

// Path is a name below the repository; what is absolute stays as it is.
func (w *World) Path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(w.Repo, name)
}

// Folder makes a folder, and those above it that are missing, for everybody to read.
func (w *World) Folder(name string) string {
	w.T.Helper()
	path := w.Path(name)
	var made []string
	for d := path; ; d = filepath.Dir(d) {
		if _, err := os.Lstat(d); err == nil {
			break
		}
		made = append(made, d)
	}
	w.Must(os.MkdirAll(path, 0o755))
	w.Must(os.Chmod(path, 0o755))
	for _, d := range append(made, path) {
		w.Own(d)
	}
	return path
}

// File writes a file of the person's and returns its path. Programs and scripts can be executed.
func (w *World) File(name, content string) string {
	w.T.Helper()
	path := w.Path(name)
	if _, err := os.Lstat(filepath.Dir(path)); err != nil {
		w.Folder(filepath.Dir(path))
	}
	w.Must(os.WriteFile(path, []byte(content), 0o644))
	if strings.HasPrefix(content, "#!") || strings.HasPrefix(content, "\x7fELF") {
		w.Must(os.Chmod(path, 0o755))
	}
	w.Own(path)
	return path
}

// Read is a file's content.
func (w *World) Read(name string) string {
	w.T.Helper()
	b, err := os.ReadFile(w.Path(name))
	w.Must(err)
	return string(b)
}

// Commit commits all there is, and returns the commit.
func (w *World) Commit(message string) string {
	w.T.Helper()
	w.Git("add", "-A")
	w.Git("commit", "-q", "--allow-empty", "-m", message)
	return w.Git("rev-parse", "HEAD")
}

// Policy is a sallyport.yaml with one check, and further lines.
func Policy(check string, more ...string) string {
	return "version: 1\nlimits: {time: 5m}\n" + strings.Join(more, "\n") + "\nchecks:\n  - {name: test, run: " + check + ", timeout: 2m}\n"
}

// Small commits a repository that a shell can test: its check wants "good" or "base" in file a.
func (w *World) Small() {
	w.T.Helper()
	w.File("a", "base\n")
	w.File("t.sh", "#!/bin/sh\necho looking at a; grep -qE 'good|base' a\n")
	w.File("sallyport.yaml", Policy("sh t.sh"))
	w.Commit("a small repository")
}

// proofs are what the trials of limits found, by uid: they hold for a boot and a state of the programs.
var proofs sync.Map

func (w *World) proof() string { return filepath.Join(w.State, "local", "proof.json") }

// Warm hands on what another world of this user has found out about the limits, so that this one need not try.
func (w *World) Warm() *World {
	w.T.Helper()
	b, ok := proofs.Load(w.UID)
	if !ok {
		return w
	}
	for _, d := range []string{w.State, filepath.Dir(w.proof())} {
		w.Must(os.Mkdir(d, 0o700))
		w.Own(d)
	}
	w.Must(os.WriteFile(w.proof(), b.([]byte), 0o600))
	w.Own(w.proof())
	return w
}

// close says what a passed test has left, ends what a failed one left running, and removes the world.
func (w *World) close() {
	defer w.remove()
	w.Forget()
	if b, err := os.ReadFile(w.proof()); err == nil {
		proofs.Store(w.UID, b)
	}
	if !w.T.Failed() {
		w.Clean()
	}
	if w.T.Failed() {
		w.T.Logf("drivers said:\n%s", w.DriverLogs())
		w.end()
	}
}

// end cancels what lives, and then ends by exact pid what bears this world's mark.
func (w *World) end() {
	defer func() {
		for _, p := range w.Processes() {
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
	}()
	for _, p := range w.Processes() {
		_ = syscall.Kill(p.PID, syscall.SIGCONT)
	}
	if _, err := os.Stat(filepath.Join(w.State, "journal.db")); err != nil {
		return
	}
	for _, r := range w.List() {
		if !r.State.Ended() {
			w.Sallyport("cancel", string(r.Attempt))
			w.Sallyport("wait", string(r.Attempt))
		}
	}
	w.Sallyport("reconcile")
}

func (w *World) remove() {
	_ = filepath.WalkDir(w.Dir, func(p string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(p, 0o700)
		}
		return nil
	})
	if err := os.RemoveAll(w.Dir); err != nil {
		w.T.Errorf("remove the world: %v", err)
	}
}
