package control_test

import (
	"testing"

	"sallyport.dev/sallyport"
)

// TestReportIsOfThisRun: a report file that lay in the tree before the check ran tells of no test.
func TestReportIsOfThisRun(t *testing.T) {
	w := newWorld(t, map[string]string{
		"sallyport.yaml": "version: 1\nchecks:\n  - {name: test, run: sh test.sh, timeout: 1m, min-tests: 1, report: {format: tap, path: build/report.tap}}\npublish: {to: none, approve: never}\n",
		"code.sh":        ":\n", "test.sh": ". ./code.sh\nmkdir -p build\nprintf '1..1\\nok 1 - works\\n' > build/report.tap\n",
	})
	at := w.run(sallyport.WorkOrder{Task: "cheat", Command: []string{"sh", "-c", "echo exit 0 > code.sh; mkdir build; printf 'TAP version 13\\n1..2\\nok 1 - a\\nok 2 - b\\n' > build/report.tap"}})
	if r := at.Report; r.State != sallyport.AttemptRejected {
		t.Errorf("%s: %+v, tests %+v", r.State, r.Reason, r.Checks[0].Tests)
	}
	at = w.run(sallyport.WorkOrder{Task: "honest", Command: []string{"sh", "-c", "echo : better > code.sh"}})
	if r := at.Report; r.State != sallyport.AttemptAccepted || r.Checks[0].Tests == nil {
		t.Errorf("%s: %+v, tests %+v", r.State, r.Reason, r.Checks[0].Tests)
	}
}

// tapShop runs the scripts in tests/ and tells of them in TAP; what tests/setup has is run before.
func tapShop(t *testing.T, control string) *world {
	return newWorld(t, map[string]string{
		"sallyport.yaml": "version: 1\nchecks:\n  - {name: test, run: sh run.sh, timeout: 1m, " + control + "}\npublish: {to: none, approve: never}\n",
		"value":          "wrong\n", "code.sh": ":\n", "tests/old.sh": "true\n",
		"run.sh": ". ./code.sh\nif [ -e tests/setup ]; then . ./tests/setup; fi\necho TAP version 13\nn=0 bad=0\nfor t in tests/*.sh; do\n  n=$((n+1))\n  if sh $t; then echo ok $n - $t; else echo not ok $n - $t; bad=1; fi\ndone\necho 1..$n\nexit $bad\n",
	})
}

// TestOnlyATestThatSaysNoShowsThatTestsFail: that the check fails on the base before any of the change's tests has
// run shows nothing of them.
func TestOnlyATestThatSaysNoShowsThatTestsFail(t *testing.T) {
	w := tapShop(t, "new-tests-on-base: fail")
	for name, c := range map[string]struct {
		script string
		state  sallyport.AttemptState
		code   string
	}{
		"fails on the base":           {"echo right > value; echo 'grep -q right value' > tests/new.sh", sallyport.AttemptAccepted, "checks-passed"},
		"passes on the base":          {"echo right > value; echo true > tests/new.sh", sallyport.AttemptRejected, "control-not-held"},
		"is not reached on the base":  {"echo > marker; echo true > tests/new.sh; echo '[ -e marker ] || exit 1' > tests/setup", sallyport.AttemptAwaitingApproval, "control-not-shown"},
		"none is there on the base":   {"echo > marker; echo true > tests/new.sh; echo '[ -e marker ] || { echo TAP version 13; echo 1..0; exit 1; }' > tests/setup", sallyport.AttemptAwaitingApproval, "control-not-shown"},
		"nothing happens on the base": {"echo > marker; echo true > tests/new.sh; echo '[ -e marker ] || exit 0' > tests/setup", sallyport.AttemptRejected, "control-not-held"},
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			if r := w.run(sallyport.WorkOrder{Task: name, Command: []string{"sh", "-c", c.script}}).Report; r.State != c.state || r.Reason.Code != c.code {
				t.Errorf("%s: %+v; want %s, %s", r.State, r.Reason, c.state, c.code)
			}
		})
	}
}

// TestFaultThatStopsEverythingShowsNothing: that a line which does nothing but guard an exit is made another is noticed
// by no test.
func TestFaultThatStopsEverythingShowsNothing(t *testing.T) {
	w := newWorld(t, map[string]string{
		"sallyport.yaml": "version: 1\nchecks:\n  - {name: test, run: python3 -B run.py, timeout: 1m, planted-fault: auto, report: {format: tap}}\npublish: {to: none, approve: never}\n",
		"run.py":         "import code_\nprint('TAP version 13\\n1..1')\nprint('ok 1 - right' if code_.right() else 'not ok 1 - right')\nraise SystemExit(not code_.right())\n",
		"code_.py":       "def right():\n    return True\n",
	})
	r := w.run(sallyport.WorkOrder{Task: "guard", Command: []string{"sh", "-c", "printf 'n = 1\\nif n != 1:\\n    raise SystemExit(1)\\nif n < 1:\\n    raise SystemExit(1)\\ndef right():\\n    return True\\n' > code_.py"}}).Report
	if r.State == sallyport.AttemptAccepted {
		t.Errorf("%s: %+v, %+v", r.State, r.Reason, r.Checks[0].Controls)
	}
}
