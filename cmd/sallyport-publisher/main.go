// Command sallyport-publisher publishes what a signed acceptance names: see internal/publisher.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/publisher"
)

const usage = `sallyport-publisher publishes accepted changes, under an identity of its own.

  sallyport-publisher serve      answers requests on its Unix socket until it is ended
  sallyport-publisher once       answers the one request on its standard input, a socket
  sallyport-publisher check [R]  tests each target, or repository R: reaches it, has what it needs and not more
  sallyport-publisher keys       prints the public keys that its receipts are verified with
  sallyport-publisher reconcile  revokes what a publication left behind, and checks the ledger

  --config FILE   its configuration (default: ~/.config/sallyport/publisher.yaml)

docs/guide-publishing.md sets it up for GitHub, GitLab, Gitea and plain git.
`

func main() {
	// Credentials pass through here: no core file, and no look from a process of the same user.
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sallyport-publisher: "+err.Error())
		if hint := sallyport.HintOf(err); hint != "" {
			fmt.Fprintln(os.Stderr, "  "+hint)
		}
		code := 1
		if sallyport.CodeOf(err) == sallyport.CodeInvalid || errors.Is(err, flag.ErrHelp) {
			code = 2
		}
		os.Exit(code)
	}
}

func run(args []string, out io.Writer) error {
	verbs := map[string]func(context.Context, *publisher.Publisher, publisher.Config, []string, io.Writer) error{
		"serve": serve, "once": once, "check": check, "keys": keys, "reconcile": reconcile}
	if len(args) == 0 || slices.Contains([]string{"help", "-h", "--help"}, args[0]) {
		fmt.Fprint(out, usage)
		return nil
	}
	verb, ok := verbs[args[0]]
	if !ok {
		return &sallyport.Error{Op: "read arguments", Code: sallyport.CodeInvalid, Subject: args[0], Message: "no such verb", Hint: "`sallyport-publisher help` lists them"}
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	config := flags.String("config", "", "")
	if err := flags.Parse(args[1:]); err != nil {
		return &sallyport.Error{Op: "read arguments", Code: sallyport.CodeInvalid, Message: err.Error(), Hint: "`sallyport-publisher help` lists flags"}
	}
	if *config == "" {
		dir, err := os.UserConfigDir()
		if err != nil {
			return err
		}
		*config = filepath.Join(dir, "sallyport", "publisher.yaml")
	}
	c, err := publisher.ReadConfig(*config)
	if err != nil {
		return err
	}
	p, err := publisher.Open(c, publisher.Options{Driver: driver})
	if err != nil {
		return err
	}
	defer p.Close()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	return verb(ctx, p, c, flags.Args(), out)
}

func serve(ctx context.Context, p *publisher.Publisher, c publisher.Config, _ []string, out io.Writer) error {
	ln, err := publisher.Listen(c.Listen)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "listening on "+c.Listen)
	return p.Serve(ctx, ln)
}

// once outlives whoever asked: what it has begun it ends.
func once(ctx context.Context, p *publisher.Publisher, _ publisher.Config, _ []string, _ io.Writer) error {
	conn, err := net.FileConn(os.Stdin)
	if err != nil {
		return &sallyport.Error{Op: "once", Code: sallyport.CodeInvalid, Message: "expected a socket as standard input", Err: err}
	}
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return &sallyport.Error{Op: "once", Code: sallyport.CodeInvalid, Message: "expected a Unix socket as standard input"}
	}
	os.Stdin.Close()
	p.Answer(context.WithoutCancel(ctx), c)
	return nil
}

func keys(_ context.Context, p *publisher.Publisher, _ publisher.Config, _ []string, out io.Writer) error {
	b, err := p.Keys()
	if err == nil {
		_, err = out.Write(b)
	}
	return err
}

func check(ctx context.Context, p *publisher.Publisher, c publisher.Config, args []string, out io.Writer) error {
	bad := 0
	for _, t := range c.Targets {
		if len(args) > 0 && !slices.Contains(args, t.Repository) {
			continue
		}
		r, err := p.Check(ctx, t)
		fmt.Fprintln(out, t.Repository+"  "+t.Kind)
		for _, line := range r.Lines() {
			fmt.Fprintln(out, "  "+line)
		}
		if err != nil {
			fmt.Fprintln(out, "  not usable: "+strings.TrimSpace(err.Error()))
			if hint := sallyport.HintOf(err); hint != "" {
				fmt.Fprintln(out, "    "+hint)
			}
		}
		if err != nil || r.Blocked() {
			bad++
		}
	}
	if bad > 0 {
		return &sallyport.Error{Op: "check", Code: sallyport.CodeDenied, Message: fmt.Sprintf("%d of the targets are not ready", bad)}
	}
	return nil
}

func reconcile(ctx context.Context, p *publisher.Publisher, _ publisher.Config, _ []string, out io.Writer) error {
	lines, err := p.Reconcile(ctx)
	for _, l := range lines {
		fmt.Fprintln(out, l)
	}
	return err
}
