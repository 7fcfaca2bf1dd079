package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/pflag"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/manifest"
	"sallyport.dev/sallyport/internal/pattern"
)

// orderFlags are the flags of `run` that say what is asked. Values that also occur in workorder.yaml are text
// here and are read by the file's own reader, so that a flag and a line of the file mean the same.
type orderFlags struct {
	message, agent, file, name, base   string
	attempts, time, memory, pids, disk string
	output, cpus, history, spend       string
	publish, approve                   string
	allow, deny, require, copies       []string
	egress, credentials                []string
	dirty, stdin, tty                  bool
}

func (f *orderFlags) register(s *pflag.FlagSet) {
	s.StringVarP(&f.message, "message", "m", "", "the `TASK`: what the agent is asked to do")
	s.StringVar(&f.agent, "agent", "", "an agent `PRESET` such as claude-code or codex; or give a command after --")
	s.StringVarP(&f.file, "file", "f", "", "read a work order `FILE` (workorder.yaml; - is standard input); flags win over it")
	s.StringVar(&f.name, "name", "", "`NAME` of the work order and of its branch sallyport/NAME; made from the task if not given")
	s.StringVar(&f.base, "base", "", "`REVISION` to start from; the current branch if not given")
	s.BoolVar(&f.dirty, "include-dirty", false, "start from your working tree, uncommitted changes included")
	s.StringVar(&f.history, "history", "", "how many commits the agent sees: `N` or full")
	s.StringVar(&f.attempts, "attempts", "", "try again up to `N` times in all, told why the last try was rejected")
	s.StringArrayVar(&f.allow, "allow", nil, "a `GLOB` that the change may touch; repeat for more; --allow= allows nothing")
	s.StringArrayVar(&f.deny, "deny", nil, "a `GLOB` that the change must not touch; repeat for more")
	s.StringArrayVar(&f.copies, "copy", nil, "a `FILE` of your work tree that the agent is given, never part of the change; repeat for more")
	s.StringArrayVar(&f.egress, "egress", nil, "a `HOST`, preset or rule that the agent may reach beyond policy; repeat for more; --egress= reaches nothing")
	s.StringArrayVar(&f.credentials, "credential", nil, "the `NAME` of a credential of your config.yaml that the agent's requests carry, beyond policy; repeat for more; --credential= uses none")
	s.StringVar(&f.time, "time", "", "limit of runtime, a `DURATION` such as 45m")
	s.StringVar(&f.memory, "memory", "", "limit of memory, a `SIZE` such as 8GiB")
	s.StringVar(&f.pids, "pids", "", "limit of processes, a `NUMBER`")
	s.StringVar(&f.disk, "disk", "", "limit of disk, a `SIZE`")
	s.StringVar(&f.output, "output", "", "limit of kept output, a `SIZE`")
	s.StringVar(&f.cpus, "cpus", "", "limit of processors, a `NUMBER` such as 2 or 0.5")
	s.StringVar(&f.spend, "spend", "", "limit of what all attempts may spend on model APIs, a `LIST` such as usd=5,tokens=2M")
	s.StringSliceVar(&f.require, "require", nil, "a containment `LAYER` that must hold beyond the default, or all")
	s.StringVar(&f.publish, "publish", "", "`WHERE` an accepted change goes: branch, pr (a pull request) or none")
	s.StringVar(&f.approve, "approve", "", "`WHEN` a person must say so first: always, on-finding or never")
	s.BoolVarP(&f.stdin, "interactive", "i", false, "with -t: connect your keyboard")
	s.BoolVarP(&f.tty, "tty", "t", false, "with -i: give the agent a terminal (-it); Ctrl-P Ctrl-Q detaches")
}

// order is what the flags say, and nothing more: what was not said stays nil or empty. command is what stood
// after "--", nil without one.
func (f *orderFlags) order(s *pflag.FlagSet, command []string) (sallyport.WorkOrder, error) {
	var wo sallyport.WorkOrder
	if err := f.sane(s, command); err != nil {
		return wo, err
	}
	limits, err := f.limits(s)
	if err != nil {
		return wo, err
	}
	counts, err := f.counts(s)
	if err != nil {
		return wo, err
	}
	scope, err := f.scope(s)
	if err != nil {
		return wo, err
	}
	wo = sallyport.WorkOrder{Name: f.name, Task: f.message, Base: f.base, Agent: f.agent, Command: command, Scope: scope,
		Limits: limits, Attempts: counts.Attempts, History: counts.History, Terminal: f.tty, IncludeDirty: f.dirty}
	if s.Changed("require") {
		wo.Require = append([]string{}, f.require...)
	}
	if s.Changed("copy") {
		wo.Copies = append([]string{}, f.copies...)
	}
	if err := f.reach(&wo); err != nil {
		return wo, err
	}
	if err := f.lend(&wo); err != nil {
		return wo, err
	}
	if s.Changed("publish") || s.Changed("approve") {
		wo.Publish = &sallyport.Publish{To: f.publish, Approve: f.approve}
	}
	return wo, nil
}

