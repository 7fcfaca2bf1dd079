package manifest

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/bmatcuk/doublestar/v4"
	"pgregory.net/rapid"

	"sallyport.dev/sallyport"
)

// manifests draws any Manifest that Freeze must take: no nil list, UTF-8 text, whole numbers up to 2^53.
func manifests(t *rapid.T) sallyport.Manifest {
	text := rapid.String()
	list := rapid.SliceOf(text)
	dict := rapid.MapOf(text, text)
	number := rapid.Int64Range(0, 1<<53)
	m := sallyport.Manifest{Version: 1, WorkOrder: sallyport.WorkOrderID(text.Draw(t, "wo")), Name: text.Draw(t, "name"), Task: text.Draw(t, "task"),
		Repository: text.Draw(t, "repo"), Base: sallyport.ObjectID(text.Draw(t, "base")), Policy: sallyport.Source{Kind: text.Draw(t, "kind"), Ref: text.Draw(t, "ref")},
		Agent: sallyport.Agent{Command: list.Draw(t, "cmd"), Env: dict.Draw(t, "aenv")}, Env: dict.Draw(t, "env"), Path: list.Draw(t, "path"),
		Scope:  sallyport.Scope{Deny: list.Draw(t, "deny")},
		Limits: sallyport.Limits{Time: time.Duration(number.Draw(t, "time")), Memory: number.Draw(t, "mem"), CPU: rapid.Float64Range(0, 1e6).Draw(t, "cpu")},
		Mounts: []sallyport.Mount{}, Checks: []sallyport.Check{}, Require: []sallyport.Layer{}, Attempts: int(rapid.Int32().Draw(t, "n")),
		Egress: []sallyport.EgressRule{}, Notices: list.Draw(t, "notices"), Terminal: rapid.Bool().Draw(t, "tty")}
	if rapid.Bool().Draw(t, "copies?") {
		m.Copies = rapid.SliceOfN(text, 1, 3).Draw(t, "copies")
		m.Severities = map[string]sallyport.Severity{text.Draw(t, "rule"): sallyport.SeverityWarn}
	}
	if rapid.Bool().Draw(t, "allow?") {
		m.Scope.Allow = ptr(list.Draw(t, "allow"))
	}
	if rapid.Bool().Draw(t, "endpoint?") {
		m.Agent.Endpoint = &sallyport.Endpoint{Paths: list.Draw(t, "paths"), Upstream: text.Draw(t, "up")}
	}
	for range rapid.IntRange(0, 3).Draw(t, "checks") {
		m.Checks = append(m.Checks, sallyport.Check{MinTests: int(rapid.Int32().Draw(t, "min")), PlantedFault: text.Draw(t, "fault"), TestsNotFewer: rapid.Bool().Draw(t, "fewer"), Name: text.Draw(t, "c"), When: list.Draw(t, "when"), Tests: list.Draw(t, "tests"), Timeout: time.Duration(number.Draw(t, "to"))})
		m.Mounts = append(m.Mounts, sallyport.Mount{Path: text.Draw(t, "m"), Hide: list.Draw(t, "hide")})
	}
	for range rapid.IntRange(0, 2).Draw(t, "credentials") {
		k := sallyport.Credential{Name: text.Draw(t, "k"), Hosts: list.Draw(t, "hosts"), Header: text.Draw(t, "header"), Env: text.Draw(t, "kenv")}
		if rapid.Bool().Draw(t, "app?") {
			k.Source.GitHubApp = &sallyport.GitHubApp{App: text.Draw(t, "app"), Installation: number.Draw(t, "inst"), Repositories: list.Draw(t, "repos"), Permissions: dict.Draw(t, "perms")}
		} else {
			k.Source.Command, k.Source.Timeout = rapid.SliceOfN(text, 1, 3).Draw(t, "kcmd"), time.Duration(number.Draw(t, "kto"))
		}
		m.Credentials = append(m.Credentials, k)
	}
	return m
}

// Law: what was frozen comes back equal, and freezes to the same bytes again.
func TestFreezeThaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := manifests(t)
		data, digest, err := Freeze(m)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Thaw(data, digest)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(m, back) {
			t.Fatalf("got %+v, want %+v", back, m)
		}
		again, digest2, err := Freeze(back)
		if err != nil || !bytes.Equal(again, data) || digest2 != digest || digest != sallyport.Sum(data) {
			t.Fatalf("not the same again: %v", err)
		}
	})
}

