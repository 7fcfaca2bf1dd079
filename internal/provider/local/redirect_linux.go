package local

import (
	"context"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/runner"
)

// redirectPatience is many times what the trial takes: the kernel may have to load modules for it.
const redirectPatience = 10 * time.Second

// Redirects implements provider.Redirector: the runner sets the redirect up in namespaces of its own, which end with it.
func (p *Provider) Redirects(ctx context.Context) error {
	r := &p.redirect
	r.Lock()
	defer r.Unlock()
	if !r.tried {
		r.err = p.tryRedirect(ctx)
		r.tried = ctx.Err() == nil
	}
	return r.err
}

func (p *Provider) tryRedirect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, redirectPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.cfg.Runner, runner.Redirect)
	cmd.Env, cmd.Dir = []string{"GOMAXPROCS=1"}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL,
		UidMappings: []syscall.SysProcIDMap{{HostID: p.ids.uid, Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: p.ids.gid, Size: 1}}}
	out, err := cmd.Output()
	if err == nil {
		return nil
	}
	why := strings.TrimSpace(string(out[:min(len(out), 300)]))
	if why == "" {
		why = err.Error()
	}
	return &sallyport.Error{Op: "redirect", Code: sallyport.CodeUnsupported, Subject: "nf_tables", Message: "this kernel does not redirect inside a user namespace (" + why + ")",
		Hint: "load the modules nf_tables, nft_redir and nft_ct; without them a proxy serves", Err: err}
}
