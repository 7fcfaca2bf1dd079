package manifest

import (
	"maps"
	"slices"

	"sallyport.dev/sallyport"
)

// notInWorkOrder explains the keys that people look for in the wrong file.
var notInWorkOrder = map[string]string{
	"spend":  elsewhere["spend"],
	"checks": "checks come from sallyport.yaml at the protected ref, so that a work order cannot choose its own judge",
	"tools":  "it is set in sallyport.yaml",
	"caches": "it is set in sallyport.yaml",
	"deps":   "it is set in sallyport.yaml",
}

// ParseWorkOrder reads workorder.yaml strictly. name is used in messages only. Errors as for
// ParseRepository.
func ParseWorkOrder(name string, data []byte) (sallyport.WorkOrder, error) {
	wo, _, err := ParseWorkOrderPlaces(name, data)
	return wo, err
}

// ParseWorkOrderPlaces is ParseWorkOrder and says where each value stands, so that Compile can name the
// line of what it refuses.
func ParseWorkOrderPlaces(name string, data []byte) (sallyport.WorkOrder, Places, error) {
	var f workOrderFile
	places, err := decode(name, data, notInWorkOrder, &f)
	if err != nil {
		return sallyport.WorkOrder{}, nil, err
	}
	if err := oneExecutor(f, places, name); err != nil {
		return sallyport.WorkOrder{}, nil, err
	}
	wo := sallyport.WorkOrder{Limits: f.Limits.proposal()}
	set(&wo.Name, f.Name)
	set(&wo.Task, f.Task)
	set(&wo.Base, f.Base)
	set(&wo.Agent, f.Agent)
	set(&wo.History, f.History)
	if f.Command != nil {
		wo.Command = plain(*f.Command)
	}
	if f.Copy != nil {
		r := reader{file: name, places: places}
		if wo.Copies, err = r.unique("copy", plain(*f.Copy)); err != nil {
			return sallyport.WorkOrder{}, nil, err
		}
	}
	if f.Scope != nil {
		wo.Scope = &sallyport.Scope{Allow: f.Scope.allow(), Deny: f.Scope.deny()}
	}
	if f.Attempts != nil {
		wo.Attempts = int(*f.Attempts)
	}
	if f.Env != nil {
		wo.Env = *f.Env
	}
	if f.Require != nil {
		wo.Require = *f.Require
	}
	if f.Publish != nil {
		p := f.Publish.words()
		wo.Publish = &p
	}
	if f.Egress != nil {
		wo.Egress = f.Egress.rules()
	}
	if f.Credentials != nil {
		r := reader{file: name, places: places}
		names, err := r.unique("credentials", plain(*f.Credentials))
		if err != nil {
			return sallyport.WorkOrder{}, nil, err
		}
		wo.Credentials = &names
	}
	return wo, places, nil
}

func oneExecutor(f workOrderFile, places Places, name string) error {
	switch {
	case f.Agent != nil && f.Command != nil:
		return invalid(places.at("command"), "agent and command are both set; expected exactly one of them", "")
	case f.Agent == nil && f.Command == nil:
		return invalid(at(name, 1, 1), "neither agent nor command is set; expected exactly one of them", "add agent: claude-code, or command: [program, argument]")
	case f.Command != nil && (len(*f.Command) == 0 || (*f.Command)[0] == ""):
		return invalid(places.at("command"), "expected a program and its arguments", "")
	}
	return nil
}

func set[T ~string](out *string, in *T) {
	if in != nil {
		*out = string(*in)
	}
}

