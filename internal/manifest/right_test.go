package manifest

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport"
)

const exampleRepository = `
version: 1
scope:  {deny: [".github/**", sallyport.yaml]}   # allow omitted = all; allow: [] = nothing
tools:  auto
caches: auto
deps:   [web/node_modules]
limits: {time: 2h, memory: 8GiB, pids: 4096, disk: 20GiB, output: 256MiB}
egress: []
checks:
  - {name: test, run: go test ./..., timeout: 15m}
  - {name: web, run: npm test, dir: web, when: ["web/**", "api/**"]}
publish: {to: branch, approve: on-finding}       # to: branch|pr|none; approve: always|on-finding|never
`

const exampleWorkOrder = `
version: 1
name: fix-1432
task: Fix the rounding in invoice totals (#1432); add a test.
base: main
agent: claude-code                               # or command: [sh, -c, "..."]
scope:  {allow: ["billing/**"]}
limits: {time: 45m}
attempts: 3
`

func ptr[T any](v T) *T { return &v }

func TestExampleRepository(t *testing.T) {
	rep, err := ParseRepository("sallyport.yaml", []byte(exampleRepository))
	if err != nil {
		t.Fatal(err)
	}
	rep.Places = nil
	want := Repository{
		File:  "sallyport.yaml",
		Scope: &sallyport.Scope{Deny: []string{".github/**", "sallyport.yaml"}},
		Tools: Choice{Auto: true, List: []string{}}, Caches: Choice{Auto: true, List: []string{}},
		Deps: []string{"web/node_modules"}, Copy: []string{}, Env: map[string]string{}, Egress: &[]sallyport.EgressRule{},
		Limits: sallyport.LimitsProposal{Time: ptr(2 * time.Hour), Memory: ptr(int64(8 << 30)), PIDs: ptr(int64(4096)), Disk: ptr(int64(20 << 30)), Output: ptr(int64(256 << 20))},
		Checks: []sallyport.Check{
			{Name: "test", Run: "go test ./...", When: []string{"**"}, Tests: []string{}, Timeout: 15 * time.Minute},
			{Name: "web", Run: "npm test", Dir: "web", When: []string{"web/**", "api/**"}, Tests: []string{}, Timeout: 15 * time.Minute},
		},
		Publish: sallyport.Publish{To: "branch", Approve: "on-finding"},
	}
	if !reflect.DeepEqual(rep, want) {
		t.Errorf("got  %+v\nwant %+v", rep, want)
	}
}

func TestExampleWorkOrder(t *testing.T) {
	wo, places, err := ParseWorkOrderPlaces("w.yaml", []byte(exampleWorkOrder))
	if err != nil {
		t.Fatal(err)
	}
	want := sallyport.WorkOrder{Name: "fix-1432", Task: "Fix the rounding in invoice totals (#1432); add a test.", Base: "main", Agent: "claude-code",
		Scope: &sallyport.Scope{Allow: &[]string{"billing/**"}}, Limits: sallyport.LimitsProposal{Time: ptr(45 * time.Minute)}, Attempts: 3}
	if !reflect.DeepEqual(wo, want) {
		t.Errorf("got  %+v\nwant %+v", wo, want)
	}
	for field, at := range map[string]string{"limits.time": "w.yaml:8:16", "attempts": "w.yaml:9:11", "scope.allow[0]": "w.yaml:7:18"} {
		if places[field].At != at {
			t.Errorf("%s is at %q, want %q", field, places[field].At, at)
		}
	}
}

// What is not said, what is nothing and what is everything stay three things.
func TestOmittedAndEmpty(t *testing.T) {
	parse := func(s string) Repository {
		t.Helper()
		rep, err := ParseRepository("s", []byte("version: 1\n"+s))
		if err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		return rep
	}
	if rep := parse(""); rep.Scope != nil || !rep.Tools.Auto || !rep.Caches.Auto {
		t.Errorf("omitted: %+v", rep)
	}
	if rep := parse("scope: {allow: []}\n"); rep.Scope.Allow == nil || len(*rep.Scope.Allow) != 0 || rep.Scope.Deny != nil {
		t.Errorf("allow []: %+v", rep.Scope)
	}
	if rep := parse("scope: {deny: []}\n"); rep.Scope.Allow != nil || rep.Scope.Deny == nil || len(rep.Scope.Deny) != 0 {
		t.Errorf("deny []: %+v", rep.Scope)
	}
	if rep := parse("tools: [auto, /opt/x]\ncaches: [go, auto]\n"); !rep.Tools.Auto || !rep.Caches.Auto || !reflect.DeepEqual(rep.Tools.List, []string{"/opt/x"}) || !reflect.DeepEqual(rep.Caches.List, []string{"go"}) {
		t.Errorf("auto in a list: %+v %+v", rep.Tools, rep.Caches)
	}
	if rep := parse("tools: none\ncaches: []\n"); rep.Tools.Auto || rep.Caches.Auto || len(rep.Tools.List)+len(rep.Caches.List) != 0 {
		t.Errorf("none: %+v %+v", rep.Tools, rep.Caches)
	}
	rep := parse("checks:\n- {name: a, run: x, when: [], tests: []}\n")
	if c := rep.Checks[0]; c.When == nil || len(c.When) != 0 || c.Tests == nil || len(c.Tests) != 0 {
		t.Errorf("when and tests []: %+v", c)
	}
}