func TestFreezeRefuses(t *testing.T) {
	good := compiled(t, input(nil))
	for name, spoil := range map[string]func(m *sallyport.Manifest){
		"checks":               func(m *sallyport.Manifest) { m.Checks = nil },
		"env":                  func(m *sallyport.Manifest) { m.Env = nil },
		"mounts[0].hide":       func(m *sallyport.Manifest) { m.Mounts[0].Hide = nil },
		"scope.allow":          func(m *sallyport.Manifest) { m.Scope.Allow = new([]string) },
		"manifest  ":           func(m *sallyport.Manifest) { m.Copies = []string{} },
		"checks[0].when":       func(m *sallyport.Manifest) { m.Checks = []sallyport.Check{{Tests: []string{}}} },
		"version":              func(m *sallyport.Manifest) { m.Version = 2 },
		"manifest":             func(m *sallyport.Manifest) { m.Task = "\xff" },
		"manifest ":            func(m *sallyport.Manifest) { m.Limits.Disk = 1<<53 + 1 },
		"agent.endpoint.paths": func(m *sallyport.Manifest) { m.Agent.Endpoint = &sallyport.Endpoint{} },
	} {
		m := compiled(t, input(nil))
		spoil(&m)
		_, _, err := Freeze(m)
		if sallyport.CodeOf(err) != sallyport.CodeInvalid || !strings.HasPrefix(err.Error(), "freeze manifest: "+strings.TrimSpace(name)+": ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := Freeze(good); err != nil {
		t.Error(err)
	}
}

func TestThawRefuses(t *testing.T) {
	data, digest, err := Freeze(compiled(t, input(nil)))
	if err != nil {
		t.Fatal(err)
	}
	edit := func(old, new string) []byte {
		out := bytes.Replace(data, []byte(old), []byte(new), 1)
		if bytes.Equal(out, data) {
			t.Fatalf("%q is not in the manifest", old)
		}
		return out
	}
	for name, w := range map[string]struct {
		data []byte
		code sallyport.Code
	}{
		"unknown key":     {edit(`{"agent"`, `{"aaa":1,"agent"`), sallyport.CodeCorrupt},
		"repeated key":    {edit(`"attempts":1`, `"attempts":1,"attempts":1`), sallyport.CodeCorrupt},
		"last one wins":   {edit(`"attempts":1`, `"attempts":9,"attempts":1`), sallyport.CodeCorrupt},
		"other case":      {edit(`"attempts":1`, `"Attempts":1`), sallyport.CodeCorrupt},
		"missing key":     {edit(`"attempts":1,`, ``), sallyport.CodeCorrupt},
		"null list":       {edit(`"checks":[]`, `"checks":null`), sallyport.CodeCorrupt},
		"space":           {edit(`"checks":[]`, `"checks": []`), sallyport.CodeCorrupt},
		"trailing text":   {append(bytes.Clone(data), '\n'), sallyport.CodeCorrupt},
		"escaped letter":  {edit(`"local"`, `"\u006cocal"`), sallyport.CodeCorrupt},
		"wrong type":      {edit(`"attempts":1`, `"attempts":"1"`), sallyport.CodeCorrupt},
		"not JSON":        {[]byte("version: 1"), sallyport.CodeCorrupt},
		"another version": {edit(`"version":1`, `"version":2`), sallyport.CodeUnsupported},
	} {
		if _, err := Thaw(w.data, sallyport.Sum(w.data)); sallyport.CodeOf(err) != w.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Thaw(edit(`"attempts":1`, `"attempts":2`), digest); sallyport.CodeOf(err) != sallyport.CodeCorrupt {
		t.Errorf("another digest: %v", err)
	}
	if !json.Valid(data) {
		t.Error("canonical form is not JSON")
	}
}

// Law: where covers says yes, every path that the inner pattern matches is matched by the outer one.
func TestCoversIsSound(t *testing.T) {
	yes := 0
	part := rapid.SampledFrom([]string{"**", "*", "a", "b", "a*", "*.go", "?", "[ab]", "{a,b}", "{a/b,c}", "x.go", "{a,**}"})
	word := rapid.SampledFrom([]string{"a", "b", "c", "ab", "x.go", ".a"})
	rapid.Check(t, func(t *rapid.T) {
		outer := strings.Join(rapid.SliceOfN(part, 1, 4).Draw(t, "outer"), "/")
		inner := strings.Join(rapid.SliceOfN(part, 1, 4).Draw(t, "inner"), "/")
		if !covers(outer, inner) {
			return
		}
		yes++
		for range 40 {
			p := strings.Join(rapid.SliceOfN(word, 1, 5).Draw(t, "path"), "/")
			if in, _ := doublestar.Match(inner, p); in {
				if out, _ := doublestar.Match(outer, p); !out {
					t.Fatalf("%q is matched by %q and not by %q", p, inner, outer)
				}
			}
		}
	})
	if yes == 0 {
		t.Error("covers never said yes")
	}
}

func TestCovers(t *testing.T) {
	for _, w := range []struct {
		outer, inner string
		want         bool
	}{
		{"**", "a/b/*.go", true}, {"web/**", "web/src/**", true}, {"web/**", "web", true}, {"web/*", "web/a.js", true}, {"**/*.go", "a/b.go", true},
		{"web/*", "web/**", false}, {"web/**", "**", false}, {"web/**", "webs/a", false}, {"*.go", "a/b.go", false}, {"a/{b,c}/**", "a/{b,c}/**", true},
		{"a/{b,c}/**", "a/b/**", false}, // certain only to a reader of braces
		{strings.Repeat("**/a/", 40) + "b", strings.Repeat("a/", 200) + "c", false},
	} {
		if got := covers(w.outer, w.inner); got != w.want {
			t.Errorf("covers(%q, %q) = %v", w.outer, w.inner, got)
		}
	}
}

// Law: the name of any task is a name, gives the same again, and git takes it in a branch.
func TestNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		task := rapid.OneOf(rapid.String(), rapid.StringMatching(`[A-Za-z .,#@{}~^:?*\\/-]{0,80}`)).Draw(t, "task")
		wo := sallyport.WorkOrder{Task: task, Command: []string{"x"}}
		name := Name(wo)
		if want := nameRule(name); want != "" || len(name) > slugLength || name != Name(wo) {
			t.Fatalf("%q gives %q: %s", task, name, want)
		}
	})
	for task, want := range map[string]string{
		"Fix the rounding in invoice totals (#1432); add a test.": "fix-the-rounding-in-invoice-totals-1432",
		"fix #12":               "fix-12",
		"Übergrößen prüfen":     "ubergro-en-prufen-" + Name(sallyport.WorkOrder{Task: "Übergrößen prüfen"})[18:],
		"Don't panic":           "dont-panic",
		strings.Repeat("a", 60): strings.Repeat("a", 40),
		"refs/heads/x.lock":     "refs-heads-x-lock",
		"one two three four five six seven eight nine": "one-two-three-four-five-six-seven-eight",
	} {
		if got := Name(sallyport.WorkOrder{Task: task}); got != want {
			t.Errorf("%q gives %q, want %q", task, got, want)
		}
	}
	if a, b := slug("修正 #12"), slug("削除 #12"); a == b || !strings.HasPrefix(a, "12-") {
		t.Errorf("two tasks share a name: %q %q", a, b)
	}
	if got := Name(sallyport.WorkOrder{Command: []string{"/bin/sh", "-c", "echo hi > x"}}); got != "sh-c-echo-hi-x" {
		t.Errorf("command gives %q", got)
	}
}

