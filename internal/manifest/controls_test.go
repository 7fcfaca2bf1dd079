package manifest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/checks"
)

func TestControls(t *testing.T) {
	rep := repository(t, `
parallel: 2
checks:
  - name: all
    run: make test
    base: pass
    new-tests-on-base: fail
    planted-fault: auto
    min-tests: 12
    tests-not-fewer: true
    report: {format: junit, path: build/junit.xml}
    retries: 2
  - {name: some, run: x, base: fail, planted-fault: checks/fault.patch, report: {format: go-json}, retries: 0, tests-not-fewer: false}
  - {name: any, run: x, base: any}
  - {name: none, run: x}
`)
	want := []sallyport.Check{
		{Name: "all", Run: "make test", Base: sallyport.CheckPassed, NewTestsOnBase: sallyport.CheckFailed, PlantedFault: "auto", MinTests: 12,
			TestsNotFewer: true, Report: &sallyport.CheckReport{Format: "junit", Path: "build/junit.xml"}, Retries: 2},
		{Name: "some", Run: "x", Base: sallyport.CheckFailed, PlantedFault: "checks/fault.patch", Report: &sallyport.CheckReport{Format: "go-json"}},
		{Name: "any", Run: "x"},
		{Name: "none", Run: "x"},
	}
	for i := range want {
		want[i].When, want[i].Tests, want[i].Timeout = []string{"**"}, []string{}, 15*time.Minute
	}
	if !reflect.DeepEqual(rep.Checks, want) || rep.Parallel != 2 {
		t.Errorf("got  %+v\nwant %+v", rep.Checks, want)
	}
	m := compiled(t, input(rep))
	if !reflect.DeepEqual(m.Checks, want) || m.Parallel != 2 {
		t.Errorf("compiled %+v", m.Checks)
	}
	data, digest, err := Freeze(m)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := Thaw(data, digest); err != nil || !reflect.DeepEqual(back, m) {
		t.Errorf("did not come back equal: %v", err)
	}
	// The Manifest shares no memory with the file it was made from.
	rep.Checks[0].Report.Path = "elsewhere"
	if m.Checks[0].Report.Path != "build/junit.xml" {
		t.Error("the report changed with its input")
	}
}

