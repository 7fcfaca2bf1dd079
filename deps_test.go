package sallyport_test

import (
	"os/exec"
	"strings"
	"testing"
)

// arrows says which room may import which (docs/ARCHITECTURE.md, "The map"). A room that is not listed may
// import nothing of ours. Changing an arrow is a design decision: say why in the commit.
var arrows = map[string]string{
	"": "",

	"cmd/sallyport":           "internal/cli internal/contain internal/control internal/provider internal/provider/local",
	"cmd/sallyport-publisher": "internal/forge internal/forge/git internal/forge/gitea internal/forge/github internal/forge/gitlab internal/githubapp internal/publisher",
	"cmd/sallyport-keeper":    "internal/provider/local/keeper",
	"cmd/sallyport-runner":    "internal/runner",
	"cmd/sallyport-hostile":   "internal/contain/abi",

	// Pure rooms and leaves: the vocabulary only.
	"internal/id":             "",
	"internal/process":        "",
	"internal/provider":       "",
	"internal/lifecycle":      "",
	"internal/evidence":       "",
	"internal/screen":         "",
	"internal/review":         "internal/egress internal/screen",
	"internal/approval":       "",
	"internal/pulltext":       "internal/evidence internal/screen",
	"internal/pattern":        "",
	"internal/toolchain":      "",
	"internal/agent":          "internal/pattern",
	"internal/egress":         "",
	"internal/setup":          "",
	"internal/gateway":        "internal/egress",
	"internal/spend":          "internal/pattern",
	"internal/manifest":       "internal/checks internal/egress internal/pattern internal/setup",
	"internal/contain":        "internal/contain/abi",
	"internal/contain/abi":    "",
	"internal/contain/cgroup": "",
	"internal/collect":        "",
	"internal/checks":         "internal/pattern",
	"internal/secret":         "",
	"internal/githubapp":      "",
	"internal/credential":     "internal/githubapp",
	"internal/inspect":        "internal/checks internal/pattern internal/secret",
	"internal/decision":       "internal/inspect",
	"internal/reconcile":      "internal/lifecycle internal/provider",
	"internal/journal":        "internal/lifecycle internal/process",
	"internal/journal/sqlite": "internal/journal internal/lifecycle",
	"internal/change":         "internal/collect internal/lifecycle",
	"internal/forge":          "",
	"internal/publication":    "",
	// The Publisher decides nothing: it knows no policy, no journal of Mission Control, no provider.
	"internal/publisher":      "internal/approval internal/change internal/credential internal/evidence internal/forge internal/id internal/publication internal/pulltext internal/screen",
	"internal/forge/gitea":    "internal/forge",
	"internal/forge/git":      "internal/forge",
	"internal/forge/github":   "internal/forge internal/githubapp",
	"internal/forge/gitlab":   "internal/forge",
	"internal/wire":           "internal/provider",
	"internal/runner":         "internal/collect internal/contain internal/process internal/provider",
	"internal/provider/local": "internal/contain internal/contain/cgroup internal/id internal/process internal/provider internal/provider/local/keeper internal/runner internal/wire",
	// The keeper stands beside hostile code: it must not be able to reach policy, journal or keys.
	"internal/provider/local/keeper": "internal/contain internal/contain/cgroup internal/process internal/provider internal/runner internal/wire",

	// Mission Control: every room meets here, and no kind of provider.
	"internal/control": "internal/approval internal/publication internal/pulltext internal/agent internal/change internal/checks internal/collect internal/credential internal/decision internal/egress internal/evidence internal/gateway internal/id internal/inspect internal/journal internal/journal/sqlite internal/lifecycle internal/manifest internal/pattern internal/provider internal/reconcile internal/screen internal/secret internal/setup internal/spend internal/toolchain",
	"internal/cli":     "internal/approval internal/agent internal/control internal/corpus internal/egress internal/evidence internal/journal internal/lifecycle internal/manifest internal/pattern internal/review internal/screen internal/selftest",

	// The corpus of attacks, and what makes them: the main job is started as a program, as a person starts it.
	"internal/corpus":   "testdata/attacks",
	"internal/selftest": "internal/approval internal/change internal/collect internal/corpus internal/egress internal/evidence internal/publication internal/screen internal/wire",
}

// testRooms are imported by tests only; what they import is not ruled.
var testRooms = []string{"internal/testkit", "internal/corpus/corpustest", "internal/journal/journaltest", "internal/provider/providertest", "internal/agent/agenttest", "internal/gateway/gatewaytest", "internal/credential/credentialtest", "internal/evidence/evidencetest", "internal/forge/forgetest", "internal/forge/forgetest/", "internal/provider/fake", "tools/", "test/"}

func TestArrows(t *testing.T) {
	const module = "sallyport.dev/sallyport"
	out, err := exec.Command("go", "list", "-f", "{{.ImportPath}}{{range .Imports}} {{.}}{{end}}", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		room := strings.TrimPrefix(strings.TrimPrefix(words[0], module), "/")
		if isTestRoom(room) {
			continue
		}
		allowed, ok := arrows[room]
		if !ok {
			t.Errorf("room %q is not in the table", room)
		}
		for _, imp := range words[1:] {
			target, ours := strings.CutPrefix(imp, module)
			if !ours || target == "" {
				if room == "" && strings.Contains(strings.SplitN(imp, "/", 2)[0], ".") {
					t.Errorf("the vocabulary imports %s; it may import the standard library only", imp)
				}
				continue
			}
			target = strings.TrimPrefix(target, "/")
			if isTestRoom(target) {
				t.Errorf("%s imports %s, which only tests may", room, target)
			} else if !has(allowed, target) {
				t.Errorf("%s imports %s: no arrow allows it", room, target)
			}
		}
	}
}

func isTestRoom(room string) bool {
	for _, r := range testRooms {
		if room == r || strings.HasSuffix(r, "/") && strings.HasPrefix(room, r) {
			return true
		}
	}
	return false
}

func has(list, word string) bool {
	for _, w := range strings.Fields(list) {
		if w == word {
			return true
		}
	}
	return false
}

// The runner must be static and pure Go however it is built: under cgo the runtime cannot drop capabilities
// on all of its threads, and no library of the host is there to be loaded.
func TestRunnerLinksNoC(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "./cmd/sallyport-runner")
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range strings.Fields(string(out)) {
		if p == "net" || p == "os/user" || p == "runtime/cgo" {
			t.Errorf("the runner links %s", p)
		}
	}
}
