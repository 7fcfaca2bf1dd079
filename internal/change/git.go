package change

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"sallyport.dev/sallyport"
)

// gitPath is where we look for programs; git starts some by name.
const gitPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// git is a way to run git: which program, as whom, with whose configuration.
type git struct {
	cred *syscall.Credential // nil: as ourselves
	home string              // whose global configuration counts; "": nobody's, nor the system's
	dir  []string            // --git-dir and --work-tree; nothing is discovered
	cwd  string
	env  []string
}

// overrides beat every configuration file. The user's own configuration is trusted, but what it starts
// (monitors, hooks, filters, helpers) has no business in our reads; see also the choice of plumbing in
// worktree.go, since filters and drivers cannot be listed here.
var overrides = []string{
	"core.fsmonitor=false", "core.hooksPath=/dev/null", "core.untrackedCache=keep", "core.quotePath=false",
	"core.attributesFile=/dev/null", "core.pager=cat", "credential.helper=",
	"gc.auto=0", "maintenance.auto=false", "protocol.allow=never", "submodule.recurse=false", "log.showSignature=false",
	"core.logAllRefUpdates=false", "commit.gpgSign=false", "transfer.bundleURI=false", "index.threads=1",
}

func (g git) environ() []string {
	env := []string{"PATH=" + gitPath, "LC_ALL=C", "TZ=UTC", "GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_ALLOW_PROTOCOL=", "GIT_PROTOCOL_FROM_USER=0",
		"GIT_ASKPASS=/bin/false", "SSH_ASKPASS=/bin/false", "GIT_EDITOR=/bin/false", "GIT_PAGER=cat", "GIT_ATTR_NOSYSTEM=1"}
	if g.home == "" {
		env = append(env, "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	} else {
		env = append(env, "HOME="+g.home)
	}
	return append(env, g.env...)
}

func (g git) command(ctx context.Context, args ...string) (*exec.Cmd, *tail, error) {
	program, err := findGit()
	if err != nil {
		return nil, nil, err
	}
	var argv []string
	for _, o := range overrides {
		argv = append(argv, "-c", o)
	}
	argv = append(append(argv, g.dir...), args...)
	cmd := exec.CommandContext(ctx, program, argv...)
	cmd.Env, cmd.Dir = g.environ(), g.cwd
	cmd.WaitDelay = 5 * time.Second // a grandchild may hold the pipes after git was killed
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: g.cred}
	stderr := &tail{max: 4 << 10}
	cmd.Stderr = stderr
	return cmd, stderr, nil
}

// maxOutput bounds what run keeps: ls-files of a very large tree fits, an endless stream does not.
const maxOutput = 512 << 20

// run returns git's standard output. An exit status is a *gitError inside a *sallyport.Error.
func (g git) run(ctx context.Context, stdin io.Reader, args ...string) ([]byte, error) {
	out := &capped{max: maxOutput}
	err := g.stream(ctx, stdin, out, args...)
	return out.b.Bytes(), err
}

// stream sends git's standard output to w.
func (g git) stream(ctx context.Context, stdin io.Reader, w io.Writer, args ...string) error {
	cmd, stderr, err := g.command(ctx, args...)
	if err != nil {
		return err
	}
	cmd.Stdin, cmd.Stdout = stdin, w
	return failure(ctx, args, stderr, cmd.Run())
}

// line is run for one line of output.
func (g git) line(ctx context.Context, args ...string) (string, error) {
	out, err := g.run(ctx, nil, args...)
	return strings.TrimSuffix(string(out), "\n"), err
}

// gitError is git's own refusal.
type gitError struct {
	exit int
	text string
}

func (e *gitError) Error() string { return fmt.Sprintf("git exited with %d: %s", e.exit, e.text) }

// exitOf is git's exit status, -1 if err is something else.
func exitOf(err error) (int, string) {
	var e *gitError
	if errors.As(err, &e) {
		return e.exit, e.text
	}
	return -1, ""
}

func failure(ctx context.Context, args []string, stderr *tail, err error) error {
	if err == nil {
		return nil
	}
	op := "git " + args[0]
	if ctx.Err() != nil {
		return &sallyport.Error{Op: op, Code: sallyport.CodeUnavailable, Message: "interrupted", Err: ctx.Err()}
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() >= 0 {
		err = &gitError{exit: exit.ExitCode(), text: printable(stderr.String())}
	}
	return &sallyport.Error{Op: op, Code: sallyport.CodeUnavailable, Err: err}
}

// printable keeps git's words and drops what a file name in them could do to a terminal.
func printable(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r == '\n' {
			return ' '
		}
		if r < 0x20 || r > 0x7e {
			return '?'
		}
		return r
	}, s))
}

// tail keeps the last bytes written.
type tail struct {
	b   []byte
	max int
}

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if over := len(t.b) - t.max; over > 0 {
		t.b = t.b[over:]
	}
	return len(p), nil
}

func (t *tail) String() string { return string(t.b) }

type capped struct {
	b   bytes.Buffer
	max int
}

func (c *capped) Write(p []byte) (int, error) {
	if c.b.Len()+len(p) > c.max {
		return 0, errors.New("more output than expected")
	}
	return c.b.Write(p)
}

var findGit = sync.OnceValues(func() (string, error) {
	missing := func(m string, err error) error {
		return &sallyport.Error{Op: "find git", Code: sallyport.CodeUnsupported, Message: m, Hint: "install git 2.39 or newer", Err: err}
	}
	program := ""
	for _, d := range strings.Split(gitPath, ":") {
		if fi, err := os.Stat(d + "/git"); err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
			program = d + "/git"
			break
		}
	}
	if program == "" {
		found, err := exec.LookPath("git")
		if err != nil {
			return "", missing("git is not installed", nil)
		}
		program = found
	}
	out, err := exec.Command(program, "--version").Output()
	if err != nil {
		return "", missing("git does not start", err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(string(out), "git version %d.%d", &major, &minor); err != nil || major < 2 || (major == 2 && minor < 39) {
		return "", missing("git is too old: "+printable(string(out)), nil)
	}
	return program, nil
})
