package cli

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

func noPager(c *cobra.Command, plain *bool) {
	c.Flags().BoolVar(plain, "no-pager", false, "write to the terminal itself")
}

// paged gives f a place to write neutral text to: the person's pager where stdout is a terminal, else stdout. A
// pager that cannot be started is said, and f is called again.
func (a *app) paged(plain bool, f func(io.Writer) error) error {
	p := &pager{a: a, command: a.pagerCommand()}
	if plain || a.Raw || p.command == "" {
		return f(a.Stdout)
	}
	err := f(p)
	switch started := p.wait(); {
	case !started:
		a.tell("the pager %q cannot be started; SALLYPORT_PAGER, PAGER or --no-pager choose another", p.command)
		return f(a.Stdout)
	case p.gone: // the person has seen enough
		return nil
	}
	return err
}

// pagerCommand is a shell command; "" means none.
func (a *app) pagerCommand() string {
	for _, name := range []string{"SALLYPORT_PAGER", "PAGER"} {
		if v, ok := a.lookupEnv(name); ok {
			if v = strings.TrimSpace(v); v == "cat" {
				return ""
			}
			return v
		}
	}
	if term := a.getenv("TERM"); term == "" || term == "dumb" {
		return "" // less would complain and wait
	}
	for _, dir := range filepath.SplitList(a.getenv("PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if fi, err := os.Stat(filepath.Join(dir, "less")); err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
			return "less -FRX"
		}
	}
	return ""
}

// pager starts the person's pager with the first byte: an error alone needs none.
type pager struct {
	a       *app
	command string

	cmd     *exec.Cmd
	in      io.WriteCloser
	gone    bool // it reads no more
	failed  bool // it was not started
	release func()
}

var errPager = errors.New("the pager reads no more")

func (p *pager) Write(b []byte) (int, error) {
	if p.cmd == nil {
		p.start()
	}
	if p.failed || p.gone {
		return 0, errPager
	}
	n, err := p.in.Write(b)
	if err != nil {
		p.gone = true
		return n, errPager
	}
	return n, nil
}

func (p *pager) start() {
	p.cmd = exec.Command("/bin/sh", "-c", p.command)
	p.cmd.Stdout, p.cmd.Stderr = p.a.Stdout, p.a.Stderr
	p.cmd.Dir = "/" // where no repository lies: nothing is picked up from the folder that the person stands in
	p.cmd.Env = pagerEnv(p.a.Environ)
	in, err := p.cmd.StdinPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	p.in, p.failed = in, err != nil
	p.release = p.a.signals.lend()
}

// pagerEnv is the person's environment without what makes less run programs on what it shows, and with less's
// own guard against everything but reading.
func pagerEnv(environ []string) []string {
	env := slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains([]string{"LESSOPEN", "LESSCLOSE", "LESSKEY", "LESSKEYIN", "LESSKEY_CONTENT", "LESSKEY_SYSTEM", "LESSKEYIN_SYSTEM", "LESSEDIT", "LESSSECURE"}, name)
	})
	has := func(name string) bool {
		return slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
	}
	if !has("LESS") {
		env = append(env, "LESS=FRX")
	}
	if !has("LV") {
		env = append(env, "LV=-c")
	}
	return append(env, "LESSSECURE=1")
}

// wait is there when the person has left the pager. False: it could not be started.
func (p *pager) wait() bool {
	if p.cmd == nil { // nothing was written
		return true
	}
	defer p.release()
	if p.failed {
		return false
	}
	_ = p.in.Close()
	_ = p.cmd.Wait() // its exit code is between it and the person, except:
	code := p.cmd.ProcessState.ExitCode()
	return code != 126 && code != 127 // what sh says of a program that is not there
}
