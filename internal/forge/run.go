package forge

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sallyport.dev/sallyport"
)

// gitPath is where we look for git and ssh; git starts some by name.
const gitPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// git is one call of git that speaks to a remote.
type git struct {
	op       string
	dir      string // a bare repository of ours; "": none is needed
	remote   Remote
	deadline time.Duration
	in       *os.File // what it reads; nil: nothing
	config   [][2]string
}

// maxGitOutput is more than the lines of one ref take.
const maxGitOutput = 1 << 20

// said is what git printed, and how it ended: exit -1, it was killed or never began.
type said struct {
	out, errs string
	exit      int
	err       error
}

// run runs git in a process group of its own, which ends with ctx or at the deadline: git's helpers do not end with it.
// The error is for what is wrong before git begins.
func (g git) run(ctx context.Context, args ...string) (said, error) {
	scheme, err := g.remote.scheme(g.op)
	if err != nil {
		return said{}, err
	}
	program, err := findGit()
	if err != nil {
		return said{}, g.fail(sallyport.CodeUnsupported, "git is not installed", "install git 2.39 or newer", err)
	}
	ctx, cancel := context.WithTimeout(ctx, g.deadline)
	defer cancel()
	if g.dir != "" {
		args = append([]string{"--git-dir=" + g.dir}, args...)
	}
	var inherit []*os.File
	if scheme == "https" && g.remote.CAFile == "" {
		authorities, err := trusted()
		if err != nil {
			return said{}, g.fail(sallyport.CodeUnavailable, "the authorities of SSL_CERT_FILE and SSL_CERT_DIR cannot be put together", "", err)
		}
		if authorities != nil {
			defer authorities.Close()
			inherit, g.remote.CAFile = []*os.File{authorities}, inherited
		}
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env, cmd.Dir, cmd.ExtraFiles = g.environ(scheme), "/", inherit
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second // a helper in another group may hold the pipes
	out, errs := &firstBytes{max: maxGitOutput}, &firstBytes{max: 64 << 10}
	cmd.Stdout, cmd.Stderr = out, errs
	if g.in != nil {
		cmd.Stdin = g.in
	}
	err = cmd.Run()
	s := said{out: out.b.String(), errs: errs.b.String(), exit: -1, err: err}
	if cmd.ProcessState != nil && ctx.Err() == nil {
		s.exit = cmd.ProcessState.ExitCode()
	}
	if ctx.Err() != nil {
		s.err = ctx.Err()
	}
	return s, nil
}

// environ is all that git sees: no configuration but ours, no one to ask, and the header where no process list shows it.
func (g git) environ(scheme string) []string {
	env := []string{"PATH=" + gitPath, "HOME=/nonexistent", "LC_ALL=C", "TZ=UTC",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=/bin/false", "SSH_ASKPASS=/bin/false", "GIT_EDITOR=/bin/false", "GIT_PAGER=cat",
		"GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "GIT_PROTOCOL_FROM_USER=0", "GIT_ALLOW_PROTOCOL=" + scheme,
		"GIT_SSH_VARIANT=ssh", "GIT_SSH_COMMAND=/bin/false"}
	if g.remote.SSH != "" {
		env[len(env)-1] = "GIT_SSH_COMMAND=" + g.remote.SSH
	}
	config := [][2]string{
		{"core.hooksPath", "/dev/null"}, {"core.fsmonitor", "false"}, {"core.askPass", "/bin/false"}, {"credential.helper", ""},
		{"core.attributesFile", "/dev/null"}, {"gc.auto", "0"}, {"maintenance.auto", "false"}, {"transfer.bundleURI", "false"},
		{"protocol.allow", "never"}, {"protocol." + scheme + ".allow", "always"}, {"push.gpgSign", "false"}, {"push.followTags", "false"},
		{"push.recurseSubmodules", "no"}, {"submodule.recurse", "false"}, {"fetch.fsckObjects", "true"}, {"transfer.fsckObjects", "true"},
		{"http.followRedirects", "false"}, {"http.sslVerify", "true"}, {"http.proxy", ""}, {"http.cookieFile", ""},
		// Slower than this for a minute is a server that has stopped.
		{"http.lowSpeedLimit", "1"}, {"http.lowSpeedTime", "60"},
		{"http.extraHeader", ""}, // ends what the repository's own configuration adds
	}
	if g.remote.Header != "" {
		config = append(config, [2]string{"http.extraHeader", g.remote.Header})
	}
	if g.remote.CAFile != "" {
		config = append(config, [2]string{"http.sslCAInfo", g.remote.CAFile}, [2]string{"http.sslCAPath", nobody})
	}
	config = append(config, g.config...)
	env = append(env, "GIT_CONFIG_COUNT="+strconv.Itoa(len(config)))
	for i, kv := range config {
		n := strconv.Itoa(i)
		env = append(env, "GIT_CONFIG_KEY_"+n+"="+kv[0], "GIT_CONFIG_VALUE_"+n+"="+kv[1])
	}
	return env
}

func (g git) fail(code sallyport.Code, message, hint string, err error) error {
	return &sallyport.Error{Op: g.op, Code: code, Subject: g.remote.subject(), Message: message, Hint: hint, Err: err}
}

// words are what git printed for people.
func (g git) words(s said) string {
	text := strings.TrimSpace(s.errs)
	if text == "" && s.err != nil {
		text = s.err.Error()
	}
	return Words(text, g.remote.secrets()...)
}

// firstBytes keeps the beginning and takes the rest.
type firstBytes struct {
	b   bytes.Buffer
	max int
}

func (f *firstBytes) Write(p []byte) (int, error) {
	f.b.Write(p[:min(len(p), f.max-f.b.Len())])
	return len(p), nil
}

func findGit() (string, error) {
	for _, dir := range strings.Split(gitPath, ":") {
		name := filepath.Join(dir, "git")
		if fi, err := os.Stat(name); err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
			return name, nil
		}
	}
	return "", errors.New("no git in " + gitPath)
}
