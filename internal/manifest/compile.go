package manifest

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"sallyport.dev/sallyport"
)

// Input is everything Compile needs to know. It reads nothing else: no file, no clock, no environment.
type Input struct {
	WorkOrder sallyport.WorkOrder // file and flags, merged (Merge)
	Places    Places              // of WorkOrder (ParseWorkOrderPlaces, MergePlaces); may be nil

	Repository *Repository      // nil: the repository has no sallyport.yaml
	Source     sallyport.Source // where it came from; Kind "none" exactly when Repository is nil
	Ceiling    *Operator        // the host's policy.yaml; nil: none, the invoking user is the operator
	User       *Operator        // the invoking user's config.yaml; nil: none
	Granted    sallyport.Digest // the AsksDigest that the operator granted for this repository; "": none
	// Rules are the inspection's rules by name; a rule that is not here does not exist.
	Rules map[string]Rule

	Path      string // absolute path of the work tree
	Subfolder string // where the user stood, relative to Path; "": the root
	Base      Base
	Host      Host
	Toolchain Toolchain
	Agent     sallyport.Agent // the preset that AgentName names; zero for a bare command
	Provider  string
	Prices    string // the operator's price file, read and checked; "": none
}

// Base is the resolved start.
type Base struct {
	Ref       string             // full name; "": a detached commit
	Commit    sallyport.ObjectID //
	Tree      sallyport.ObjectID // of Commit
	StartTree sallyport.ObjectID // what the agent starts from: Tree, or the dirty tree
	Protected bool               // Commit is the protected ref's or an ancestor of it
}

// Host is what Compile needs of this machine.
type Host struct {
	Memory int64 // bytes in total; 0: not known
	CPUs   int   // 0: not known
	Home   string
}

// Toolchain is what the resolver of programs, caches and dependencies found.
type Toolchain struct {
	Mounts []sallyport.Mount
	Path   []string
	Env    map[string]string // offline switches and cache paths
}

// CommandAgent is the name under which a bare command runs, in Manifest.Agent and in an operator's
// `agents:`.
const CommandAgent = "command"

// AgentName is the preset to resolve before Compile: the WorkOrder's, else the user's default, else the
// ceiling file's. "" means a bare command. CodeInvalid when nothing says what to run.
func AgentName(wo sallyport.WorkOrder, user, ceiling *Operator) (string, error) {
	switch {
	case wo.Agent != "" && len(wo.Command) > 0:
		return "", invalid("agent", "agent and command are both given; expected exactly one of them", "")
	case len(wo.Command) > 0:
		return "", nil
	case wo.Agent != "":
		return wo.Agent, nil
	case user != nil && user.Agent != "":
		return user.Agent, nil
	case ceiling != nil && ceiling.Agent != "":
		return ceiling.Agent, nil
	}
	return "", invalid("agent", "nothing says what to run; expected an agent or a command", "add --agent claude-code, or -- and a command")
}

// compiler carries one Compile.
type compiler struct {
	in      Input
	notices []string
}

// Compile resolves a WorkOrder under Policy into a Manifest with no nil slice and no nil map. The WorkOrder
// can only narrow. Where no ceiling file forbids it, a flag of the invoking user may go beyond the
// repository's proposal (said in Notices), never beyond the ceiling.
//
// Errors: CodeInvalid for a malformed request, CodeDenied for a ceiling, a bound or a missing grant,
// CodeUnsupported for what a later version brings; the subject is the line or the flag.
func Compile(in Input) (sallyport.Manifest, error) {
	c := &compiler{in: in}
	steps := []func() error{c.checkInput, c.checkWorkOrder, c.checkGrants}
	for _, step := range steps {
		if err := step(); err != nil {
			return sallyport.Manifest{}, err
		}
	}
	m, err := c.manifest()
	if err != nil {
		return sallyport.Manifest{}, err
	}
	c.remarks(&m)
	m.Notices = append([]string{}, c.notices...)
	return m, nil
}

