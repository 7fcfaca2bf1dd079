package manifest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport"
)

const (
	someCommit = sallyport.ObjectID("1111111111111111111111111111111111111111")
	someTree   = sallyport.ObjectID("2222222222222222222222222222222222222222")
)

func repository(t testing.TB, text string) *Repository {
	t.Helper()
	rep, err := ParseRepository("sallyport.yaml", []byte("version: 1\n"+text))
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return &rep
}

func operator(t testing.TB, file, text string) *Operator {
	t.Helper()
	op, err := ParseOperator(file, []byte("version: 1\n"+text))
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return &op
}

// input is a run of a bare command on a machine with 64 GiB.
func input(rep *Repository) Input {
	in := Input{
		WorkOrder: sallyport.WorkOrder{Command: []string{"/usr/bin/make", "fix"}}, Repository: rep, Source: sallyport.Source{Kind: "none"},
		Path: "/home/ann/repo", Base: Base{Ref: "refs/heads/main", Commit: someCommit, Tree: someTree, StartTree: someTree, Protected: true},
		Host: Host{Memory: 64 << 30, CPUs: 8, Home: "/home/ann"}, Provider: "local",
		Toolchain: Toolchain{Mounts: []sallyport.Mount{{Path: "/usr", Mode: "ro", Reason: "system"}}, Path: []string{"/usr/bin"}, Env: map[string]string{"GOPROXY": "off"}},
	}
	if rep != nil {
		in.Source = sallyport.Source{Kind: "protected-ref", Ref: "refs/remotes/origin/main", Commit: someCommit, Digest: sallyport.Sum([]byte("x"))}
		in.Granted = AsksDigest(*rep)
	}
	return in
}

// order adds a work order file's limits, scope and so on to in.
func order(t testing.TB, in Input, text string) Input {
	t.Helper()
	wo, places, err := ParseWorkOrderPlaces("w.yaml", []byte("version: 1\ncommand: [make]\n"+text))
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	in.WorkOrder, in.Places = wo, places
	return in
}

func flags(in Input, f sallyport.WorkOrder) Input {
	in.WorkOrder, in.Places = Merge(in.WorkOrder, f), MergePlaces(in.Places, f)
	return in
}

