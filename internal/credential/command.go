package credential

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

const (
	maxOutput  = 64 << 10
	maxStderr  = 4 << 10
	groupGrace = time.Second // for output that is still on its way once the group is ended
)

// run is what a credential's command prints. It is started without a shell, in a process group of its own that is
// ended with it whatever happens, with nothing on its standard input, in the home folder.
func run(ctx context.Context, c sallyport.Credential, home string) (Secret, error) {
	argv := c.Source.Command
	program := argv[0]
	fail := func(code sallyport.Code, message, hint string) (Secret, error) {
		return Secret{}, failure(code, c.Name, fmt.Sprintf("the command %q %s", program, message), hint)
	}
	ctx, cancel := context.WithTimeout(ctx, c.Source.Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, inHome(home, program), argv[1:]...)
	cmd.Dir = home
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, said := &capped{limit: maxOutput}, &capped{limit: maxStderr}
	cmd.Stdout, cmd.Stderr = out, said
	endGroup := func() error {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
			return err
		}
		return os.ErrProcessDone
	}
	cmd.Cancel, cmd.WaitDelay = endGroup, groupGrace
	out.full = func() { cancel() }
	if err := cmd.Start(); err != nil {
		return fail(sallyport.CodeNotFound, "cannot be started: "+reasonOf(err), "give a program on PATH or its absolute path")
	}
	// It has ended and is not reaped yet, so the group's number cannot be another's: what it left behind ends too.
	for errors.Is(unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	_ = endGroup()
	err := cmd.Wait()
	timedOut := errors.Is(ctx.Err(), context.DeadlineExceeded)
	switch {
	case out.over:
		return fail(sallyport.CodeInvalid, fmt.Sprintf("prints more than %d bytes", maxOutput), "expected the secret and nothing else")
	case timedOut:
		return fail(sallyport.CodeUnavailable, fmt.Sprintf("did not end within %v and was ended%s", c.Source.Timeout, quote(said, out)), "raise timeout:, or unlock what it waits for")
	case ctx.Err() != nil:
		return fail(sallyport.CodeUnavailable, "was ended: nobody waits for it any more", "")
	case errors.Is(err, exec.ErrWaitDelay):
		return fail(sallyport.CodeInvalid, "left a process behind that keeps its output open", "expected a program that ends with its answer")
	case err != nil:
		return fail(sallyport.CodeUnavailable, "failed: "+reasonOf(err)+quote(said, out), "run it yourself and look")
	}
	return usable(c.Name, out.kept.Bytes())
}

// reasonOf is an error of os/exec without the path and arguments that it repeats.
func reasonOf(err error) string {
	var path *os.PathError
	var lookup *exec.Error
	switch {
	case errors.As(err, &path):
		return path.Err.Error()
	case errors.As(err, &lookup):
		return lookup.Err.Error()
	}
	return err.Error()
}

// capped keeps the first bytes and takes the rest without keeping it.
type capped struct {
	kept  bytes.Buffer // not embedded: its ReadFrom would read without end
	limit int
	over  bool
	full  func()
}

func (c *capped) Write(p []byte) (int, error) {
	room := c.limit - c.kept.Len()
	if len(p) > room {
		c.over = true
		c.kept.Write(p[:max(room, 0)])
		if c.full != nil {
			c.full()
		}
		return len(p), nil
	}
	return c.kept.Write(p)
}

const maxQuoted = 200

// quote is what a failed command complained of: one line of words. A word that could be a secret (long, or part of
// what it printed as its answer) is not repeated.
func quote(said, answer *capped) string {
	var words []string
	secret := strings.TrimSpace(answer.kept.String())
	part := func(w string) bool {
		return len(w) >= 4 && strings.Contains(secret, w) || len(secret) >= 4 && strings.Contains(w, secret)
	}
	for _, w := range strings.Fields(strings.Map(printableASCII, said.kept.String())) {
		if suspicious(w) || part(w) {
			w = "[…]"
		}
		words = append(words, w)
	}
	text := strings.Join(words, " ")
	if text == "" {
		return ""
	}
	if len(text) > maxQuoted {
		text = text[:maxQuoted] + "…"
	}
	return "; it says: " + text
}

func printableASCII(r rune) rune {
	if r < ' ' || r > '~' {
		return ' '
	}
	return r
}

// suspicious is any word that nobody needs in a complaint: a long one, or one with digits that is not short.
func suspicious(w string) bool {
	return len(w) > 24 || len(w) >= 8 && strings.ContainsAny(w, "0123456789")
}