func (c *compiler) manifest() (m sallyport.Manifest, err error) {
	in, wo := c.in, c.in.WorkOrder
	m = sallyport.Manifest{Version: 1, Name: Name(wo), Task: wo.Task, Repository: in.Path, Subfolder: in.Subfolder,
		BaseRef: in.Base.Ref, Base: in.Base.Commit, BaseTree: in.Base.Tree, StartTree: in.Base.StartTree,
		Policy: in.Source, Home: in.Host.Home, Path: append([]string{}, in.Toolchain.Path...), Mounts: mounts(in.Toolchain.Mounts),
		Attempts: max(wo.Attempts, 1), Terminal: wo.Terminal, Learn: wo.Learn, Provider: in.Provider,
		Env: c.env(), Checks: c.checks(), Require: c.require(), History: c.history(), AtBest: sallyport.DecisionAccepted}
	m.WorkOrder = WorkOrderID(in.Path, m.Name)
	if m.Agent, err = c.agent(); err != nil {
		return m, err
	}
	if m.Scope, err = c.scope(); err != nil {
		return m, err
	}
	if m.Limits, err = c.limits(); err != nil {
		return m, err
	}
	if m.Spend, err = c.spend(); err != nil {
		return m, err
	}
	if m.Severities, err = c.severities(); err != nil {
		return m, err
	}
	if m.Copies, err = c.copies(); err != nil {
		return m, err
	}
	if m.Egress, err = c.egress(); err != nil {
		return m, err
	}
	if m.Setup, err = c.setup(); err != nil {
		return m, err
	}
	m.Resolve = c.resolve()
	if m.Credentials, err = c.credentials(m.Egress, m.Env, m.Home); err != nil {
		return m, err
	}
	m.Parallel = c.parallel(m.Limits.Memory)
	m.Publish, err = c.publish()
	return m, err
}

// checkInput guards against a caller's mistake: the Manifest would otherwise freeze it.
func (c *compiler) checkInput() error {
	in := c.in
	switch {
	case !path.IsAbs(in.Path) || path.Clean(in.Path) != in.Path:
		return invalid("repository", "expected the absolute path of a work tree", "")
	case in.Subfolder != "" && relativeRule(in.Subfolder) != "":
		return invalid("subfolder", "expected "+relativeRule(in.Subfolder), "")
	case !path.IsAbs(in.Host.Home):
		return invalid("home", "expected an absolute path", "")
	case in.Provider == "":
		return invalid("provider", "expected a provider's name", "")
	case (in.Repository == nil) != (in.Source.Kind == "none"):
		return invalid("policy", `expected source "none" exactly where there is no policy file`, "")
	}
	for field, id := range map[string]sallyport.ObjectID{"base": in.Base.Commit, "base tree": in.Base.Tree, "start tree": in.Base.StartTree} {
		if id.Check() != nil {
			return invalid(field, "expected 40 or 64 lower-case hexadecimal characters", "")
		}
	}
	for _, m := range in.Toolchain.Mounts {
		if !path.IsAbs(m.Path) || path.Clean(m.Path) != m.Path || (m.Mode != "ro" && m.Mode != "cow") {
			return invalid("mount "+quoted(m.Path), `expected a clean absolute path with mode "ro" or "cow"`, "")
		}
	}
	return nil
}

// checkWorkOrder applies the reader's rules to what came from flags.
func (c *compiler) checkWorkOrder() error {
	wo := c.in.WorkOrder
	for _, r := range []struct{ field, value, want string }{
		{"name", wo.Name, optional(wo.Name, nameRule)},
		{"task", wo.Task, optional(wo.Task, textRule)},
		{"base", wo.Base, optional(wo.Base, revisionRule)},
		{"agent", wo.Agent, optional(wo.Agent, checkNameRule)},
		{"history", wo.History, optional(wo.History, historyRule)},
	} {
		if r.want != "" {
			return c.wrong(r.field, r.value, r.want)
		}
	}
	if wo.Attempts < 0 || wo.Attempts > maxAttempts {
		return c.wrong("attempts", fmt.Sprint(wo.Attempts), (*attempts)(nil).want())
	}
	for i, a := range wo.Command {
		if want := argumentRule(a); want != "" || (i == 0 && a == "") {
			return c.wrong("command", a, either(want, "a program and its arguments"))
		}
	}
	for _, l := range wo.Require {
		if l != "all" && layerRule(l) != "" {
			return c.wrong("require", l, "all or "+layerRule(l))
		}
	}
	return c.checkMaps()
}

