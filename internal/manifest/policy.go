package manifest

import (
	"fmt"
	"time"

	"sallyport.dev/sallyport"
)

// Repository is a parsed sallyport.yaml: what the repository proposes. Pointers and nil slices mean "not
// said"; an empty slice means "nothing".
type Repository struct {
	File   string // the name it was parsed under, for messages
	Scope  *sallyport.Scope
	Tools  Choice // not said: auto
	Caches Choice // not said: auto
	Deps   []string
	Copy   []string // files of the work tree that the agent is given
	Env    map[string]string
	Egress *[]sallyport.EgressRule // what the agent may reach; nil: not said
	// Credentials are names that an operator's file must define.
	Credentials []string
	Limits      sallyport.LimitsProposal
	History     string // "": not said
	Require     []string
	Checks      []sallyport.Check
	Setup       []sallyport.Setup // in order
	// Parallel is how many checks run at the same time; 0: not said.
	Parallel int
	Findings map[string]sallyport.Severity // by rule
	Publish  sallyport.Publish             // empty words: not said
	Places   Places
}

// Operator is a parsed policy.yaml or config.yaml. The zero value forbids nothing and grants nothing.
type Operator struct {
	File         string
	Agent        string
	Agents       *[]string // nil: any; empty: none
	Limits       sallyport.LimitsProposal
	Require      []string
	Publish      sallyport.Publish
	Deny         []string
	ForbidGrants bool
	Protected    string // the ref whose policy counts; "": not said
	Tools        []string
	Caches       *Choice
	Copy         []string
	Egress       *[]sallyport.EgressRule // a ceiling, or what every agent may reach; nil: not said
	Resolve      map[string]string       // addresses by canonical name
	Credentials  []sallyport.Credential  // definitions; a run uses those that it is given by name
	Parallel     int                     // the most checks at the same time; 0: not said
	Findings     map[string]sallyport.Severity
	Places       Places
}

// DefaultTimeout is a check's timeout when its file says none.
const DefaultTimeout = 15 * time.Minute

// ParseRepository reads sallyport.yaml strictly. name is used in messages only. Errors: CodeInvalid with
// subject "name:line:column"; CodeUnsupported for what a later version brings.
func ParseRepository(name string, data []byte) (Repository, error) {
	var f repositoryFile
	places, err := decode(name, data, elsewhere, &f)
	if err != nil {
		return Repository{}, err
	}
	rep := Repository{File: name, Tools: Choice{Auto: true, List: []string{}}, Caches: Choice{Auto: true, List: []string{}},
		Deps: []string{}, Copy: []string{}, Env: map[string]string{}, Checks: []sallyport.Check{}, Places: places,
		Limits: f.Limits.proposal(), Publish: f.Publish.words(), Parallel: f.Parallel.number(), Findings: f.Findings.words()}
	if f.Scope != nil {
		rep.Scope = &sallyport.Scope{Allow: f.Scope.allow(), Deny: f.Scope.deny()}
	}
	if f.Tools != nil {
		rep.Tools = Choice(*f.Tools)
	}
	if f.Caches != nil {
		rep.Caches = Choice(*f.Caches)
	}
	if f.Env != nil {
		rep.Env = *f.Env
	}
	rep.Egress = f.Egress.rules()
	rep.Setup = setups(f.Setup)
	if f.History != nil {
		rep.History = string(*f.History)
	}
	if f.Require != nil {
		rep.Require = *f.Require
	}
	if f.Deps != nil {
		rep.Deps = plain(*f.Deps)
	}
	if f.Copy != nil {
		rep.Copy = plain(*f.Copy)
	}
	r := reader{file: name, places: places}
	if _, err := r.unique("deps", rep.Deps); err != nil {
		return Repository{}, err
	}
	if _, err := r.unique("copy", rep.Copy); err != nil {
		return Repository{}, err
	}
	if f.Credentials != nil {
		if rep.Credentials, err = r.unique("credentials", plain(*f.Credentials)); err != nil {
			return Repository{}, err
		}
	}
	if f.Checks != nil {
		rep.Checks, err = r.checks(*f.Checks)
	}
	if err != nil {
		return Repository{}, err
	}
	return rep, nil
}

func (r *reader) checks(files []checkFile) ([]sallyport.Check, error) {
	checks, seen := make([]sallyport.Check, len(files)), map[string]string{}
	for i, f := range files {
		place := r.places.at(fmt.Sprintf("checks[%d].name", i))
		if first, twice := seen[string(f.Name)]; twice {
			return nil, invalid(place, fmt.Sprintf("a check named %q is already defined at %s; expected another name", f.Name, first), "")
		}
		seen[string(f.Name)] = place
		checks[i] = f.check()
	}
	return checks, nil
}