// Merge lays flags over a file: what the flags say wins, field by field; env is merged by name, require,
// scope.deny and copy add up. An agent given by flag replaces the file's command and the other way round. Neither argument is
// changed.
func Merge(file, flags sallyport.WorkOrder) sallyport.WorkOrder {
	out := file
	out.Name = either(flags.Name, file.Name)
	out.Task = either(flags.Task, file.Task)
	out.Base = either(flags.Base, file.Base)
	out.History = either(flags.History, file.History)
	if flags.Agent != "" || flags.Command != nil {
		out.Agent, out.Command = flags.Agent, flags.Command
	}
	out.Scope = mergeScope(file.Scope, flags.Scope)
	if flags.Attempts != 0 {
		out.Attempts = flags.Attempts
	}
	if flags.Publish != nil {
		var old sallyport.Publish
		if file.Publish != nil {
			old = *file.Publish
		}
		out.Publish = &sallyport.Publish{To: either(flags.Publish.To, old.To), Approve: either(flags.Publish.Approve, old.Approve), Repository: old.Repository, Base: old.Base, Approvers: old.Approvers}
	}
	if flags.Egress != nil {
		out.Egress = flags.Egress
	}
	out.Reach = append(slices.Clone(file.Reach), flags.Reach...)
	if flags.Credentials != nil {
		out.Credentials = flags.Credentials
	}
	if flags.Lend != nil {
		out.Lend = union(file.Lend, flags.Lend)
	}
	if flags.Env != nil {
		out.Env = maps.Clone(file.Env)
		if out.Env == nil {
			out.Env = map[string]string{}
		}
		maps.Copy(out.Env, flags.Env)
	}
	if flags.Require != nil {
		out.Require = union(file.Require, flags.Require)
	}
	if flags.Copies != nil {
		out.Copies = union(file.Copies, flags.Copies)
	}
	out.Limits = mergeLimits(file.Limits, flags.Limits)
	out.Learn = file.Learn || flags.Learn
	out.Terminal = file.Terminal || flags.Terminal
	out.IncludeDirty = file.IncludeDirty || flags.IncludeDirty
	return out
}

// mergeScope lets a flag replace what is allowed; what either denies stays denied.
func mergeScope(file, flags *sallyport.Scope) *sallyport.Scope {
	if file == nil || flags == nil {
		return firstSaid(flags, file)
	}
	return &sallyport.Scope{Allow: firstSaid(flags.Allow, file.Allow), Deny: union(file.Deny, flags.Deny)}
}

func mergeLimits(file, flags sallyport.LimitsProposal) sallyport.LimitsProposal {
	return sallyport.LimitsProposal{
		Time: firstSaid(flags.Time, file.Time), Memory: firstSaid(flags.Memory, file.Memory), PIDs: firstSaid(flags.PIDs, file.PIDs),
		Disk: firstSaid(flags.Disk, file.Disk), Output: firstSaid(flags.Output, file.Output), CPU: firstSaid(flags.CPU, file.CPU),
		SpendMicroUSD: firstSaid(flags.SpendMicroUSD, file.SpendMicroUSD), SpendTokens: firstSaid(flags.SpendTokens, file.SpendTokens),
		SpendOnExceeded: firstSaid(flags.SpendOnExceeded, file.SpendOnExceeded)}
}

// MergePlaces is Merge for places: what flags say is marked as the invoking user's own word.
func MergePlaces(file Places, flags sallyport.WorkOrder) Places {
	out := Places{}
	maps.Copy(out, file)
	mark := func(field string, said bool) {
		if said {
			out[field] = Place{At: "flag " + field, Flag: true}
		}
	}
	mark("name", flags.Name != "")
	mark("task", flags.Task != "")
	mark("base", flags.Base != "")
	mark("history", flags.History != "")
	mark("agent", flags.Agent != "")
	mark("command", flags.Command != nil)
	mark("attempts", flags.Attempts != 0)
	mark("egress", flags.Egress != nil)
	if flags.Reach != nil {
		out["reach"] = Place{At: "flag egress", Flag: true}
	}
	mark("credentials", flags.Credentials != nil)
	if flags.Lend != nil {
		out["lend"] = Place{At: "flag credential", Flag: true}
	}
	mark("require", flags.Require != nil)
	mark("copy", flags.Copies != nil)
	mark("scope.allow", flags.Scope != nil && flags.Scope.Allow != nil)
	mark("scope.deny", flags.Scope != nil && flags.Scope.Deny != nil)
	mark("publish.to", flags.Publish != nil && flags.Publish.To != "")
	mark("publish.approve", flags.Publish != nil && flags.Publish.Approve != "")
	for name := range flags.Env {
		mark("env."+name, true)
	}
	mark("limits.spend.on-exceeded", flags.Limits.SpendOnExceeded != nil)
	for _, l := range slices.Concat(limitFields, spendFields) {
		_, said := l.said(flags.Limits)
		mark("limits."+l.name, said)
	}
	return out
}

func either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func firstSaid[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}
