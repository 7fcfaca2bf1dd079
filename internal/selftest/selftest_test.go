package selftest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/corpus"
	"sallyport.dev/sallyport/internal/testkit"
)

// TestTheJudgeCanSayNo: what gets through, what was never made and what ends otherwise than expected is not held.
func TestTheJudgeCanSayNo(t *testing.T) {
	programs, dir := testkit.Programs(t), t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		_ = os.Chmod(d, 0o755) // a sandbox has another id where we are root
	}
	for name, k := range map[string]struct{ header, files, says string }{
		"held":             {"expect: accepted", "-- agent --\necho new > new\n-- change --\nA\tnew\n", ""},
		"wins":             {"expect: accepted", "-- agent --\necho WON something; echo new > new\n", "it got through: WON something"},
		"breaks":           {"expect: accepted", "-- agent --\nx nothing; echo new > new\n", "the attack was not made: BROKEN x nothing"},
		"stops early":      {"expect: accepted", "-- agent --\necho new > new; exit 0\n", "did not come to its end"},
		"another end":      {"expect: rejected finding", "-- agent --\necho new > new\n", "it ended accepted"},
		"another reason":   {"expect: rejected finding", "-- agent --\ntrue\n", "it ended rejected, no-change"},
		"another change":   {"expect: accepted", "-- agent --\necho new > new\n-- change --\nA\tother\n", "the branch changes"},
		"words that lack":  {"expect: accepted\nlog: never said", "-- agent --\necho new > new\n", `"never said" is not in what`},
		"a secret shown":   {"expect: accepted\nsilent: a word", "-- agent --\necho a word; echo new > new\n", `"a word" is shown`},
		"a bad base":       {"expect: accepted or rejected", "-- agent --\necho new > new\n-- base/prog --\n#!/bin/sh\n", "on the base"},
		"outside is quiet": {"expect: accepted\nheard: fine", "-- agent --\necho new > new\n", "the outside did not hear"},
		"not applicable":   {"expect: accepted\nneeds: program no-such-program", "-- agent --\necho WON\n", "no-such-program is not installed"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := corpus.Parse("links/"+strings.ReplaceAll(name, " ", "-")+".txtar", []byte(k.header+"\nwhere: TestTheJudgeCanSayNo\nsource: this project\n"+k.files))
			if err != nil {
				t.Fatal(err)
			}
			told := 0
			all, err := Run(context.Background(), Config{Program: filepath.Join(programs, "sallyport"), Hostile: filepath.Join(programs, "sallyport-hostile"), Libexec: programs,
				Dir: dir, Cases: []corpus.Case{c}, Each: func(Outcome) { told++ }, Say: func(string) {}})
			if err != nil || len(all) != 1 || told != 1 {
				t.Fatalf("%v, %v, told %d", all, err, told)
			}
			want := NotHeld
			switch name {
			case "held":
				want = Held
			case "not applicable":
				want = NotApplicable
			}
			if all[0].Status != want || !strings.Contains(all[0].Detail, k.says) {
				t.Errorf("%+v, want %s with %q", all[0], want, k.says)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// TestCannotRun: without the program that attacks nothing is said to be held.
func TestCannotRun(t *testing.T) {
	programs := testkit.Programs(t)
	c := Config{Program: filepath.Join(programs, "sallyport"), Hostile: filepath.Join(programs, "no-such-program"), Libexec: programs, Dir: t.TempDir(), Say: func(string) {}}
	if _, err := Run(context.Background(), c); sallyport.CodeOf(err) != sallyport.CodeUnsupported || sallyport.HintOf(err) == "" {
		t.Errorf("%v", err)
	}
	c.Cases = []corpus.Case{{Class: "links", Name: "a", Needs: []string{"luck"}}}
	if _, err := Run(context.Background(), c); err == nil || !strings.Contains(err.Error(), `unknown need "luck"`) {
		t.Errorf("%v", err)
	}
}