func compiled(t testing.TB, in Input) sallyport.Manifest {
	t.Helper()
	m, err := Compile(in)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestCompileWithoutPolicyFile(t *testing.T) {
	in := input(nil)
	in.Host.Memory = 6 << 30
	m := compiled(t, in)
	want := sallyport.Manifest{
		Version: 1, WorkOrder: WorkOrderID("/home/ann/repo", "make-fix"), Name: "make-fix", Repository: "/home/ann/repo",
		BaseRef: "refs/heads/main", Base: someCommit, BaseTree: someTree, StartTree: someTree, AtBest: sallyport.DecisionAwaitingApproval,
		Policy: sallyport.Source{Kind: "none"}, Agent: sallyport.Agent{Name: "command", Command: []string{"/usr/bin/make", "fix"}, Env: map[string]string{}},
		Env: map[string]string{"GOPROXY": "off"}, Home: "/home/ann", Path: []string{"/usr/bin"},
		Mounts: []sallyport.Mount{{Path: "/usr", Mode: "ro", Reason: "system", Hide: []string{}}},
		Scope:  sallyport.Scope{Deny: DefaultDeny()}, Checks: []sallyport.Check{}, Parallel: 1, Require: sallyport.RequiredLayers(), Attempts: 1, History: "full",
		Limits: sallyport.Limits{Time: 2 * time.Hour, Memory: 3 << 30, PIDs: 4096, Disk: 20 << 30, Output: 256 << 20},
		Egress: []sallyport.EgressRule{}, Publish: sallyport.Publish{To: "branch", Approve: "on-finding"}, Provider: "local",
		Notices: []string{
			"no sallyport.yaml: all paths but CI and policy files in scope, default limits; `sallyport init` writes one",
			"no check is defined: the decision is at best awaiting approval",
			"limits.memory is 3GiB: half of this machine's",
		},
	}
	if !reflect.DeepEqual(m, want) {
		t.Errorf("got  %+v\nwant %+v", m, want)
	}
	if _, _, err := Freeze(m); err != nil {
		t.Error(err)
	}
}

func TestCompileExamples(t *testing.T) {
	rep, err := ParseRepository("sallyport.yaml", []byte(exampleRepository))
	if err != nil {
		t.Fatal(err)
	}
	in := input(&rep)
	wo, places, err := ParseWorkOrderPlaces("w.yaml", []byte(exampleWorkOrder))
	if err != nil {
		t.Fatal(err)
	}
	in.WorkOrder, in.Places = wo, places
	in.Agent = sallyport.Agent{Name: "claude-code", Command: []string{"claude", "-p"}, Endpoint: &sallyport.Endpoint{Upstream: "https://api.example"}}
	m := compiled(t, in)
	if m.Name != "fix-1432" || m.AtBest != sallyport.DecisionAccepted || m.Attempts != 3 || len(m.Checks) != 2 || len(m.Notices) != 0 {
		t.Errorf("got %+v", m)
	}
	if m.Limits.Time != 45*time.Minute || m.Limits.Memory != 8<<30 {
		t.Errorf("limits %+v", m.Limits)
	}
	if !reflect.DeepEqual(m.Scope, sallyport.Scope{Allow: &[]string{"billing/**"}, Deny: []string{".github/**", "sallyport.yaml"}}) {
		t.Errorf("scope %+v", m.Scope)
	}
	if m.Agent.Endpoint.Paths == nil || m.Agent.Env == nil {
		t.Errorf("agent has a nil list: %+v", m.Agent)
	}
}

// Each row is refused, and says at which line, by whose rule and with which value.
func TestCompileRefuses(t *testing.T) {
	const etc = "/etc/sallyport/policy.yaml"
	gib := ptr(int64(16 << 30))
	for _, w := range []struct {
		name             string
		in               func() Input
		code             sallyport.Code
		subject, message string
	}{
		{"limit above the ceiling", func() Input {
			in := order(t, input(nil), "limits: {memory: 16GiB}\n")
			in.Ceiling = operator(t, etc, "limits: {memory: 4GiB}\n")
			return in
		}, sallyport.CodeDenied, "w.yaml:3:18", "limits.memory 16GiB is above the ceiling of 4GiB at " + etc + ":2:18"},
		{"flag above the ceiling", func() Input {
			in := flags(input(nil), sallyport.WorkOrder{Limits: sallyport.LimitsProposal{Memory: gib}})
			in.Ceiling = operator(t, etc, "limits: {memory: 4GiB}\n")
			return in
		}, sallyport.CodeDenied, "flag limits.memory", "limits.memory 16GiB is above the ceiling of 4GiB at " + etc + ":2:18"},
		{"file above the repository", func() Input {
			return order(t, input(repository(t, "limits: {time: 1h}\n")), "limits: {time: 90m}\n")
		}, sallyport.CodeDenied, "w.yaml:3:16", "limits.time 1h30m is above the 1h at sallyport.yaml:2:16; a work order can only narrow"},
		{"file above the user", func() Input {
			in := order(t, input(nil), "limits: {pids: 99}\n")
			in.User = operator(t, "config.yaml", "limits: {pids: 10}\n")
			return in
		}, sallyport.CodeDenied, "w.yaml:3:16", "limits.pids 99 is above the 10 at config.yaml:2:16; a work order can only narrow"},
		{"flag above the repository where grants are forbidden", func() Input {
			in := flags(input(repository(t, "limits: {cpus: 2}\n")), sallyport.WorkOrder{Limits: sallyport.LimitsProposal{CPU: ptr(3.0)}})
			in.Ceiling = operator(t, etc, "grants: forbid\n")
			return in
		}, sallyport.CodeDenied, "flag limits.cpus", "limits.cpus 3 is above the 2 at sallyport.yaml:2:16; a work order can only narrow"},
		{"flag out of bounds", func() Input {
			return flags(input(nil), sallyport.WorkOrder{Limits: sallyport.LimitsProposal{Memory: ptr(int64(5))}})
		}, sallyport.CodeInvalid, "flag limits.memory", "expected " + wantSize},
		{"scope outside", func() Input {
			return order(t, input(repository(t, "scope: {allow: [\"web/**\", docs/*.md]}\n")), "scope: {allow: [web/a.js, \"api/**\"]}\n")
		}, sallyport.CodeDenied, "w.yaml:3:27", `"api/**" is not shown to lie inside the scope.allow at sallyport.yaml:2:16 (web/**, docs/*.md); a work order can only narrow`},
		{"scope in a scope of nothing", func() Input {
			return order(t, input(repository(t, "scope: {allow: []}\n")), "scope: {allow: [a]}\n")
		}, sallyport.CodeDenied, "w.yaml:3:17", `"a" is not shown to lie inside the scope.allow at sallyport.yaml:2:16 (nothing); a work order can only narrow`},
		{"publish further", func() Input {
			return order(t, input(repository(t, "publish: {to: none}\n")), "publish: {to: branch}\n")
		}, sallyport.CodeDenied, "w.yaml:3:15", `publish.to "branch" is looser than the "none" at sallyport.yaml:2:15; a work order can only narrow`},
		{"approve less", func() Input {
			return order(t, input(repository(t, "publish: {approve: always}\n")), "publish: {approve: on-finding}\n")
		}, sallyport.CodeDenied, "w.yaml:3:20", `publish.approve "on-finding" is looser than the "always" at sallyport.yaml:2:20; a work order can only narrow`},
		{"approve below the ceiling", func() Input {
			in := order(t, input(nil), "publish: {approve: never}\n")
			in.Ceiling = operator(t, etc, "publish: {approve: on-finding}\n")
			return in
		}, sallyport.CodeDenied, "w.yaml:3:20", `publish.approve "never" is beyond the ceiling "on-finding" at ` + etc + ":2:20"},
		{"agent not allowed", func() Input {
			in := order(t, input(nil), "")
			in.Ceiling = operator(t, etc, "agents: [codex]\n")
			return in
		}, sallyport.CodeDenied, "w.yaml:2:10", `"command" is not among the agents allowed at ` + etc + ":2:9 (codex)"},
		{"no agent allowed", func() Input {
			in := input(nil)
			in.User = operator(t, "config.yaml", "agents: []\n")
			return in
		}, sallyport.CodeDenied, "command", `"command" is not among the agents allowed at config.yaml:2:9 (none)`},
		{"asks not granted", func() Input {
			in := input(repository(t, "deps: [node_modules]\nenv: {CI: \"1\"}\n"))
			in.Granted = ""
			return in
		}, sallyport.CodeDenied, "sallyport.yaml:2:8", `the repository asks for deps node_modules, env CI="1", which nobody has granted`},
		{"asks granted for another file", func() Input {
			in := input(repository(t, "tools: [/opt/b]\n"))
			in.Granted = AsksDigest(*repository(t, "tools: [/opt/a]\n"))
			return in
		}, sallyport.CodeDenied, "sallyport.yaml:2:9", `the repository asks for tools /opt/b, which nobody has granted`},
		{"grants forbidden", func() Input {
			in := input(repository(t, "deps: [node_modules]\n"))
			in.Ceiling = operator(t, etc, "grants: forbid\n")
			return in
		}, sallyport.CodeDenied, "sallyport.yaml:2:8", "the repository asks for deps node_modules, and the policy at " + etc + ":2:9 forbids grants"},
		{"grants forbidden by the user", func() Input {
			in := input(repository(t, "deps: [node_modules]\n"))
			in.User = operator(t, "config.yaml", "grants: forbid\n")
			return in
		}, sallyport.CodeDenied, "sallyport.yaml:2:8", "the repository asks for deps node_modules, and the policy at config.yaml:2:9 forbids grants"},
		{"nothing to run", func() Input { in := input(nil); in.WorkOrder.Command = nil; return in },
			sallyport.CodeInvalid, "agent", "nothing says what to run; expected an agent or a command"},
		{"agent without task", func() Input {
			in := input(nil)
			in.WorkOrder = sallyport.WorkOrder{Agent: "codex"}
			in.Agent = sallyport.Agent{Name: "codex", Command: []string{"codex"}}
			return in
		}, sallyport.CodeInvalid, "task", "expected a task for the agent"},
		{"an unknown place by flag", func() Input {
			return flags(input(nil), sallyport.WorkOrder{Publish: &sallyport.Publish{To: "forge"}})
		}, sallyport.CodeInvalid, "flag publish.to", `expected one of none, branch, pr, found "forge"`},
		{"env by flag", func() Input {
			return flags(input(nil), sallyport.WorkOrder{Env: map[string]string{"LD_PRELOAD": "s3cret"}})
		},
			sallyport.CodeInvalid, "flag env.LD_PRELOAD", `expected another variable: names that begin with LD_ are refused, found "LD_PRELOAD"`},
		{"layer by flag", func() Input { return flags(input(nil), sallyport.WorkOrder{Require: []string{"gpu"}}) },
			sallyport.CodeInvalid, "flag require", "expected all or one of " + listed(layerNames()) + `, found "gpu"`},
		{"relative repository", func() Input { in := input(nil); in.Path = "repo"; return in },
			sallyport.CodeInvalid, "repository", "expected the absolute path of a work tree"},
		{"writable mount", func() Input {
			in := input(nil)
			in.Toolchain.Mounts[0].Mode = "rw"
			return in
		}, sallyport.CodeInvalid, `mount "/usr"`, `expected a clean absolute path with mode "ro" or "cow"`},
	} {
		_, err := Compile(w.in())
		expect(t, w.name, err, w.code, w.subject, w.message, sallyport.HintOf(err))
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: the error repeats a value", w.name)
		}
	}
}

