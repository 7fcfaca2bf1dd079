package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/screen"
)

// startFlags say how a new Attempt is shown.
type startFlags struct{ detach, json, quiet bool }

func (f *startFlags) register(c *cobra.Command) {
	s := c.Flags()
	s.BoolVarP(&f.detach, "detach", "d", false, "do not follow: print the attempt's id and return")
	s.BoolVar(&f.json, "json", false, "print exactly one JSON document on stdout; everything else goes to stderr")
	s.BoolVarP(&f.quiet, "quiet", "q", false, "show only the result")
	c.Annotations = map[string]string{jsonReport: ""}
}

func (a *app) runVerb() *cobra.Command {
	var order orderFlags
	var show startFlags
	c := &cobra.Command{
		Use:   "run [flags] [-m TASK] [--agent PRESET | -- COMMAND...]",
		Short: "Run an agent in a sandbox and judge what it made",
		Long: `Run an agent, or any command, in a disposable sandbox on a copy of this repository. What it made is
quarantined, inspected, checked again in a fresh sandbox and signed. An accepted change becomes the
branch sallyport/NAME. Your checkout, index and HEAD are not touched.

Ctrl-C cancels and keeps what was collected; a second Ctrl-C does not wait. With -d, or when the
terminal is lost, the attempt goes on by itself.

Exit codes: 0 accepted (and published where asked), 10 awaiting approval, 20 rejected, 30 failed,
40 refused to start, 130/143 cancelled, 2 invalid request (also: the agent's program is not there, or lies
where a sandbox sees nothing; the message says where, and the tools: line that shows it), 1 internal error.`,
		Example: `  sallyport run -m "fix #12; add a test" --agent claude-code
  sallyport run -m "update the docs" --allow 'docs/**' -- ./my-agent --fast
  sallyport run -f workorder.yaml --attempts 3 --json
  sallyport run -it -- bash`,
		RunE: func(c *cobra.Command, args []string) error {
			command, err := commandOf(c, args)
			if err != nil {
				return err
			}
			flags, err := order.order(c.Flags(), command)
			if err != nil {
				return err
			}
			o := followOptions{began: time.Now(), terminal: flags.Terminal, quiet: show.quiet, json: show.json, owner: true}
			return a.run(c.Context(), order.file, flags, o, show.detach)
		},
	}
	order.register(c.Flags())
	show.register(c)
	c.Flags().SortFlags = false
	return c
}

// run submits what file and flags say, and follows it.
func (a *app) run(ctx context.Context, file string, flags sallyport.WorkOrder, o followOptions, detach bool) error {
	r := Request{Dir: a.Dir, Flags: flags, Environ: a.Environ, Grant: a.grant()}
	if file != "" {
		wo, places, err := a.workOrderFile(file)
		if err != nil {
			return err
		}
		r.File, r.Places = wo, places
		o.terminal = o.terminal || wo.Terminal
	}
	if err := a.checkTerminal(o, detach); err != nil {
		return err
	}
	return a.begin(ctx, o, detach, "compiling the work order", func(ctx context.Context, c Control, announce func(string)) (sallyport.AttemptID, error) {
		r.Announce = announce
		return c.Submit(ctx, r)
	})
}

// commandOf is what stands after "--"; nil: nothing.
func commandOf(c *cobra.Command, args []string) ([]string, error) {
	switch dash := c.ArgsLenAtDash(); {
	case dash == 0:
		return append([]string{}, args...), nil
	case len(args) > 0:
		return nil, invalid(c.Name(), args[0], "unexpected argument", fmt.Sprintf("the task goes behind -m, a command behind --: sallyport %s -m TASK -- COMMAND", c.Name()))
	}
	return nil, nil
}

func (a *app) checkTerminal(o followOptions, detach bool) error {
	switch {
	case !o.terminal || detach:
		return nil
	case o.json:
		return invalid("run", "--json", "cannot go together with -it: stdout would be the agent's screen", "use -d -it --json and attach later")
	case a.Console == nil:
		return invalid("run", "-it", "expected a terminal on stdin and stdout", "leave out -it: the agent's output is shown as it comes")
	}
	return nil
}

