package selftest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/corpus"
)

// ground is the place where it happens: a home, a state folder, repositories.
type ground struct {
	c         Config
	dir       string // short, since sockets lie below it
	authority authority
	held      map[sallyport.Layer]bool // what doctor says of this host

	mu    sync.Mutex
	repos map[string]func() (string, error) // by content
}

const (
	// searched is PATH of the attacks: what every user has, and nothing of this user's.
	searched = "/usr/local/bin:/usr/bin:/bin"
	// patience bounds one case; the slowest ones wait for a limit.
	patience = 4 * time.Minute
	// secret is what the credential cases lend.
	secret = "the-real-secret-of-the-selftest"
	// untouched is in a file that everybody on this host may write.
	untouched = "untouched\n"
)

func newGround(ctx context.Context, c Config) (*ground, error) {
	for _, f := range []string{c.Program, c.Hostile} {
		if _, err := os.Stat(f); err != nil {
			return nil, cannot(f, "the program is not there", "install all of cmd/: make install, or go install ./cmd/...", err)
		}
	}
	if _, err := exec.LookPath("git"); err != nil {
		return nil, cannot("git", "it is not installed", "install git", err)
	}
	dir, err := os.MkdirTemp(c.Dir, "sallyport-selftest-")
	if err != nil {
		return nil, cannot(c.Dir, "no folder can be made there", "set TMPDIR to one that you can write", err)
	}
	g := &ground{c: c, dir: dir, repos: map[string]func() (string, error){}, held: map[sallyport.Layer]bool{}}
	if err := g.furnish(); err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return g, nil
}

func cannot(subject, message, hint string, err error) error {
	return &sallyport.Error{Op: "selftest", Code: sallyport.CodeUnsupported, Subject: subject, Message: message, Hint: hint, Err: err}
}

func (g *ground) path(name string) string { return filepath.Join(g.dir, name) }

// furnish makes what all cases share. Sandboxes have other ids where we are root: the folders are for all to read.
func (g *ground) furnish() (err error) {
	for _, d := range []string{"", "home", "repos", "configs"} {
		if err := errors.Join(os.MkdirAll(g.path(d), 0o755), os.Chmod(g.path(d), 0o755)); err != nil {
			return err
		}
	}
	if g.authority, err = newAuthority(); err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(g.path("canary"), []byte(untouched), 0o666), os.Chmod(g.path("canary"), 0o666),
		os.WriteFile(g.path("home/token"), []byte(secret+"\n"), 0o600),
		os.WriteFile(g.path("authority.pem"), g.authority.pem, 0o644))
}

