package fault

import (
	"slices"
	"testing"
)

func TestShort(t *testing.T) {
	functions := []string{"sallyport.dev/sallyport/internal/control.(*driver).execute", "main.open", "main.driver", "sallyport.dev/sallyport/internal/evidence.openKeyring"}
	known := func(n string) bool { return slices.Contains(functions, n) }
	for name, want := range map[string]string{
		"sallyport.dev/sallyport/internal/control.(*driver).execute.func1.2": "control.driver.execute",
		"sallyport.dev/sallyport/internal/control.(*driver).execute":         "control.driver.execute",
		"main.open.driver.func1": "main.driver", // inlined, of the same room
		"sallyport.dev/sallyport/internal/evidence.openKeyring.Mkdir.func3":         "evidence.openKeyring", // inlined, of another
		"sallyport.dev/sallyport/internal/provider/local/keeper.(*keeper).Start-fm": "provider/local/keeper.keeper.Start",
		"sallyport.dev/sallyport/internal/x.each[go.shape.string]":                  "x.each",
	} {
		if got := short(name, known); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestWho(t *testing.T) {
	for want, names := range map[string][]string{
		"control.writeDurable < control.driver.sign": {"control.writeDurable", "control.driver.sign", "control.driver.conclude"},
		"control.driver.quarantine":                  {"control.driver.quarantine", "control.driver.collect"},
		"":                                           nil,
	} {
		if got := who(names); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestWords(t *testing.T) {
	w := Words{Roots: []Root{{"/tmp/w/state", "state"}, {"/tmp/w", "world"}}}
	for path, want := range map[string]string{
		"/tmp/w/state/attempts/att_06h2w4zj21yqbccsxhz7qczcyr/agent.log":                      "state/attempts/att_ID/agent.log",
		"/tmp/w/state/local/allocations/alc_06h2w4zj21yqbccsxhz7qczcyr/data/home/x (deleted)": "state/local/allocations/alc_ID/data/…",
		"/tmp/w/state/factory.json":         "state/factory.json",
		"/tmp/w/said":                       "world/said",
		"/tmp/w/state/keys/.new-1234567890": "state/keys/.new-N",
		"/usr/bin/git":                      "elsewhere",
		"/sys/fs/cgroup/a/pids.max":         "cgroup: pids.max",
		"/tmp/w/state/.x.json812345":        "state/.x.jsonN",
	} {
		if got := w.path(path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