// git itself must agree about names, also about those a person chooses.
func TestNamesAreRefs(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal("this test needs git")
	}
	for _, name := range []string{"a", "a.b", "A_1-x", "x.lock", "a..b", "-a", ".a", "a.", "a/b", "a b", "@", "a@{1}", "a~1", "x.LOCK", "HEAD", "é", "a\n", "9"} {
		ok := exec.Command(git, "check-ref-format", "refs/heads/sallyport/"+name).Run() == nil
		if nameRule(name) == "" && !ok {
			t.Errorf("%q passes, and git refuses it", name)
		}
	}
	for _, name := range []string{"a", "a.b", "A_1-x", "9", "fix-1432"} {
		if want := nameRule(name); want != "" {
			t.Errorf("%q: %s", name, want)
		}
	}
}

func TestWorkOrderID(t *testing.T) {
	id := WorkOrderID("/home/ann/repo", "fix-1432")
	if err := sallyport.CheckID(sallyport.WorkOrderPrefix, string(id)); err != nil {
		t.Error(err)
	}
	// The value is in journals: another one would make a second WorkOrder of the same work.
	if id != "wo_rjxy980b02xk7rzb3vjavxp4ag" {
		t.Errorf("got %s", id)
	}
	seen := map[sallyport.WorkOrderID]string{id: "first"}
	for _, w := range [][2]string{{"/home/ann/repo", "fix-1433"}, {"/home/ann/repo2", "fix-1432"}, {"/home/ann/repofix", "-1432"}} {
		other := WorkOrderID(w[0], w[1])
		if seen[other] != "" {
			t.Errorf("%v has the id of %s", w, seen[other])
		}
		seen[other] = w[0]
	}
}
