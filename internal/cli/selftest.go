package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/corpus"
	"sallyport.dev/sallyport/internal/screen"
	"sallyport.dev/sallyport/internal/selftest"
)

// hostileProgram is what attacks inside of the sandboxes of a selftest. It lies beside the other programs.
const hostileProgram = "sallyport-hostile"

// theProvider is the only kind there is.
const theProvider = "local"

// Selftest is the document of selftest --json.
type Selftest struct {
	Cases []selftest.Outcome `json:"cases"`
}

func (a *app) selftestVerb() *cobra.Command {
	var provider string
	var only []string
	var asJSON bool
	c := &cobra.Command{
		Use:   "selftest [--only CLASS[/NAME]]",
		Short: "Attack this machine's configuration, and show what held",
		Long: `Take every attack of the built-in corpus through the real main job, in a repository and state folder of
their own that are removed afterwards, and say for each whether it was held. It runs as you, with this
machine's ceiling and none of your configuration. What this machine has no use for is not-applicable, with
the reason. Ctrl-C ends it and what it runs.

Exit codes: 0 all that applies was held, 20 something was not, 40 nothing can be run here, 130 interrupted.`,
		Example: "  sallyport selftest\n  sallyport selftest --only links --only kernel/io-uring\n  sallyport selftest --json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if provider != theProvider {
				return &sallyport.Error{Op: "selftest", Code: sallyport.CodeUnsupported, Subject: "--provider", Message: fmt.Sprintf("there is no provider %.40q", provider), Hint: "the only one is " + theProvider}
			}
			cases, err := chosen(only)
			if err != nil {
				return err
			}
			return a.selftest(c.Context(), cases, asJSON)
		},
	}
	f := c.Flags()
	f.StringVar(&provider, "provider", theProvider, "the `PROVIDER` whose sandboxes are attacked")
	f.StringArrayVar(&only, "only", nil, "a `CLASS` or CLASS/NAME of attacks; repeat for more")
	f.BoolVar(&asJSON, "json", false, "print exactly one JSON document on stdout; everything else goes to stderr")
	return c
}

// chosen are the cases that --only names; all without it.
func chosen(only []string) ([]corpus.Case, error) {
	all, err := corpus.All()
	if err != nil || len(only) == 0 {
		return all, err
	}
	var some []corpus.Case
	for _, k := range all {
		if slices.Contains(only, k.Class) || slices.Contains(only, k.ID()) {
			some = append(some, k)
		}
	}
	for _, o := range only {
		if !slices.ContainsFunc(some, func(k corpus.Case) bool { return k.Class == o || k.ID() == o }) {
			return nil, invalid("selftest", "--only", fmt.Sprintf("there is no attack %.60q", o), "classes: "+strings.Join(corpus.Classes(), ", "))
		}
	}
	return some, nil
}

func (a *app) selftest(ctx context.Context, cases []corpus.Case, asJSON bool) error {
	if a.Programs == nil {
		return fmt.Errorf("this program does not know where it is")
	}
	self, libexec, err := a.Programs()
	if err != nil {
		return err
	}
	p := startProgress(a.Stderr, time.Now(), "")
	out := a.Stdout
	if asJSON {
		out = a.Stderr
	}
	all, err := selftest.Run(ctx, selftest.Config{
		Program: self, Libexec: libexec, Hostile: filepath.Join(libexec, hostileProgram), Cases: cases, Say: p.Stage,
		Each: func(o selftest.Outcome) { fmt.Fprintln(out, outcomeLine(o)) },
	})
	p.Close()
	if err != nil {
		return err
	}
	if asJSON {
		list(&all)
		a.writeJSON(Selftest{Cases: all})
	} else {
		a.showSelftest(all)
	}
	if slices.ContainsFunc(all, func(o selftest.Outcome) bool { return o.Status == selftest.NotHeld }) {
		return exit(ExitRejected)
	}
	return nil
}

func outcomeLine(o selftest.Outcome) string {
	return screen.Line(fmt.Sprintf("%-14s  %s: %s", o.Status, o.Class+"/"+o.Name, o.Detail))
}

// showSelftest says what held by class, and once more what did not: it may have scrolled away.
func (a *app) showSelftest(all []selftest.Outcome) {
	count := func(class string, s selftest.Status) (n int) {
		for _, o := range all {
			if (class == "" || o.Class == class) && o.Status == s {
				n++
			}
		}
		return n
	}
	line := func(name, class string) {
		held, not, na := count(class, selftest.Held), count(class, selftest.NotHeld), count(class, selftest.NotApplicable)
		if held+not+na > 0 {
			a.say("%-12s %4d %9d %15d", name, held, not, na)
		}
	}
	a.say("%-12s %4s %9s %15s", "", selftest.Held, selftest.NotHeld, selftest.NotApplicable)
	for _, class := range corpus.Classes() {
		line(class, class)
	}
	line("all", "")
	for _, o := range all {
		if o.Status == selftest.NotHeld {
			a.say("%s", outcomeLine(o))
		}
	}
}