func (c *compiler) checkMaps() error {
	wo := c.in.WorkOrder
	for _, name := range slices.Sorted(maps.Keys(wo.Env)) {
		if want := either(envNameRule(name), argumentRule(wo.Env[name])); want != "" {
			// The value may be a secret typed on the command line: only the name is shown.
			return c.wrong("env."+clip(name), name, want)
		}
	}
	if wo.Scope != nil {
		allow := []string{}
		if wo.Scope.Allow != nil {
			allow = *wo.Scope.Allow
		}
		for _, g := range allow {
			if want := globRule(g); want != "" {
				return c.wrong("scope.allow", g, want)
			}
		}
		for _, g := range wo.Scope.Deny {
			if want := globRule(g); want != "" {
				return c.wrong("scope.deny", g, want)
			}
		}
	}
	if p := wo.Publish; p != nil {
		switch {
		case p.To != "" && !slices.Contains(publishWords, p.To):
			return c.wrong("publish.to", p.To, (*publishTo)(nil).want())
		case p.Approve != "" && !slices.Contains(approveWords, p.Approve):
			return c.wrong("publish.approve", p.Approve, (*approve)(nil).want())
		}
	}
	return nil
}

func optional(s string, rule func(string) string) string {
	if s == "" {
		return ""
	}
	return rule(s)
}

func (c *compiler) wrong(field, value, want string) error {
	return invalid(c.in.Places.at(field), fmt.Sprintf("expected %s, found %s", want, quoted(value)), "")
}

func (c *compiler) note(format string, args ...any) {
	c.notices = append(c.notices, fmt.Sprintf(format, args...))
}

func denied(subject, message, hint string) error {
	return &sallyport.Error{Op: "compile", Code: sallyport.CodeDenied, Subject: subject, Message: message, Hint: hint}
}

// mayGrant reports whether the value of field was typed by the invoking user and that user is the operator.
func (c *compiler) mayGrant(field string) bool {
	return c.in.Places[field].Flag && c.forbidden() == ""
}

// forbidden is the place of the rule that forbids grants; "" if there is none.
func (c *compiler) forbidden() string {
	for _, op := range []*Operator{c.in.Ceiling, c.in.User} {
		if op != nil && op.ForbidGrants {
			return op.Places.at("grants")
		}
	}
	return ""
}

func (c *compiler) grantHint() string {
	if where := c.forbidden(); where != "" {
		return "the policy at " + where + " forbids grants: ask for less"
	}
	return "ask for less, or give it as a flag: what you type yourself you grant"
}

func (c *compiler) agent() (sallyport.Agent, error) {
	name, err := AgentName(c.in.WorkOrder, c.in.User, c.in.Ceiling)
	if err != nil {
		return sallyport.Agent{}, err
	}
	a := c.in.Agent
	asked := "agent"
	if name == "" {
		asked = "command"
		a = sallyport.Agent{Name: CommandAgent, Command: c.in.WorkOrder.Command}
	} else if a.Name != name || len(a.Command) == 0 {
		return a, invalid(c.in.Places.at("agent"), fmt.Sprintf("expected the agent %q resolved, found %q", name, a.Name), "")
	}
	if name != "" && c.in.WorkOrder.Task == "" && !c.in.WorkOrder.Terminal {
		return a, invalid(c.in.Places.at("task"), "expected a task for the agent", "add -m and the task, or -it to talk to the agent")
	}
	for _, op := range []*Operator{c.in.Ceiling, c.in.User} {
		if op != nil && op.Agents != nil && !slices.Contains(*op.Agents, a.Name) {
			return a, denied(c.in.Places.at(asked), fmt.Sprintf("%q is not among the agents allowed at %s (%s)",
				a.Name, op.Places.at("agents"), either(listed(*op.Agents), "none")), "choose an allowed agent, or ask the operator")
		}
	}
	return cloneAgent(a), nil
}

func cloneAgent(a sallyport.Agent) sallyport.Agent {
	a.Command = append([]string{}, a.Command...)
	env := map[string]string{}
	maps.Copy(env, a.Env)
	a.Env = env
	if a.Endpoint != nil {
		e := *a.Endpoint
		e.Paths = append([]string{}, e.Paths...)
		a.Endpoint = &e
	}
	return a
}

func mounts(in []sallyport.Mount) []sallyport.Mount {
	out := make([]sallyport.Mount, len(in))
	for i, m := range in {
		m.Hide = append([]string{}, m.Hide...)
		out[i] = m
	}
	return out
}

