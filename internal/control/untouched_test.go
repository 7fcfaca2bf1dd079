package control_test

import (
	"strings"
	"testing"

	"sallyport.dev/sallyport"
)

// TestCheckThatRewritesWhatItIsJudgedBy: whatever the code under test does to the tests while it is checked, the
// pass is not one of the tree that would be published.
func TestCheckThatRewritesWhatItIsJudgedBy(t *testing.T) {
	w := newWorld(t, map[string]string{
		"sallyport.yaml": "version: 1\nchecks:\n  - {name: test, run: sh test.sh, timeout: 1m}\npublish: {to: none, approve: never}\n",
		"value":          "wrong\n", "lib/code.sh": ":\n", "sum/deep/right_test.sh": "grep -q right value\n",
		"test.sh": ". ./lib/code.sh\nfor t in sum/*/*_test.sh; do\n  if [ -f \"$t\" ]; then sh \"$t\" || exit 1; fi\ndone\n",
	})
	for name, c := range map[string]struct{ code, says string }{
		"overwrites a test":                   {"echo true > sum/deep/right_test.sh", "sum/deep/right_test.sh"},
		"removes the folder of tests":         {"rm -rf sum", "sum/deep/right_test.sh"},
		"moves the folder of tests":           {"mv sum elsewhere", "sum/deep/right_test.sh"},
		"makes the folder of tests anew":      {"rm -rf sum; mkdir -p sum/deep; echo true > sum/deep/other.sh", "sum/deep/right_test.sh"},
		"puts a file over the folder":         {"rm -rf sum/deep; echo x > sum/deep", "sum/deep/right_test.sh"},
		"puts a link over the folder":         {"mkdir other; rm -rf sum/deep; ln -s ../other sum/deep", "sum/deep/right_test.sh"},
		"puts a folder over a test":           {"rm sum/deep/right_test.sh; mkdir sum/deep/right_test.sh; echo x > sum/deep/right_test.sh/x", "sum/deep/right_test.sh"},
		"brings what a runner loads":          {"echo x > conftest.py", "conftest.py"},
		"brings what a runner loads, by text": {"mkdir -p more; printf 'package more\\nimport \"testing\"\\nfunc TestMain(m *testing.M) {}\\n' > more/main_test.go", "more/main_test.go"},
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			at := w.run(sallyport.WorkOrder{Task: name, Command: []string{"sh", "-c", `echo "$1" > lib/code.sh; echo right > value`, "sh", c.code}})
			r := at.Report
			if at.Report.State != sallyport.AttemptRejected || r.Reason.Code != "control-not-held" || !strings.Contains(r.Reason.Message, c.says) {
				t.Errorf("%s: %+v; want rejected for %s", r.State, r.Reason, c.says)
			}
		})
	}
}

// TestCheckThatWritesTooMuch: what cannot be looked through is no fault of the Attempt; a person decides.
func TestCheckThatWritesTooMuch(t *testing.T) {
	w := newWorld(t, map[string]string{
		"sallyport.yaml": "version: 1\nchecks:\n  - {name: test, run: sh test.sh, timeout: 1m}\npublish: {to: none, approve: never}\n",
		"value":          "wrong\n", "test.sh": "grep -q right value && truncate -s 2G core\n",
	})
	r := w.run(sallyport.WorkOrder{Task: "t", Command: []string{"sh", "-c", "echo right > value"}}).Report
	if r.State != sallyport.AttemptAwaitingApproval || r.Reason.Code != "control-not-shown" || !strings.Contains(r.Reason.Message, "untouched") {
		t.Errorf("%s: %+v", r.State, r.Reason)
	}
}