// Each row compiles; see tells what must be in the Manifest.
func TestCompileNarrows(t *testing.T) {
	const etc = "/etc/sallyport/policy.yaml"
	for _, w := range []struct {
		name   string
		in     func() Input
		see    func(m sallyport.Manifest) bool
		notice string
	}{
		{"a proposal above the ceiling is lowered", func() Input {
			in := input(repository(t, "limits: {time: 3h}\npublish: {to: branch, approve: never}\n"))
			in.Ceiling = operator(t, etc, "limits: {time: 1h, cpus: 2}\npublish: {to: none, approve: always}\n")
			return in
		}, func(m sallyport.Manifest) bool {
			return m.Limits.Time == time.Hour && m.Limits.CPU == 2 && m.Publish == sallyport.Publish{To: "none", Approve: "always"}
		}, "limits.time is 1h: the ceiling at " + etc + ":2:16"},
		{"the user's limit counts where it is lower", func() Input {
			in := input(repository(t, "limits: {memory: 8GiB}\n"))
			in.User = operator(t, "config.yaml", "limits: {memory: 2GiB, disk: 1TiB}\n")
			return in
		}, func(m sallyport.Manifest) bool { return m.Limits.Memory == 2<<30 && m.Limits.Disk == 1<<40 },
			"limits.memory is 2GiB: the user's configuration at config.yaml:2:18"},
		{"what a person typed is granted", func() Input {
			return flags(input(repository(t, "limits: {time: 1h}\nscope: {allow: [a]}\npublish: {approve: always}\n")), sallyport.WorkOrder{
				Limits: sallyport.LimitsProposal{Time: ptr(5 * time.Hour)}, Scope: &sallyport.Scope{Allow: &[]string{"b"}}, Publish: &sallyport.Publish{Approve: "never"}})
		}, func(m sallyport.Manifest) bool {
			return m.Limits.Time == 5*time.Hour && (*m.Scope.Allow)[0] == "b" && m.Publish.Approve == "never"
		}, "limits.time is 5h, more than the 1h at sallyport.yaml:2:16: granted by flag"},
		{"more than half of memory, if asked for", func() Input {
			return order(t, input(nil), "limits: {memory: 48GiB}\n")
		}, func(m sallyport.Manifest) bool { return m.Limits.Memory == 48<<30 }, ""},
		{"memory of a proposal is halved", func() Input {
			return input(repository(t, "limits: {memory: 60GiB}\n"))
		}, func(m sallyport.Manifest) bool { return m.Limits.Memory == 32<<30 }, "limits.memory is 32GiB: half of this machine's"},
		{"denied paths add up", func() Input {
			in := order(t, input(repository(t, "scope: {deny: [a]}\n")), "scope: {deny: [b]}\n")
			in.Ceiling = operator(t, etc, "scope: {deny: [c]}\n")
			in.User = operator(t, "config.yaml", "scope: {deny: [d, a]}\n")
			return in
		}, func(m sallyport.Manifest) bool { return slices.Equal(m.Scope.Deny, []string{"a", "b", "d", "c"}) },
			"scope.deny does not cover sallyport.yaml: the change may propose another policy"},
		{"layers add up", func() Input {
			in := order(t, input(repository(t, "require: [memory]\n")), "require: [disk]\n")
			in.Ceiling = operator(t, etc, "require: [cpu]\n")
			return in
		}, func(m sallyport.Manifest) bool {
			return slices.Contains(m.Require, sallyport.LayerMemory) && slices.Contains(m.Require, sallyport.LayerDisk) &&
				slices.Contains(m.Require, sallyport.LayerCPU) && !slices.Contains(m.Require, sallyport.LayerPIDs) && slices.Contains(m.Require, sallyport.LayerOutput)
		}, ""},
		{"all layers", func() Input { return order(t, input(nil), "require: all\n") },
			func(m sallyport.Manifest) bool { return slices.Equal(m.Require, sallyport.Layers()) }, ""},
		{"the shorter history", func() Input { return order(t, input(repository(t, "history: 9\n")), "history: 10\n") },
			func(m sallyport.Manifest) bool { return m.History == "9" }, ""},
		{"a base off the protected ref", func() Input {
			in := input(repository(t, "checks:\n- {name: a, run: x}\n"))
			in.Base.Protected = false
			return in
		}, func(m sallyport.Manifest) bool { return m.AtBest == sallyport.DecisionAwaitingApproval },
			"the base is neither the protected ref nor an ancestor of it: the decision is at best awaiting approval"},
		{"the working tree's policy", func() Input {
			in := input(repository(t, "checks:\n- {name: a, run: x}\n"))
			in.Source = sallyport.Source{Kind: "worktree"}
			return in
		}, func(m sallyport.Manifest) bool { return m.AtBest == sallyport.DecisionAccepted },
			"policy: sallyport.yaml of your working tree, uncommitted (source: worktree)"},
		{"the user's agent", func() Input {
			in := input(nil)
			in.WorkOrder = sallyport.WorkOrder{Task: "Do it"}
			in.User = operator(t, "config.yaml", "agent: codex\n")
			in.Agent = sallyport.Agent{Name: "codex", Command: []string{"codex", "exec"}}
			return in
		}, func(m sallyport.Manifest) bool { return m.Agent.Name == "codex" && m.Name == "do-it" }, ""},
		{"more processors than there are", func() Input { return order(t, input(nil), "limits: {cpus: 100}\n") },
			func(m sallyport.Manifest) bool { return m.Limits.CPU == 8 }, "limits.cpus is 8: this machine has no more"},
		{"env, last word wins", func() Input {
			return flags(input(repository(t, "env: {A: rep, B: rep, GOPROXY: rep}\n")), sallyport.WorkOrder{Env: map[string]string{"B": "flag"}})
		}, func(m sallyport.Manifest) bool {
			return reflect.DeepEqual(m.Env, map[string]string{"A": "rep", "B": "flag", "GOPROXY": "rep"})
		}, ""},
	} {
		m, err := Compile(w.in())
		if err != nil {
			t.Errorf("%s: %v", w.name, err)
			continue
		}
		if !w.see(m) {
			t.Errorf("%s: got %+v", w.name, m)
		}
		if w.notice != "" && !slices.Contains(m.Notices, w.notice) {
			t.Errorf("%s: notices %s", w.name, fmt.Sprintf("%q", m.Notices))
		}
	}
}

// The Manifest shares no memory with what it was made from.
func TestCompileCopies(t *testing.T) {
	in := input(repository(t, "checks:\n- {name: a, run: x}\nscope: {allow: [a]}\n"))
	m := compiled(t, in)
	before, _, err := Freeze(m)
	if err != nil {
		t.Fatal(err)
	}
	in.WorkOrder.Command[0], in.Toolchain.Path[0], in.Toolchain.Env["GOPROXY"] = "x", "x", "x"
	in.Repository.Checks[0].When[0], (*in.Repository.Scope.Allow)[0] = "x", "x"
	after, _, err := Freeze(m)
	if err != nil || string(before) != string(after) {
		t.Errorf("changed with its input: %v\n%s\n%s", err, before, after)
	}
}