// env lays the sources over each other: the toolchain's switches, the repository's (granted), the
// WorkOrder's.
func (c *compiler) env() map[string]string {
	out := map[string]string{}
	maps.Copy(out, c.in.Toolchain.Env)
	if c.in.Repository != nil {
		maps.Copy(out, c.in.Repository.Env)
	}
	maps.Copy(out, c.in.WorkOrder.Env)
	return out
}

func (c *compiler) checks() []sallyport.Check {
	if c.in.Repository == nil {
		return []sallyport.Check{}
	}
	out := make([]sallyport.Check, len(c.in.Repository.Checks))
	for i, k := range c.in.Repository.Checks {
		k.When, k.Tests = append([]string{}, k.When...), append([]string{}, k.Tests...)
		if k.Report != nil {
			report := *k.Report
			k.Report = &report
		}
		out[i] = k
	}
	return out
}

// require adds up: nobody can take a layer away.
func (c *compiler) require() []sallyport.Layer {
	asked := [][]string{c.in.WorkOrder.Require}
	if c.in.Repository != nil {
		asked = append(asked, c.in.Repository.Require)
	}
	for _, op := range []*Operator{c.in.Ceiling, c.in.User} {
		if op != nil {
			asked = append(asked, op.Require)
		}
	}
	all := union(nil, asked...)
	if slices.Contains(all, "all") {
		return sallyport.Layers()
	}
	out := []sallyport.Layer{}
	for _, l := range sallyport.Layers() {
		if slices.Contains(sallyport.RequiredLayers(), l) || slices.Contains(all, string(l)) {
			out = append(out, l)
		}
	}
	return out
}

// history is the shorter of what the WorkOrder and the repository say.
func (c *compiler) history() string {
	wo := either(c.in.WorkOrder.History, "full")
	if c.in.Repository == nil {
		return wo
	}
	rep := either(c.in.Repository.History, "full")
	if shorter(rep, wo) {
		return rep
	}
	return wo
}

func shorter(a, b string) bool {
	if a == "full" || b == "full" {
		return a != "full" && b == "full"
	}
	if len(a) != len(b) { // decimal numbers without leading zeros
		return len(a) < len(b)
	}
	return a < b
}

// remarks are the facts that a person should see before the run, and the ceiling on its decision.
func (c *compiler) remarks(m *sallyport.Manifest) {
	var first []string
	say := func(s string) { first = append(first, s) }
	switch c.in.Source.Kind {
	case "none":
		say("no sallyport.yaml: all paths but CI and policy files in scope, default limits; `sallyport init` writes one")
	case "worktree":
		say("policy: sallyport.yaml of your working tree, uncommitted (source: worktree)")
	}
	if len(m.Checks) == 0 {
		m.AtBest = sallyport.DecisionAwaitingApproval
		say("no check is defined: the decision is at best awaiting approval")
	}
	if !c.in.Base.Protected {
		m.AtBest = sallyport.DecisionAwaitingApproval
		say("the base is neither the protected ref nor an ancestor of it: the decision is at best awaiting approval")
	}
	if c.in.Base.StartTree != c.in.Base.Tree {
		say("the agent starts from your working tree, not from the base")
	}
	if !deniesPolicy(m.Scope.Deny) {
		say("scope.deny does not cover sallyport.yaml: the change may propose another policy")
	}
	c.notices = append(first, c.notices...)
}

func deniesPolicy(deny []string) bool {
	return slices.ContainsFunc(deny, func(g string) bool { return covers(g, "sallyport.yaml") })
}

func (c *compiler) checkGrants() error {
	rep := c.in.Repository
	if rep == nil {
		return nil
	}
	asks := Asks(*rep)
	if len(asks) == 0 {
		return nil
	}
	first := rep.Places.at(asks[0].field)
	if where := c.forbidden(); where != "" {
		return denied(first, fmt.Sprintf("the repository asks for %s, and the policy at %s forbids grants", summary(asks), where), "ask the operator")
	}
	if want := AsksDigest(*rep); c.in.Granted != want {
		return denied(first, fmt.Sprintf("the repository asks for %s, which nobody has granted", summary(asks)), "look at it and grant it: sallyport trust")
	}
	return nil
}

func summary(asks []Ask) string {
	what := make([]string, 0, 3)
	for _, a := range asks[:min(3, len(asks))] {
		what = append(what, a.What)
	}
	if len(asks) > 3 {
		what = append(what, fmt.Sprintf("%d more", len(asks)-3))
	}
	return strings.Join(what, ", ")
}
