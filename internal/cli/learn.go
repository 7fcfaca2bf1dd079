package cli

import (
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/egress"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/internal/screen"
)

func (a *app) learnVerb() *cobra.Command {
	var order orderFlags
	c := &cobra.Command{
		Use:   "learn [flags] [-m TASK] [--agent PRESET | -- COMMAND...]",
		Short: "Run an agent and propose the egress it would need",
		Long: `Run as run does, publish nothing, and print the smallest egress: block that allows what was refused. What may
be reached already is let through; all else is refused, and an agent that gives up at its first refusal
needs to learn more than once. A line lets the agent send there whatever it can read: look at each.

Exit codes: 0 where the agent ran, whatever became of it; else those of run.`,
		Example: "  sallyport learn -- npm ci\n  sallyport learn --agent claude-code -m \"update the dependencies\"",
		RunE: func(c *cobra.Command, args []string) error {
			command, err := commandOf(c, args)
			if err != nil {
				return err
			}
			flags, err := order.order(c.Flags(), command)
			if err != nil {
				return err
			}
			if flags.Publish != nil {
				return invalid("learn", "--publish, --approve", "learning publishes nothing", "")
			}
			if flags.Terminal {
				return invalid("learn", "-it", "expected no terminal: stdout is for the block", "sallyport run -it shows its refusals too")
			}
			flags.Learn, flags.Publish = true, &sallyport.Publish{To: "none"}
			return a.run(c.Context(), order.file, flags, followOptions{began: time.Now(), owner: true, end: a.learned}, false)
		},
	}
	order.register(c.Flags())
	_ = c.Flags().MarkHidden("publish")
	c.Flags().SortFlags = false
	return c
}

// learned prints the block on stdout, and the rest for the person.
func (a *app) learned(at journal.Attempt) error {
	r := at.Report
	a.showResult(r, true)
	if !r.Agent.Ran() {
		return exit(ExitCode(at))
	}
	rules := proposal(r.Refusals)
	if len(rules) > 0 {
		a.say("egress:")
	}
	for _, rule := range rules {
		a.say("  - %s", egress.Line(rule))
	}
	switch {
	case len(r.Refusals) == 0:
		a.tell("nothing was refused")
	case len(r.Refusals) >= lifecycle.MaxRefusals:
		a.tell("only the first %d different refusals were kept", lifecycle.MaxRefusals)
	}
	for _, f := range r.Refusals {
		switch {
		case len(proposal([]sallyport.Refusal{f})) > 0:
		case f.Stage != "" && f.Line != "":
			a.tell("%s was refused %s: %s; if it is meant, under egress: of that command: %s", f.Stage, screen.Asked(f), f.Message, f.Line)
		case f.Line == "":
			a.tell("no rule is proposed for %s: %s", screen.Asked(f), f.Message)
		default: // an address that is not public: a person looks first
			a.tell("no rule is proposed for %s: %s; if it is meant: %s", screen.Asked(f), f.Message, f.Line)
		}
	}
	return nil
}

// proposal is the smallest list of rules that allows what was refused.
func proposal(refused []sallyport.Refusal) []egress.Rule {
	var asked []egress.Refusal
	for _, f := range refused {
		if name, err := egress.Host(f.Host); err == nil && f.Line != "" && f.Stage == "" {
			q := egress.Request{Name: name, Port: f.Port, Protocol: f.Protocol, Method: f.Method, Path: f.Path}
			if strings.Contains(f.Line, "protocol: git") && f.Method == http.MethodGet {
				q.Query = "service=git-upload-pack" // a record holds no query, and its line knows what it was
			}
			asked = append(asked, egress.Refusal{Reason: egress.Reason(f.Reason), Request: q})
		}
	}
	return egress.Learn(asked)
}

func (a *app) egressVerb() *cobra.Command {
	var asJSON bool
	presets := &cobra.Command{
		Use:     "presets",
		Short:   "List the presets of egress: and what each allows",
		Long:    "List the words that egress: knows, with the rules that each stands for.",
		Example: "  sallyport egress presets\n  sallyport egress presets --json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				a.writeJSON(egress.Presets())
				return nil
			}
			for _, p := range egress.Presets() {
				a.showPreset(p)
			}
			return nil
		},
	}
	presets.Flags().BoolVar(&asJSON, "json", false, "print exactly one JSON document on stdout")
	c := &cobra.Command{
		Use:     "egress",
		Short:   "What an agent may reach: the presets",
		Long:    "Nothing is reached that no rule lists. Rules stand under egress: in sallyport.yaml (granted by trust), in your\nconfig.yaml, or behind run --egress.",
		Example: "  sallyport egress presets",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(presets)
	return c
}

func (a *app) showPreset(p egress.PresetList) {
	a.say("%-12s %s", p.Name, p.About)
	for _, r := range p.Rules {
		a.say("  - %s", egress.Line(r))
	}
}
