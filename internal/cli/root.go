package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sallyport.dev/sallyport/internal/screen"
)

// The groups of the root's help, in reading order.
const (
	groupRun     = "run"
	groupLook    = "look"
	groupDecide  = "decide"
	groupOperate = "operate"
)

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "sallyport",
		Short: "Run an untrusted coding agent; let only a checked result out",
		Long: `Sallyport runs an untrusted coding agent in a disposable sandbox, takes its result into quarantine,
inspects it, checks it again in a fresh sandbox, signs what was observed and publishes a branch or a pull request.

A is an attempt's id or a unique beginning of it. Where A may be left out it is the newest attempt of
this repository.`,
		Example: `  sallyport init
  sallyport run -m "fix #12; add a test" --agent claude-code
  sallyport diff
  sallyport approve 01m9k3v0`,
		SilenceErrors: true, SilenceUsage: true,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.Help()
			}
			return unknownVerb(c, args[0])
		},
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	root.SetIn(a.Stdin)
	root.SetFlagErrorFunc(a.flagError)
	root.AddGroup(&cobra.Group{ID: groupRun, Title: "Run:"}, &cobra.Group{ID: groupLook, Title: "Look:"},
		&cobra.Group{ID: groupDecide, Title: "Decide:"}, &cobra.Group{ID: groupOperate, Title: "Set up and operate:"})
	root.SetHelpCommandGroupID(groupOperate)
	for _, g := range []struct {
		id    string
		verbs []*cobra.Command
	}{
		{groupRun, []*cobra.Command{a.runVerb(), a.learnVerb(), a.retryVerb(), a.attachVerb(), a.waitVerb(), a.cancelVerb()}},
		{groupLook, []*cobra.Command{a.psVerb(), a.showVerb(), a.logsVerb(), a.diffVerb(), a.reportVerb(), a.shellVerb(), a.exportVerb(), a.checkVerb(), a.verifyVerb()}},
		{groupDecide, []*cobra.Command{a.approveVerb(), a.rejectVerb(), a.publishVerb()}},
		{groupOperate, []*cobra.Command{a.initVerb(), a.trustVerb(), a.egressVerb(), a.doctorVerb(), a.selftestVerb(), a.keysVerb(), a.publisherVerb(), a.reconcileVerb(), a.fsckVerb(), a.gcVerb(), a.schemaVerb(), a.versionVerb(), a.driveVerb()}},
	} {
		for _, v := range g.verbs {
			v.GroupID = g.id
			if v.Args != nil {
				v.Args = countArgs(v.Args)
			}
			root.AddCommand(v)
		}
	}
	return root
}

// countArgs gives cobra's complaint about the number of arguments our form.
func countArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			return invalid(c.Name(), "", err.Error(), "usage: "+c.UseLine()+"; for example:"+firstExample(c))
		}
		return nil
	}
}

func firstExample(c *cobra.Command) string {
	first, _, _ := strings.Cut(strings.TrimSpace(c.Example), "\n")
	return " " + first
}

func unknownVerb(root *cobra.Command, name string) error {
	hint := "sallyport help"
	best := 3
	for _, c := range root.Commands() {
		if d := edits(c.Name(), name); c.IsAvailableCommand() && d < min(best, len(name)) {
			hint, best = "did you mean `sallyport "+c.Name()+"`?", d
		}
	}
	return invalid("", fmt.Sprintf("%.40q", name), "unknown verb", hint)
}

// flagError names the flag that was probably meant.
func (a *app) flagError(c *cobra.Command, err error) error {
	if c == c.Root() {
		for _, arg := range a.Args { // the unknown verb is what to complain about, not its flags
			if !strings.HasPrefix(arg, "-") {
				return unknownVerb(c, arg)
			}
		}
	}
	hint := "sallyport help " + c.Name()
	if name, ok := strings.CutPrefix(err.Error(), "unknown flag: --"); ok {
		if near := nearestFlag(c.Flags(), name); near != "" {
			hint = "did you mean --" + near + "?"
		}
	}
	return invalid(c.Name(), "", err.Error(), hint)
}

// nearestFlag is a flag at most two edits away.
func nearestFlag(s *pflag.FlagSet, name string) (near string) {
	best := 3
	s.VisitAll(func(f *pflag.Flag) {
		if d := edits(f.Name, name); d < best && !f.Hidden {
			near, best = f.Name, d
		}
	})
	return near
}

// edits is the number of letters to insert, remove or replace.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			diagonal, row[j] = row[j], min(row[j]+1, row[j-1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

// with opens Mission Control for a verb and closes it afterwards.
func (a *app) with(f func(context.Context, Control, []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		control, err := a.open(c.Context())
		if err != nil {
			return err
		}
		defer control.Close()
		return f(c.Context(), control, args)
	}
}

// say writes one neutralised line to stdout.
func (a *app) say(format string, args ...any) {
	fmt.Fprintln(a.Stdout, screen.Line(fmt.Sprintf(format, args...)))
}

// tell writes one neutralised line to stderr.
func (a *app) tell(format string, args ...any) {
	fmt.Fprintln(a.Stderr, screen.Line(fmt.Sprintf(format, args...)))
}