// sane refuses what no merge with a file could make right.
func (f *orderFlags) sane(s *pflag.FlagSet, command []string) error {
	for _, name := range []string{"message", "agent", "file", "name", "base", "publish", "approve"} {
		if s.Changed(name) && s.Lookup(name).Value.String() == "" {
			return invalid("run", "--"+name, "expected text that is not empty", "leave the flag out to get its default")
		}
	}
	switch {
	case command != nil && len(command) == 0:
		return invalid("run", "--", "expected a command after --", "sallyport run -- COMMAND ARGUMENTS")
	case command != nil && f.agent != "":
		return invalid("run", "--agent", "an agent and a command after -- are both given; expected one of them", "")
	case f.stdin != f.tty:
		return invalid("run", "-i, -t", "expected both or neither", "use -it for an interactive terminal")
	}
	return nil
}

func (f *orderFlags) limits(s *pflag.FlagSet) (sallyport.LimitsProposal, error) {
	var out sallyport.LimitsProposal
	for _, l := range []struct {
		name, value string
		take        func(sallyport.LimitsProposal)
	}{
		{"time", f.time, func(l sallyport.LimitsProposal) { out.Time = l.Time }},
		{"memory", f.memory, func(l sallyport.LimitsProposal) { out.Memory = l.Memory }},
		{"pids", f.pids, func(l sallyport.LimitsProposal) { out.PIDs = l.PIDs }},
		{"disk", f.disk, func(l sallyport.LimitsProposal) { out.Disk = l.Disk }},
		{"output", f.output, func(l sallyport.LimitsProposal) { out.Output = l.Output }},
		{"cpus", f.cpus, func(l sallyport.LimitsProposal) { out.CPU = l.CPU }},
	} {
		if !s.Changed(l.name) {
			continue
		}
		wo, err := asInFile(l.name, "limits: {"+l.name+": %s}", l.value)
		if err != nil {
			return out, err
		}
		l.take(wo.Limits)
	}
	err := f.limitSpend(s, &out)
	return out, err
}

// limitSpend reads --spend: the keys of limits.spend with their values, each once.
func (f *orderFlags) limitSpend(s *pflag.FlagSet, out *sallyport.LimitsProposal) error {
	if !s.Changed("spend") {
		return nil
	}
	var pairs []string
	for _, pair := range strings.Split(f.spend, ",") {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" || value == "" || !plain.MatchString(value) || strings.ContainsFunc(key, func(r rune) bool { return r != '-' && (r < 'a' || r > 'z') }) {
			return invalid("run", "--spend", fmt.Sprintf("expected key=value such as usd=5 or tokens=2M, found %.40q", pair), "run --spend usd=5,tokens=2M")
		}
		pairs = append(pairs, key+": "+value)
	}
	wo, err := lineInFile("spend", "limits: {spend: {"+strings.Join(pairs, ", ")+"}}")
	if err != nil {
		return err
	}
	out.SpendMicroUSD, out.SpendTokens, out.SpendOnExceeded = wo.Limits.SpendMicroUSD, wo.Limits.SpendTokens, wo.Limits.SpendOnExceeded
	return nil
}

// counts reads --attempts and --history.
func (f *orderFlags) counts(s *pflag.FlagSet) (out sallyport.WorkOrder, err error) {
	for name, value := range map[string]string{"attempts": f.attempts, "history": f.history} {
		if !s.Changed(name) {
			continue
		}
		wo, err := asInFile(name, name+": %s", value)
		if err != nil {
			return out, err
		}
		out.Attempts, out.History = max(out.Attempts, wo.Attempts), out.History+wo.History
	}
	return out, nil
}