// begin makes an Attempt, starts its driver and follows it. Its first words come before anything is opened:
// a large repository takes a while to look at.
func (a *app) begin(ctx context.Context, o followOptions, detach bool, words string,
	submit func(context.Context, Control, func(string)) (sallyport.AttemptID, error)) error {
	w := a.Stderr
	if o.quiet {
		w = io.Discard
	}
	p := startProgress(w, o.began, "")
	p.Stage(words)
	c, id, err := a.submit(ctx, p, submit)
	p.Close()
	if c != nil {
		defer c.Close()
	}
	if err != nil {
		return err
	}
	start := func(ctx context.Context) error { return a.startDriver(ctx, c, id) }
	if detach {
		if err := start(ctx); err != nil {
			return err
		}
		return a.detached(ctx, c, id, o)
	}
	return a.follow(ctx, c, id, o, start)
}

func (a *app) submit(ctx context.Context, p *progress, submit func(context.Context, Control, func(string)) (sallyport.AttemptID, error)) (Control, sallyport.AttemptID, error) {
	c, err := a.open(ctx)
	if err != nil {
		return nil, "", err
	}
	id, err := submit(ctx, c, p.Notice)
	return c, id, err
}

// startDriver starts the driver unless the user has changed their mind meanwhile. An Attempt that is queued
// and may never be driven would block its work order, so it is cancelled; a driver that runs after all obeys.
func (a *app) startDriver(ctx context.Context, c Control, id sallyport.AttemptID) error {
	err := ctx.Err()
	if err == nil {
		err = c.StartDriver(ctx, id)
	}
	if err == nil {
		return nil
	}
	if e := c.Cancel(context.WithoutCancel(ctx), string(id), a.Who, "its driver was not started"); e != nil {
		a.tell("sallyport: %v", e)
	}
	return err
}

func (a *app) detached(ctx context.Context, c Control, id sallyport.AttemptID, o followOptions) error {
	short := screen.Short(id)
	fmt.Fprintf(a.Stderr, "running in the background: `sallyport attach %s` follows it, `sallyport wait %s` waits, `sallyport cancel %s` ends it\n", short, short, short)
	if !o.json {
		fmt.Fprintln(a.Stdout, screen.Line(string(id)))
		return nil
	}
	at, err := c.Attempt(ctx, string(id))
	if err != nil {
		return err
	}
	a.writeReport(at.Report)
	return nil
}

func (a *app) retryVerb() *cobra.Command {
	var message string
	var show startFlags
	c := &cobra.Command{
		Use:   "retry A [-m MESSAGE]",
		Short: "Try again, with the findings of an attempt",
		Long: `Make a new attempt of the same work order in a fresh sandbox. It starts from what attempt A made and
is told the findings and the failed checks, and your message if you give one. Exit codes as for run.`,
		Example: "  sallyport retry 01m9 -m \"keep the public API as it is\"",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			// As with attach: one that was started with -it gets the terminal, where there is one.
			o := followOptions{began: time.Now(), terminal: a.Console != nil && !show.json, quiet: show.quiet, json: show.json, owner: true}
			return a.begin(c.Context(), o, show.detach, "preparing another attempt", func(ctx context.Context, c Control, _ func(string)) (sallyport.AttemptID, error) {
				at, err := c.Attempt(ctx, args[0])
				if err != nil {
					return "", err
				}
				return c.Retry(ctx, string(at.Report.Attempt), message)
			})
		},
	}
	c.Flags().StringVarP(&message, "message", "m", "", "what to tell the agent beside the findings")
	show.register(c)
	return c
}

// driveVerb is what a driver process runs. It is started by `run`; its output is the driver's log.
func (a *app) driveVerb() *cobra.Command {
	return &cobra.Command{
		Use: "drive ATTEMPT", Hidden: true, Args: cobra.ExactArgs(1),
		Short:   "Drive an attempt (started by run; no use by hand)",
		Example: "  sallyport drive att_01m9k3v0",
		RunE: a.with(func(ctx context.Context, c Control, args []string) error {
			ctx, stop := context.WithCancelCause(ctx)
			defer stop(nil)
			defer a.signals.take(func(s os.Signal) { // a lost terminal is no reason to end
				if code := signalCode(s); code != ExitHangup {
					stop(&exitError{code: code})
				}
			})()
			return c.Drive(ctx, sallyport.AttemptID(args[0]))
		}),
	}
}