func TestFormsOfText(t *testing.T) {
	file := "\ufeff---\r\nversion: 1\r\nhistory: 20\r\nrequire: all\r\ntools: [~/.local/bin, /opt/go]\r\nenv: {CI: \"1\", EMPTY: \"\"}\r\n" +
		"checks:\r\n  - name: a\r\n    run: |\r\n      make -j2\r\n      \tmake test\r\n"
	rep, err := ParseRepository("s", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	if rep.History != "20" || !reflect.DeepEqual(rep.Require, []string{"all"}) || !reflect.DeepEqual(rep.Tools.List, []string{"~/.local/bin", "/opt/go"}) ||
		!reflect.DeepEqual(rep.Env, map[string]string{"CI": "1", "EMPTY": ""}) {
		t.Errorf("got %+v", rep)
	}
	if run := rep.Checks[0].Run; !strings.Contains(run, "make -j2\n\tmake test") {
		t.Errorf("run is %q", run)
	}
}

func TestExampleOperator(t *testing.T) {
	op, err := ParseOperator("/etc/sallyport/policy.yaml", []byte(`version: 1
agent: codex
agents: [codex, command]
limits: {time: 1h, cpus: 1.5}
require: [memory]
publish: {to: none, approve: always}
scope: {deny: ["infra/**"]}
grants: forbid
tools: [auto, /opt/tools]
caches: [go]
`))
	if err != nil {
		t.Fatal(err)
	}
	op.Places = nil
	want := Operator{File: "/etc/sallyport/policy.yaml", Agent: "codex", Agents: &[]string{"codex", "command"},
		Limits: sallyport.LimitsProposal{Time: ptr(time.Hour), CPU: ptr(1.5)}, Require: []string{"memory"},
		Publish: sallyport.Publish{To: "none", Approve: "always"}, Deny: []string{"infra/**"}, ForbidGrants: true,
		Tools: []string{"/opt/tools"}, Caches: &Choice{List: []string{"go"}}}
	if !reflect.DeepEqual(op, want) {
		t.Errorf("got  %+v\nwant %+v", op, want)
	}
	if c := EffectiveTools(nil, &op); !c.Auto || !reflect.DeepEqual(c.List, []string{"/opt/tools"}) {
		t.Errorf("tools: %+v", c)
	}
	if c := EffectiveCaches(nil, &op); c.Auto || !reflect.DeepEqual(c.List, []string{"go"}) {
		t.Errorf("caches: %+v", c)
	}
}

func TestMergeFlags(t *testing.T) {
	file, _, err := ParseWorkOrderPlaces("w.yaml", []byte(exampleWorkOrder))
	if err != nil {
		t.Fatal(err)
	}
	file.Env = map[string]string{"A": "1", "B": "1"}
	flags := sallyport.WorkOrder{Task: "other", Command: []string{"sh", "-c", "x"}, Env: map[string]string{"B": "2"},
		Limits: sallyport.LimitsProposal{Memory: ptr(int64(1 << 30))}, Require: []string{"cpu"}, Publish: &sallyport.Publish{Approve: "always"}, Terminal: true}
	got := Merge(file, flags)
	want := sallyport.WorkOrder{Name: "fix-1432", Task: "other", Base: "main", Command: []string{"sh", "-c", "x"}, Scope: file.Scope, Attempts: 3,
		Env: map[string]string{"A": "1", "B": "2"}, Require: []string{"cpu"}, Publish: &sallyport.Publish{Approve: "always"}, Terminal: true,
		Limits: sallyport.LimitsProposal{Time: ptr(45 * time.Minute), Memory: ptr(int64(1 << 30))}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	scoped := Merge(sallyport.WorkOrder{Scope: &sallyport.Scope{Allow: &[]string{"a"}, Deny: []string{"d"}}}, sallyport.WorkOrder{Scope: &sallyport.Scope{Allow: &[]string{"b"}}})
	if !reflect.DeepEqual(scoped.Scope, &sallyport.Scope{Allow: &[]string{"b"}, Deny: []string{"d"}}) {
		t.Errorf("a flag took a denied path away: %+v", scoped.Scope)
	}
	if file.Env["B"] != "1" || file.Agent != "claude-code" {
		t.Errorf("Merge changed its argument: %+v", file)
	}
	if p := MergePlaces(Places{"limits.time": {At: "w.yaml:8:16"}}, flags); !p["limits.memory"].Flag || p["limits.time"].Flag || !p["env.B"].Flag {
		t.Errorf("places: %+v", p)
	}
}

// The operator's word on the protected ref: the ceiling's before the user's, and no name that could be an
// option or a revision expression.
func TestProtectedRef(t *testing.T) {
	parse := func(text string) *Operator {
		o, err := ParseOperator("p.yaml", []byte("version: 1\n"+text))
		if err != nil {
			t.Fatal(err)
		}
		return &o
	}
	user, ceiling := parse("protected: develop\n"), parse("protected: refs/remotes/origin/main\n")
	if got := ProtectedRef(user, ceiling); got != "refs/remotes/origin/main" {
		t.Errorf("with both: %q", got)
	}
	if got := ProtectedRef(user, parse("")); got != "develop" {
		t.Errorf("with the user's only: %q", got)
	}
	if got := ProtectedRef(nil, nil); got != "" {
		t.Errorf("with none: %q", got)
	}
	for _, bad := range []string{"-x", "a..b", "HEAD~1", "a b", "main^", "@{u}"} {
		if _, err := ParseOperator("p.yaml", []byte("version: 1\nprotected: \""+bad+"\"\n")); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