// environ is what the main job is given: nothing of this user's own but where a systemd manager is found.
func (g *ground) environ(config string) []string {
	env := []string{"HOME=" + g.path("home"), "XDG_CONFIG_HOME=" + config, "SALLYPORT_STATE=" + g.path("state"), "SALLYPORT_LIBEXEC=" + g.c.Libexec, "PATH=" + searched,
		"LANG=C.UTF-8", "TERM=dumb", "GIT_CONFIG_NOSYSTEM=1", "SSL_CERT_FILE=" + g.path("authority.pem")}
	for _, name := range []string{"TMPDIR", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// command is a program of the main job, in a process group of its own: ^C is for us, and we pass it on once.
func (g *ground) command(ctx context.Context, dir, config, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = dir, g.environ(config)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = time.Minute
	return cmd
}

// sallyport is a verb outside of any repository.
func (g *ground) sallyport(ctx context.Context, args ...string) ([]byte, error) {
	return g.command(ctx, g.dir, g.path("configs"), g.c.Program, args...).Output()
}

// ready asks this host what it holds. The answer, limits included, is kept in the state folder for all cases.
func (g *ground) ready(ctx context.Context) error {
	out, err := g.sallyport(ctx, "doctor", "--json")
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var d struct {
		OK     bool                    `json:"ok"`
		Layers []sallyport.LayerReport `json:"layers"`
	}
	if e := json.Unmarshal(out, &d); e != nil {
		return cannot("doctor", "it does not say what this host holds", "sallyport doctor", errors.Join(err, e))
	}
	if !d.OK {
		return cannot("doctor", "a required layer does not hold: nothing can be run here", "sallyport doctor", nil)
	}
	for _, l := range d.Layers {
		g.held[l.Layer] = l.Status == sallyport.LayerHeld
	}
	return nil
}

// repository makes, once for all cases with these files, a repository to attack: the program x does it, and the
// check wants of the program prog that it prints "base".
func (g *ground) repository(k corpus.Case) (string, error) {
	files := map[string]string{
		"prog":           "#!/bin/sh\necho base\n",
		"t.sh":           "#!/bin/sh\nout=$(./prog)\n[ \"$out\" = base ] || { echo wrong; exit 1; }\necho fine\n",
		"sallyport.yaml": "version: 1\nlimits: {time: 40s}\nchecks:\n  - {name: test, run: sh t.sh, timeout: 10s}\n",
	}
	for name, text := range k.Base {
		files[name] = text
	}
	if k.Policy != "" {
		files["sallyport.yaml"] = k.Policy
	}
	content, err := json.Marshal(files) // by name
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(content)
	key := hex.EncodeToString(sum[:6])
	g.mu.Lock()
	once, ok := g.repos[key]
	if !ok {
		once = sync.OnceValues(func() (string, error) { return g.newRepository(g.path("repos/"+key), files) })
		g.repos[key] = once
	}
	g.mu.Unlock()
	return once()
}

func (g *ground) newRepository(dir string, files map[string]string) (string, error) {
	hostile, err := os.ReadFile(g.c.Hostile)
	if err != nil {
		return "", err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "x"), hostile, 0o755); err != nil {
		return "", err
	}
	for name, text := range files {
		path, mode := filepath.Join(dir, name), os.FileMode(0o644)
		if strings.HasPrefix(text, "#!") {
			mode = 0o755
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), mode)); err != nil {
			return "", err
		}
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"config", "user.name", "Una User"}, {"config", "user.email", "una@example.invalid"},
		{"config", "core.looseCompression", "0"}, {"add", "-A"}, {"commit", "-q", "-m", "base"}} {
		if _, err := g.git(dir, args...); err != nil {
			return "", err
		}
	}
	return dir, nil
}

func (g *ground) git(dir string, args ...string) (string, error) {
	out, err := g.command(context.Background(), dir, g.path("configs"), "git", args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %.300s", args[0], err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// close ends what may still live, says so if something is left, and removes the place.
func (g *ground) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var left []string
	if _, err := os.Stat(g.path("state/journal.db")); err == nil {
		g.settle(ctx)
		for _, pattern := range []string{"allocations/*", "ids/*"} {
			found, _ := filepath.Glob(filepath.Join(g.path("state/local"), pattern))
			left = append(left, found...)
		}
	}
	if len(left) > 0 {
		// Without the record nobody could end what is left.
		return &sallyport.Error{Op: "selftest", Code: sallyport.CodeUnknown, Subject: g.dir, Message: "sandboxes are left: " + strings.Join(left, ", "),
			Hint: "SALLYPORT_STATE=" + g.path("state") + " sallyport reconcile, then remove " + g.dir}
	}
	_ = filepath.WalkDir(g.dir, func(p string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(p, 0o700)
		}
		return nil
	})
	return os.RemoveAll(g.dir)
}

// settle cancels and waits for what lives, and has leftovers removed.
func (g *ground) settle(ctx context.Context) {
	out, _ := g.sallyport(ctx, "ps", "-a", "--json")
	var doc struct {
		Attempts []sallyport.Report `json:"attempts"`
	}
	_ = json.Unmarshal(out, &doc)
	live := slices.DeleteFunc(doc.Attempts, func(r sallyport.Report) bool { return r.State.Ended() })
	for _, r := range live {
		_, _ = g.sallyport(ctx, "cancel", string(r.Attempt))
	}
	for _, r := range live {
		_, _ = g.sallyport(ctx, "wait", string(r.Attempt))
	}
	_, _ = g.sallyport(ctx, "reconcile")
}
