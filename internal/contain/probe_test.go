package contain

import (
	"os"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
)

var probedLayers = []sallyport.Layer{sallyport.LayerProcess, sallyport.LayerFilesystem, sallyport.LayerSyscalls, sallyport.LayerNetwork, sallyport.LayerCredentials}

func TestProbesHold(t *testing.T) {
	for who, user := range starters(t) {
		t.Run(who, func(t *testing.T) {
			got := probes(t, scene{Target: hostTargets(t)}, user)
			for _, l := range probedLayers {
				r := got[l]
				t.Logf("%s %s: %s [weaker: %s]", r.Layer, r.Status, r.Proof, r.Weaker)
				if r.Status != sallyport.LayerHeld || r.Grade != sallyport.GradeProbe {
					t.Errorf("%s is %s (%s): %s", l, r.Status, r.Grade, r.Proof)
				}
				if strings.Contains(r.Proof, "\n") || r.Proof == "" {
					t.Errorf("%s: the proof is not one line: %q", l, r.Proof)
				}
			}
			if weak := got[sallyport.LayerProcess].Weaker != ""; weak != user {
				t.Errorf("weaker process layer: %v with one id mapped: %v", weak, user)
			}
		})
	}
}

// Each row leaves one thing out; exactly the named layers must notice, and the proof must name the trial.
func TestProbesFail(t *testing.T) {
	rows := []struct {
		omit    string
		layers  []sallyport.Layer
		trial   string
		rootOut bool              // does not apply where one id is mapped
		user    []sallyport.Layer // layers that notice in addition where one id is mapped
	}{
		{omit: "seccomp", layers: []sallyport.Layer{sallyport.LayerSyscalls, sallyport.LayerNetwork}, trial: "bpf"},
		{omit: "landlock", layers: []sallyport.Layer{sallyport.LayerFilesystem}, trial: "Landlock",
			user: []sallyport.Layer{sallyport.LayerProcess}}, // only Landlock keeps signals from a pid 1 of the same uid
		{omit: "bounding", layers: []sallyport.Layer{sallyport.LayerProcess}, trial: "CapBnd"},
		{omit: "capabilities", layers: []sallyport.Layer{sallyport.LayerProcess}, trial: "CapEff"},
		{omit: "ids", layers: []sallyport.Layer{sallyport.LayerProcess}, trial: "uid", rootOut: true},
		{omit: "net", layers: []sallyport.Layer{sallyport.LayerNetwork}, trial: "the host's loopback"},
		{omit: "pid", layers: []sallyport.Layer{sallyport.LayerProcess}, trial: ""},
		{omit: "seal", layers: []sallyport.Layer{sallyport.LayerCredentials}, trial: "descriptors"},
		{omit: "no_new_privs,landlock,seccomp", trial: "NoNewPrivs", // the kernel refuses the other two without it
			layers: []sallyport.Layer{sallyport.LayerProcess, sallyport.LayerFilesystem, sallyport.LayerSyscalls, sallyport.LayerNetwork}},
		{omit: "root", layers: []sallyport.Layer{sallyport.LayerFilesystem}, trial: "find "},
	}
	for who, user := range starters(t) {
		for _, row := range rows {
			if row.rootOut && user {
				continue
			}
			t.Run(who+"/"+row.omit, func(t *testing.T) {
				got := probes(t, scene{Omit: row.omit, Target: hostTargets(t)}, user)
				wanted := map[sallyport.Layer]bool{}
				if user && landlockABI() >= 6 { // before, it cannot scope signals, and the layer is weaker from the start
					row.layers = append(row.layers[:len(row.layers):len(row.layers)], row.user...)
				}
				for _, l := range row.layers {
					wanted[l] = true
				}
				for _, l := range probedLayers {
					r := got[l]
					if wanted[l] && (r.Status != sallyport.LayerNotHeld || r.Fix == "") {
						t.Errorf("without %s, %s is %s (fix %q): %s", row.omit, l, r.Status, r.Fix, r.Proof)
					}
					if !wanted[l] && r.Status != sallyport.LayerHeld {
						t.Errorf("without %s, %s is %s too: %s", row.omit, l, r.Status, r.Proof)
					}
				}
				if r := got[row.layers[0]]; !strings.Contains(r.Proof, row.trial) {
					t.Errorf("proof does not name %q: %s", row.trial, r.Proof)
				}
			})
		}
	}
}

// Targets that were not given are trials that were not made.
func TestProbesWithoutTargets(t *testing.T) {
	got := probes(t, scene{}, os.Getuid() != 0)
	for _, l := range []sallyport.Layer{sallyport.LayerNetwork, sallyport.LayerCredentials} {
		if got[l].Status != sallyport.LayerNotHeld {
			t.Errorf("%s without targets: %s", l, got[l].Proof)
		}
	}
}

func TestEnvironmentPatterns(t *testing.T) {
	target := Targets{ForbidNames: []string{"*_TOKEN", "AWS_*"}, AllowNames: []string{"OPENAI_TOKEN"}, ForbidValues: []string{"ghp_"}}
	for _, k := range []struct {
		entry string
		held  bool
	}{
		{"PATH=/usr/bin", true},
		{"OPENAI_TOKEN=placeholder", true},
		{"OPENAI_TOKEN=ghp_abc", false}, // an excused name excuses no value
		{"GITHUB_TOKEN=x", false},
		{"github_token=x", false},
		{"AWS_REGION=eu", false},
		{"NOTES=see ghp_abc", false},
		{"ghp_abc", false},
	} {
		target.Env = []string{"HOME=/h", k.entry}
		p := &trials{layer: sallyport.LayerCredentials}
		p.environment(target)
		r := p.report()
		if held := r.Status == sallyport.LayerHeld; held != k.held {
			t.Errorf("%s: held %v: %s", k.entry, held, r.Proof)
		}
		if strings.Contains(r.Proof, "ghp_abc") && !strings.HasPrefix(k.entry, "ghp_") {
			t.Errorf("the proof shows a value: %s", r.Proof)
		}
	}
}

// An empty list of trials, and an empty Targets, hold nothing.
func TestNothingTriedIsNotHeld(t *testing.T) {
	if r := (&trials{}).report(); r.Status != sallyport.LayerNotHeld {
		t.Fatal(r)
	}
}
