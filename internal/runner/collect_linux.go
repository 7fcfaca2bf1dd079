package runner

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/collect"
	"sallyport.dev/sallyport/internal/contain"
)

// BaseFolder shows the untouched base to the collector: its ignore rules count, not the agent's.
const BaseFolder = "/run/sallyport/base"

// scratch is memory of the collector's own sandbox.
const scratch = "/dev/shm"

// rawSources are the overlay's folders as they lie on disk, opened before the new root hides them.
type rawSources struct {
	upper  *os.File
	lowers []*os.File
}

func openCollectSources(c *CollectPlan, sources []*os.File) (*rawSources, error) {
	if c == nil {
		return nil, nil
	}
	var r rawSources
	var err error
	if r.upper, err = openFolder(c.Upper, sources, "upper"); err != nil {
		return nil, err
	}
	for _, l := range c.Lowers {
		f, err := openFolder(l, sources, ".")
		if err != nil {
			return nil, err
		}
		r.lowers = append(r.lowers, f)
	}
	return &r, nil
}

func openFolder(s Source, sources []*os.File, name string) (*os.File, error) {
	dir, path := s.from(sources)
	if path != "" {
		path += "/"
	}
	path += name
	fd, err := unix.Openat(dir, path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// collectChange writes the change stream to the keeper and returns the exit status. Everything the command
// started is dead; git, which must read what it wrote, runs confined as the command was.
func collectChange(p *Plan, raw *rawSources, out, control *os.File) int {
	w := collect.NewWriter(out)
	err := writeChange(p, raw, w)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "collect:", err)
		report(control, Ready{Code: sallyport.CodeOf(err).String(), Error: words(err)}, nil)
		return statusBase + int(sallyport.CodeOf(err))
	}
	return 0
}

// words are what a person is told of err: without what was being done, with the next step.
func words(err error) string {
	var e *sallyport.Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	text := e.Message
	if e.Subject != "" {
		text = e.Subject + ": " + text
	}
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}

// statusBase lies above the statuses that Go's runtime and a shell give.
const statusBase = 40

// CollectCode is the code that a collector's exit status stands for: whether the same would fail again.
func CollectCode(status int) sallyport.Code {
	code := sallyport.Code(status - statusBase)
	if code < sallyport.CodeUnknown || code > sallyport.CodeCorrupt {
		return sallyport.CodeUnknown
	}
	return code
}

func writeChange(p *Plan, raw *rawSources, w *collect.Writer) error {
	// /tmp is the command's, with whatever modes and files it left there.
	if err := os.Setenv("TMPDIR", scratch); err != nil {
		return err
	}
	// Its own uid and no capability: it reads only the base and the empty git folder that it makes.
	own, err := contain.Prepare(contain.Confinement{UID: os.Getuid(), GID: os.Getgid(), Writable: []string{scratch}})
	if err != nil {
		return err
	}
	agent, err := contain.Prepare(p.Confinement())
	if err != nil {
		return err
	}
	ignored := collect.GitIgnore("/usr/bin/git", BaseFolder, func(argv []string, stdin []byte) ([]byte, error) {
		return run(own, Command{Argv: argv, Dir: "/", Env: collect.GitEnv()}, stdin, 64<<20)
	})
	walk := collect.Overlay
	if p.Collect.Whole {
		walk = collect.Tree
	}
	return walk(collect.Options{Dir: raw.upper, Lower: raw.lowers, Xattr: "user.overlay.", Ignored: ignored,
		Limits: collect.DefaultLimits(), Messages: agentMessages(agent, p.Collect)}, w)
}

// agentMessages are what the agent wrote into commits of its own: claims, and no reason to fail. Nothing that
// was started for them is alive when it returns, and it does not take longer than messagePatience.
func agentMessages(c *contain.Prepared, p *CollectPlan) []string {
	if p.GitDir == "" || p.Base == "" {
		return nil
	}
	// Between the agent's last process and the walk there must be none: git reads what the agent wrote.
	defer endAll()
	late := time.AfterFunc(messagePatience, killAll)
	defer late.Stop()
	// The agent's configuration names programs (gpg.program for one) that `git log` would start; rev-parse of a
	// ref starts none. The log is then read through a git folder of ours with the agent's objects.
	head, err := run(c, Command{Argv: []string{"/usr/bin/git", "rev-parse", "--verify", "--quiet", "HEAD"}, Dir: "/",
		Env: append(collect.GitEnv(), "GIT_DIR="+p.GitDir)}, nil, 1<<10)
	if err != nil {
		return nil
	}
	own, err := collect.EmptyGitDir()
	if own != "" {
		defer os.RemoveAll(own)
	}
	if err != nil {
		return nil
	}
	out, err := run(c, Command{Argv: []string{"/usr/bin/git", "log", "-z", "--reverse", "--max-count=50", "--format=%B", p.Base + ".." + strings.TrimSpace(string(head)), "--"}, Dir: "/",
		Env: append(collect.GitEnv(), "GIT_DIR="+own, "GIT_OBJECT_DIRECTORY="+p.GitDir+"/objects")}, nil, 256<<10)
	if err != nil {
		return nil
	}
	var messages []string
	for m := range strings.SplitSeq(strings.ToValidUTF8(string(out), "\uFFFD"), "\x00") {
		if m = strings.TrimSpace(m); m != "" {
			messages = append(messages, m[:min(len(m), 16<<10)])
		}
	}
	return messages
}

// messagePatience bounds what git may take to read hostile objects.
const messagePatience = 20 * time.Second

// killAll ends every process of this sandbox but us, its first: the kernel leaves out who asks.
func killAll() { _ = unix.Kill(-1, unix.SIGKILL) }

// endAll is killAll and waits until they are gone: orphans are ours.
func endAll() {
	killAll()
	for {
		if _, err := unix.Wait4(-1, nil, 0, nil); err == unix.ECHILD {
			return
		}
	}
}

// exitError is a confined program that ended otherwise than with 0.
type exitError struct{ status unix.WaitStatus }

func (e exitError) Error() string { return fmt.Sprintf("ended with status %#x", int(e.status)) }

// ExitCode is -1 for a signal.
func (e exitError) ExitCode() int { return e.status.ExitStatus() }

// run starts cmd confined, feeds it stdin and returns at most limit bytes of its output.
func run(p *contain.Prepared, cmd Command, stdin []byte, limit int64) ([]byte, error) {
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, inR.Close(), inW.Close())
	}
	defer outR.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inR, outW, null
	pid, _, err := Start(p, nil, cmd)
	inR.Close()
	outW.Close()
	if err != nil {
		inW.Close()
		return nil, err
	}
	go func() {
		_, _ = io.Copy(inW, bytes.NewReader(stdin))
		inW.Close()
	}()
	out, readErr := io.ReadAll(io.LimitReader(outR, limit))
	outR.Close()
	var ws unix.WaitStatus
	for {
		if _, err := unix.Wait4(pid, &ws, 0, nil); err != unix.EINTR {
			break
		}
	}
	if readErr != nil {
		return nil, readErr
	}
	if !ws.Exited() || ws.ExitStatus() != 0 {
		return out, exitError{ws}
	}
	return out, nil
}
