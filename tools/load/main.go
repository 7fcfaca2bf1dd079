// Command load puts more on Sallyport than a person does: many Attempts at once, many idle sandboxes, thousands of
// Attempts one after the other, a reconcile of ten thousand resources, and a journal with many writers. `make load`
// calls it; what it prints is for docs/BENCHMARKS.md. Unlike the bench it also judges: what is lost or left behind is
// an error. Each part is bounded by its number, and -limit bounds all of them.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// load is one run.
type load struct {
	programs string // absolute
	dir      string // of this run; removed
	parallel, idle, row, resources,
	writers int
	brief bool // the journal's part takes a tenth of its time
}

// parts in the order in which they run.
var parts = []struct {
	name string
	run  func(*load, context.Context) error
}{
	{"journal", (*load).journal}, {"reconcile", (*load).reconcile}, {"idle", (*load).idleSandboxes}, {"parallel", (*load).atOnce}, {"row", (*load).inARow},
}

func main() {
	var l load
	flag.StringVar(&l.programs, "programs", "bin", "folder of sallyport, sallyport-keeper and sallyport-runner")
	only := flag.String("only", "", "comma-separated parts to run; empty: journal,reconcile,idle,parallel,row")
	flag.IntVar(&l.parallel, "parallel", 200, "Attempts at once")
	flag.IntVar(&l.idle, "idle", 1000, "idle sandboxes at once")
	flag.IntVar(&l.row, "row", 10000, "Attempts one after the other")
	flag.IntVar(&l.resources, "resources", 10000, "resources that reconcile looks at")
	flag.IntVar(&l.writers, "writers", 64, "writers of one journal")
	limit := flag.Duration("limit", 3*time.Hour, "stop after this long")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	if err := l.run(ctx, *only); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func (l *load) run(ctx context.Context, only string) (err error) {
	if l.programs, err = filepath.Abs(l.programs); err != nil {
		return err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return fmt.Errorf("no cache folder (set HOME): %w", err)
	}
	cache = filepath.Join(cache, "sallyport-test")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	// Beside the cache and not in /tmp, which may be in memory: a state folder lies on a disk.
	if l.dir, err = os.MkdirTemp(cache, "load-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(l.dir)) }()
	fmt.Printf("%s · %d CPUs · uid %d\n", time.Now().UTC().Format("2006-01-02 15:04 MST"), runtime.NumCPU(), os.Geteuid())
	chosen := strings.FieldsFunc(only, func(r rune) bool { return r == ',' })
	for _, p := range parts {
		if len(chosen) > 0 && !slices.Contains(chosen, p.name) {
			continue
		}
		fmt.Printf("\n%s\n", p.name)
		if err := p.run(l, ctx); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// world is a repository with one file and one check, and a state folder of its own.
type world struct {
	l           *load
	repo, state string
}

func (l *load) world(ctx context.Context, name string) (*world, error) {
	w := &world{l: l, repo: filepath.Join(l.dir, name, "repo"), state: filepath.Join(l.dir, name, "state")}
	if err := os.MkdirAll(w.repo, 0o755); err != nil {
		return nil, err
	}
	for file, text := range map[string]string{"README": "small\n", "sallyport.yaml": "version: 1\nchecks:\n  - name: test\n    run: test -s README\n"} {
		if err := os.WriteFile(filepath.Join(w.repo, file), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"commit", "-q", "-m", "Begin"}} {
		if _, err := w.git(ctx, args...); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (w *world) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = w.repo
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=load", "GIT_AUTHOR_EMAIL=load@example.invalid", "GIT_COMMITTER_NAME=load", "GIT_COMMITTER_EMAIL=load@example.invalid")
	return output(cmd)
}

// sallyport is the program itself on this world's state folder.
func (w *world) sallyport(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(w.l.programs, "sallyport"), args...)
	cmd.Dir = w.repo
	cmd.Env = append(os.Environ(), "SALLYPORT_STATE="+w.state)
	return cmd
}

func output(cmd *exec.Cmd) (string, error) {
	var other bytes.Buffer
	cmd.Stderr = &other
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%.2000s%.2000s", strings.Join(cmd.Args, " "), err, out, other.String())
	}
	return strings.TrimSpace(string(out)), nil
}