// check writes the defaults: an omitted `when` is all paths; omitted `tests` stay empty, for the languages' own.
func (f checkFile) check() sallyport.Check {
	c := sallyport.Check{Name: string(f.Name), Run: string(f.Run), When: []string{"**"}, Tests: []string{}, Timeout: DefaultTimeout}
	if f.Dir != nil {
		c.Dir = string(*f.Dir)
	}
	if f.When != nil {
		c.When = plain(*f.When)
	}
	if f.Tests != nil {
		c.Tests = plain(*f.Tests)
	}
	if f.Timeout != nil {
		c.Timeout = time.Duration(*f.Timeout)
	}
	f.controls(&c)
	return c
}

// ParseOperator reads /etc/sallyport/policy.yaml or the user's config.yaml; the two share one format, and
// Compile takes them in different roles. Errors as for ParseRepository. That a ceiling's file belongs to
// root and is not writable by others is the caller's to check.
func ParseOperator(name string, data []byte) (Operator, error) {
	var f operatorFile
	places, err := decode(name, data, elsewhere, &f)
	if err != nil {
		return Operator{}, err
	}
	op := Operator{File: name, Limits: f.Limits.proposal(), Publish: f.Publish.words(), Places: places,
		Agents: plainAt(f.Agents), Egress: f.Egress.rules(), ForbidGrants: f.Grants != nil && *f.Grants == "forbid",
		Parallel: f.Parallel.number(), Findings: f.Findings.words()}
	if f.Copy != nil {
		op.Copy = plain(*f.Copy)
	}
	if f.Resolve != nil {
		op.Resolve = *f.Resolve
	}
	if f.Protected != nil {
		op.Protected = string(*f.Protected)
	}
	if f.Agent != nil {
		op.Agent = string(*f.Agent)
	}
	if f.Require != nil {
		op.Require = *f.Require
	}
	if f.Scope != nil {
		op.Deny = plain(*f.Scope.Deny)
	}
	if f.Tools != nil {
		op.Tools = *f.Tools
	}
	if f.Caches != nil {
		c := Choice(*f.Caches)
		op.Caches = &c
	}
	r := reader{file: name, places: places}
	op.Credentials, err = r.credentialDefinitions(f.Credentials)
	return op, err
}

func (f *limitsFile) proposal() sallyport.LimitsProposal {
	if f == nil {
		return sallyport.LimitsProposal{}
	}
	p := sallyport.LimitsProposal{Time: (*time.Duration)(f.Time), Memory: (*int64)(f.Memory), PIDs: (*int64)(f.PIDs),
		Disk: (*int64)(f.Disk), Output: (*int64)(f.Output), CPU: (*float64)(f.CPUs)}
	f.Spend.propose(&p)
	return p
}

func (f *publishFile) words() sallyport.Publish {
	var p sallyport.Publish
	if f != nil && f.To != nil {
		p.To = string(*f.To)
	}
	if f != nil && f.Approve != nil {
		p.Approve = string(*f.Approve)
	}
	if f != nil && f.Approvers != nil {
		p.Approvers = int(*f.Approvers)
	}
	if f != nil && f.Repository != nil {
		p.Repository = string(*f.Repository)
	}
	if f != nil && f.Base != nil {
		p.Base = string(*f.Base)
	}
	return p
}

// ProtectedRef is the ref whose policy counts: the ceiling's word, else the user's, else "" (the remote's
// default branch).
func ProtectedRef(user, ceiling *Operator) string {
	for _, o := range []*Operator{ceiling, user} {
		if o != nil && o.Protected != "" {
			return o.Protected
		}
	}
	return ""
}

// EffectiveTools is what the resolver of programs works from: the repository's choice (auto without a
// file) with the user's extra paths. It says nothing about grants; Compile does.
func EffectiveTools(rep *Repository, user *Operator) Choice {
	c := Choice{Auto: true, List: []string{}}
	if rep != nil {
		c = Choice{Auto: rep.Tools.Auto, List: append([]string{}, rep.Tools.List...)}
	}
	if user != nil {
		c.List = union(c.List, user.Tools)
	}
	return c
}

// EffectiveCaches is the user's choice where there is one, else the repository's, else auto.
func EffectiveCaches(rep *Repository, user *Operator) Choice {
	switch {
	case user != nil && user.Caches != nil:
		return *user.Caches
	case rep != nil:
		return rep.Caches
	}
	return Choice{Auto: true, List: []string{}}
}

// union appends to a what is in the others and not there yet, in order. It never returns nil.
func union(a []string, others ...[]string) []string {
	out, seen := []string{}, map[string]bool{}
	for _, list := range append([][]string{a}, others...) {
		for _, s := range list {
			if !seen[s] {
				seen[s] = true
				out = append(out, s)
			}
		}
	}
	return out
}