// A control that nobody asked for leaves the manifest's bytes as they were, so its digest still names the
// manifests of earlier versions.
func TestControlsLeaveNoTrace(t *testing.T) {
	data, err := json.Marshal(compiled(t, input(repository(t, "checks:\n- {name: a, run: x, base: any, retries: 0}\n"))).Checks[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"base", "new_tests", "planted", "min_tests", "fewer", "report", "retries"} {
		if strings.Contains(string(data), key) {
			t.Errorf("%s is in %s", key, data)
		}
	}
}

var someRules = map[string]Rule{"ci.changed": {Severity: sallyport.SeverityWarn}, "link.added": {Severity: sallyport.SeverityInfo},
	"link.outside": {Severity: sallyport.SeverityBlock, Floor: sallyport.SeverityWarn}}

// Law: over every combination of what ceiling, user and repository say of one rule, the result is never below
// the default unless an operator's file says so, never below the ceiling, and never below the repository.
func TestSeveritiesLaw(t *testing.T) {
	words := append([]string{""}, severityWords...)
	say := func(word string) string {
		if word == "" {
			return ""
		}
		return "findings: {ci.changed: " + word + "}\n"
	}
	const std = sallyport.SeverityWarn
	for _, ceiling := range words {
		for _, user := range words {
			for _, rep := range words {
				in := input(repository(t, say(rep)))
				in.Rules = someRules
				in.Ceiling, in.User = operator(t, "policy.yaml", say(ceiling)), operator(t, "config.yaml", say(user))
				m, err := Compile(in)
				name := fmt.Sprintf("ceiling %q, user %q, repository %q", ceiling, user, rep)
				if rep != "" && rankOf(sallyport.Severity(rep)) < rankOf(std) {
					expect(t, name, err, sallyport.CodeDenied, "sallyport.yaml:2:24", `findings.ci.changed "info" is lower than its default "warn"; a repository can only raise`, "lower it in your own configuration, or ask the operator")
					continue
				}
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				got, said := m.Severities["ci.changed"]
				if !said {
					got = std
				}
				if said != (ceiling+user+rep != "") {
					t.Errorf("%s: named %v", name, said)
				}
				for who, least := range map[string]string{"ceiling": ceiling, "repository": rep} {
					if least != "" && rankOf(got) < rankOf(sallyport.Severity(least)) {
						t.Errorf("%s: %s is below the %s", name, got, who)
					}
				}
				if rankOf(got) < rankOf(std) && ceiling != "info" && user != "info" {
					t.Errorf("%s: %s is below the default and no operator said so", name, got)
				}
				lowered := slices.ContainsFunc(m.Notices, func(n string) bool { return strings.Contains(n, "lower than its default") })
				if rankOf(got) < rankOf(std) && !lowered {
					t.Errorf("%s: lowered without a notice: %q", name, m.Notices)
				}
				if user == "info" && ceiling == "" && rep == "" && got != sallyport.SeverityInfo {
					t.Errorf("%s: the user could not lower it: %s", name, got)
				}
			}
		}
	}
	if m := compiled(t, input(repository(t, ""))); m.Severities != nil {
		t.Errorf("nobody named a rule: %v", m.Severities)
	}
}

func TestFloors(t *testing.T) {
	for _, role := range []func(in *Input, op *Operator){func(in *Input, op *Operator) { in.Ceiling = op }, func(in *Input, op *Operator) { in.User = op }} {
		in := input(nil)
		in.Rules = someRules
		role(&in, operator(t, "p.yaml", "findings: {link.outside: info}\n"))
		_, err := Compile(in)
		expect(t, "below the floor", err, sallyport.CodeDenied, "p.yaml:2:26", `findings.link.outside "info" is below "warn", its floor: the rule protects those who check the branch out, and Sallyport itself`, "leave the rule out; the change must do without")
		role(&in, operator(t, "p.yaml", "findings: {link.outside: warn}\n"))
		if m := compiled(t, in); m.Severities["link.outside"] != sallyport.SeverityWarn {
			t.Errorf("at the floor: %v", m.Severities)
		}
	}
}

func TestUnknownRules(t *testing.T) {
	for text, hint := range map[string]string{
		"findings: {ci.chnged: block}\n":  `did you mean "ci.changed"?`,
		"findings: {link.gone: block}\n":  "expected one of link.added, link.outside",
		"findings: {weather.bad: warn}\n": "",
	} {
		in := input(repository(t, text))
		in.Rules = someRules
		_, err := Compile(in)
		rule := text[len("findings: {"):strings.LastIndex(text, ":")]
		if at := fmt.Sprintf("sallyport.yaml:2:%d", strings.LastIndex(text, ":")+3); err == nil || sallyport.CodeOf(err) != sallyport.CodeInvalid ||
			!strings.Contains(err.Error(), at) || !strings.Contains(err.Error(), rule) || sallyport.HintOf(err) != hint {
			t.Errorf("%q: %v, hint %q", text, err, sallyport.HintOf(err))
		}
	}
	// A caller that knows no rules takes none: a typing error must not pass for a rule.
	if _, err := Compile(input(repository(t, "findings: {ci.changed: block}\n"))); sallyport.CodeOf(err) != sallyport.CodeInvalid {
		t.Errorf("without rules: %v", err)
	}
}

func TestParallel(t *testing.T) {
	for _, w := range []struct {
		name   string
		in     func() Input
		want   int
		notice string
	}{
		{"not said", func() Input { return input(repository(t, "")) }, 1, ""},
		{"no file", func() Input { return input(nil) }, 1, ""},
		{"said", func() Input { return input(repository(t, "parallel: 3\n")) }, 3, ""},
		{"the user's default", func() Input {
			in := input(repository(t, ""))
			in.User = operator(t, "config.yaml", "parallel: 2\n")
			return in
		}, 2, ""},
		{"the ceiling", func() Input {
			in := input(repository(t, "parallel: 3\n"))
			in.Ceiling = operator(t, "policy.yaml", "parallel: 2\n")
			return in
		}, 2, "parallel is 2: the bound at policy.yaml:2:11"},
		{"processors", func() Input { return input(repository(t, "parallel: 9\nlimits: {memory: 1GiB}\n")) }, 8, "parallel is 8: this machine has no more processors"},
		{"memory", func() Input { return input(repository(t, "parallel: 3\nlimits: {memory: 30GiB}\n")) }, 2, "parallel is 2: this machine's memory holds no more of limits.memory"},
		{"more memory than there is", func() Input { return order(t, input(repository(t, "parallel: 3\n")), "limits: {memory: 65GiB}\n") }, 1, "parallel is 1: this machine's memory holds no more of limits.memory"},
	} {
		m := compiled(t, w.in())
		if m.Parallel != w.want || w.notice != "" && !slices.Contains(m.Notices, w.notice) {
			t.Errorf("%s: %d, %q", w.name, m.Parallel, m.Notices)
		}
	}
}

func TestCopies(t *testing.T) {
	in := input(repository(t, "copy: [.env, web/.env.local]\n"))
	in.User = operator(t, "config.yaml", "copy: [.envrc, .env]\n")
	m := compiled(t, in)
	if want := []string{".envrc", ".env", "web/.env.local"}; !reflect.DeepEqual(m.Copies, want) {
		t.Errorf("got %q", m.Copies)
	}
	if want := "the agent is given files of your working tree and can read them: .envrc, .env, web/.env.local"; !slices.Contains(m.Notices, want) {
		t.Errorf("notices %q", m.Notices)
	}
	// What the repository asks for needs the operator's grant, like any other of its asks.
	in.Granted = ""
	_, err := Compile(in)
	expect(t, "not granted", err, sallyport.CodeDenied, "sallyport.yaml:2:8", "the repository asks for copy .env, copy web/.env.local, which nobody has granted", "look at it and grant it: sallyport trust")
	in.Granted = AsksDigest(*repository(t, "copy: [.env]\n"))
	if _, err := Compile(in); sallyport.CodeOf(err) != sallyport.CodeDenied {
		t.Errorf("granted for another file: %v", err)
	}
	// The work order's add up, as flags or in its file, and nobody's are beyond a policy that forbids grants.
	wo := order(t, input(nil), "copy: [a]\n")
	if m := compiled(t, flags(wo, sallyport.WorkOrder{Copies: []string{"b", "a"}})); !reflect.DeepEqual(m.Copies, []string{"a", "b"}) {
		t.Errorf("work order and flags: %q", m.Copies)
	}
	wo.Ceiling = operator(t, "policy.yaml", "grants: forbid\n")
	_, err = Compile(wo)
	expect(t, "forbidden", err, sallyport.CodeDenied, "w.yaml:3:7", `copy "a" goes beyond policy, and the policy at policy.yaml:2:9 forbids grants`, "ask the operator")
	wo.Ceiling = operator(t, "policy.yaml", "grants: forbid\ncopy: [a]\n")
	if m := compiled(t, wo); !reflect.DeepEqual(m.Copies, []string{"a"}) {
		t.Errorf("the operator's own: %q", m.Copies)
	}
	_, err = Compile(flags(input(nil), sallyport.WorkOrder{Copies: []string{"../x"}}))
	expect(t, "by flag", err, sallyport.CodeInvalid, "flag copy", "expected "+wantFile+`, found "../x"`, "")
	if m := compiled(t, input(repository(t, "copy: []\n"))); m.Copies != nil {
		t.Errorf("nothing asked: %q", m.Copies)
	}
	if AsksDigest(*repository(t, "copy: []\n")) != AsksDigest(*repository(t, "")) {
		t.Error("asking for nothing has another digest")
	}
}

// What init proposes to count is counted from what the detected commands print, and nothing is not one.
func TestInitCountsWhatIsPrinted(t *testing.T) {
	for lang, out := range map[string][2]string{
		"go":     {"ok  \texample.com/x\t0.012s\n", "?   \texample.com/x\t[no test files]\n"},
		"python": {"===== 3 passed in 0.12s =====\n", "===== no tests ran in 0.01s =====\n"},
		"rust":   {"running 2 tests\ntest a ... ok\ntest b ... ok\n\ntest result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n", "running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n"},
		"maven":  {"[INFO] Tests run: 4, Failures: 0, Errors: 0, Skipped: 0\n", "[INFO] Tests run: 0, Failures: 0, Errors: 0, Skipped: 0\n"},
	} {
		for i, text := range out {
			tally, err := checks.Read("", strings.NewReader(text))
			if err != nil || i == 0 && (tally == nil || tally.Tests < 1 || tally.Format != countedBy[lang]) || i == 1 && tally != nil && tally.Tests > 0 {
				t.Errorf("%s: %q counts %+v, %v", lang, text, tally, err)
			}
		}
	}
	if len(countedBy) != 4 {
		t.Errorf("a language has no row here: %v", countedBy)
	}
}

// Law: what init proposes as a comment is valid once it is uncommented, in each language.
func TestInitControls(t *testing.T) {
	comment := regexp.MustCompile(`(?m)^    # ((?:min-tests|tests-not-fewer|base|new-tests-on-base|planted-fault): .*)$`)
	top := regexp.MustCompile(`(?m)^# ((?:parallel|findings|copy): .*)$`)
	for _, probe := range append(slices.Clone(probes), probe{lang: "make"}) {
		data := InitFile(Detection{Checks: []Detected{{Name: "test", Lang: probe.lang, Run: "x"}}})
		data = top.ReplaceAll(comment.ReplaceAll(data, []byte("    $1")), []byte("$1"))
		rep, err := ParseRepository("s", data)
		if err != nil {
			t.Errorf("%s: %v\n%s", probe.lang, err, data)
			continue
		}
		c := rep.Checks[0]
		if c.Base != sallyport.CheckPassed || c.NewTestsOnBase != sallyport.CheckFailed || c.PlantedFault != AutoFault {
			t.Errorf("%s: %+v", probe.lang, c)
		}
		format, counted := countedBy[probe.lang]
		if counted != (c.MinTests == 1 && c.TestsNotFewer) || counted && !slices.Contains(checks.Formats(), format) {
			t.Errorf("%s: counted %v: %+v", probe.lang, counted, c)
		}
		if rep.Parallel != 1 || rep.Findings["ci.changed"] != sallyport.SeverityBlock || !slices.Equal(rep.Copy, []string{".env"}) {
			t.Errorf("%s: %+v", probe.lang, rep)
		}
	}
}