func (f *orderFlags) scope(s *pflag.FlagSet) (*sallyport.Scope, error) {
	if !s.Changed("allow") && !s.Changed("deny") {
		return nil, nil
	}
	var out sallyport.Scope
	for name, list := range map[string][]string{"allow": f.allow, "deny": f.deny} {
		if !s.Changed(name) {
			continue
		}
		if len(list) == 1 && list[0] == "" {
			list = nil // --allow= says "nothing"
		}
		if slices.Contains(list, "") {
			return nil, invalid("run", "--"+name, "expected patterns, or one empty value that says: nothing", "")
		}
		list = append([]string{}, list...)
		if name == "allow" {
			out.Allow = &list
		} else {
			out.Deny = list
		}
	}
	return &out, nil
}

// reach reads --egress: entries as they stand in a file, or one empty value that says "nothing".
func (f *orderFlags) reach(wo *sallyport.WorkOrder) error {
	if len(f.egress) == 1 && f.egress[0] == "" {
		wo.Egress = &[]sallyport.EgressRule{}
		return nil
	}
	for _, value := range f.egress {
		if value == "" || strings.ContainsFunc(value, unicode.IsControl) {
			return invalid("run", "--egress", "expected a host, a preset or a rule in one line, or one empty value that says: nothing", "")
		}
		form := "egress:\n  - %s"
		entry, err := asInFile("egress", form, value)
		if strings.HasPrefix(value, "{") {
			entry, err = lineInFile("egress", fmt.Sprintf(form, value))
		}
		if err != nil {
			return err
		}
		wo.Reach = append(wo.Reach, *entry.Egress...)
	}
	return nil
}

// lend reads --credential: names, or one empty value that says "none".
func (f *orderFlags) lend(wo *sallyport.WorkOrder) error {
	if len(f.credentials) == 1 && f.credentials[0] == "" {
		wo.Credentials = &[]string{}
		return nil
	}
	for _, name := range f.credentials {
		entry, err := asInFile("credential", "credentials: [%s]", name)
		if err != nil {
			return err
		}
		wo.Lend = append(wo.Lend, *entry.Credentials...)
	}
	return nil
}

// plain is what stands in YAML without quotes and means itself.
var plain = pattern.New(`^[0-9A-Za-z.]+$`)

// asInFile reads one value by the rules of workorder.yaml.
func asInFile(flag, line, value string) (sallyport.WorkOrder, error) {
	if !plain.MatchString(value) {
		quoted, err := json.Marshal(value)
		if err != nil {
			return sallyport.WorkOrder{}, err
		}
		value = string(quoted)
	}
	return lineInFile(flag, fmt.Sprintf(line, value))
}

// lineInFile reads a line of workorder.yaml.
func lineInFile(flag, line string) (sallyport.WorkOrder, error) {
	wo, err := manifest.ParseWorkOrder("flag", []byte("version: 1\ncommand: [x]\n"+line+"\n"))
	var e *sallyport.Error
	if errors.As(err, &e) {
		return wo, &sallyport.Error{Op: "run", Code: e.Code, Subject: "--" + flag, Message: e.Message, Hint: e.Hint}
	}
	return wo, err
}

// maxOrderBytes is far above any work order: 64 KiB of task and change.
const maxOrderBytes = 1 << 20

// workOrderFile reads -f, relative to where the user stands.
func (a *app) workOrderFile(name string) (*sallyport.WorkOrder, manifest.Places, error) {
	data, err := a.readFile(name, maxOrderBytes)
	if err != nil {
		return nil, nil, err
	}
	wo, places, err := manifest.ParseWorkOrderPlaces(name, data)
	if err != nil {
		return nil, nil, err
	}
	return &wo, places, nil
}

// readFile reads a whole file of at most limit bytes; - is standard input.
func (a *app) readFile(name string, limit int64) ([]byte, error) {
	var r io.Reader = a.Stdin
	if name != "-" {
		f, err := os.Open(a.path(name))
		if err != nil {
			return nil, &sallyport.Error{Op: "read", Code: sallyport.CodeInvalid, Subject: name, Message: "expected a file that can be read", Err: errors.Unwrap(err)}
		}
		defer f.Close()
		r = f
	}
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, &sallyport.Error{Op: "read", Code: sallyport.CodeInvalid, Subject: name, Message: "expected a file that can be read", Err: errors.Unwrap(err)}
	}
	if int64(len(data)) > limit {
		return nil, invalid("read", name, fmt.Sprintf("expected at most %d bytes", limit), "")
	}
	return data, nil
}

func (a *app) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(a.Dir, name)
}
