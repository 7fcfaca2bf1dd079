package inspect

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/secret"
)

// TestSecretRulesAreInTheTable: what a scan reports has a severity and a next step.
func TestSecretRulesAreInTheTable(t *testing.T) {
	for _, r := range secret.Rules() {
		if _, known := byID[r]; !known {
			t.Errorf("%s is not in the table", r)
		}
	}
}

func TestSecretsInMessages(t *testing.T) {
	v := "ghp_" + body36
	tr := newTree("o").add("a.go", modeFile, "package a\n")
	tr.in.Messages = []string{"All good", "Fix\n\nused " + v + "\n"}
	found := tr.inspect(t)
	i := slices.IndexFunc(found, func(f sallyport.Finding) bool { return f.Rule == "secret.github-token" })
	if i < 0 || found[i].Severity != block || !strings.Contains(found[i].Message, "message 2, line 3") {
		t.Errorf("%+v", found)
	}
	noLeak(t, found, v)
}

// TestKnownValues: a secret that this run knows blocks, in content, messages and names, and where it was cut.
func TestKnownValues(t *testing.T) {
	known := func(text []byte) []string {
		if bytes.Contains(text, []byte("the-value-of-it")) || bytes.Contains(text, []byte("first\nsecond")) {
			return []string{"DB_PASSWORD"}
		}
		return nil
	}
	for name, c := range map[string]struct {
		tree *tree
		line string
	}{
		"added":   {newTree("o").add("a.go", modeFile, "x\ny = the-value-of-it\n"), "line 2"},
		"edited":  {newTree().edit("a.go", "x\nz\n", "x\nthe-value-of-it\nz\n"), "line 2"},
		"lines":   {newTree("o").add("a.go", modeFile, "first\nsecond\n"), "line 1"},
		"name":    {newTree("o").add("the-value-of-it/x", modeFile, "x\n"), "the name"},
		"link":    {newTree("o").add("l", modeLink, "the-value-of-it"), "line 1"},
		"message": {newTree("o").add("a.go", modeFile, "x\n"), "message 1, line 1"},
	} {
		if c.tree.in.Known = known; name == "message" {
			c.tree.in.Messages = []string{"the-value-of-it"}
		}
		found := c.tree.inspect(t)
		i := slices.IndexFunc(found, func(f sallyport.Finding) bool { return f.Rule == "secret.known-value" })
		if i < 0 || found[i].Severity != block || !strings.Contains(found[i].Message, c.line) || !strings.Contains(found[i].Message, "DB_PASSWORD") {
			t.Errorf("%s: %+v", name, found)
		}
	}
	base := newTree().edit("a.go", "the-value-of-it\n", "x\nthe-value-of-it\n")
	base.in.Known = known
	if got := rulesOf(base.inspect(t)); len(got) != 0 {
		t.Errorf("what the base has is reported: %v", got)
	}
}

// TestDisguisedSecrets: the added lines are read as a person, a decoder and a compiler would.
func TestDisguisedSecrets(t *testing.T) {
	v := "ghp_" + body36
	for name, text := range map[string]string{
		"a colour": v[:9] + "\x1b[1m" + v[9:], "two lines": "\"" + v[:20] + "\" +\n  \"" + v[20:] + "\"", "base64": base64.StdEncoding.EncodeToString([]byte("token " + v)), "allowed": v + " // gitleaks:allow",
	} {
		found := newTree().edit("a.go", "one\ntwo\n", "one\n"+text+"\ntwo\n").inspect(t)
		i := slices.IndexFunc(found, func(f sallyport.Finding) bool { return f.Rule == "secret.github-token" })
		if i < 0 || !strings.HasPrefix(found[i].Message, "line 2:") {
			t.Errorf("%s: %+v", name, found)
		}
		noLeak(t, found, v)
	}
}

func TestAssignedInTestsIsNoFinding(t *testing.T) {
	line := "api_key = \"" + body36 + "\"\n"
	if got := rulesOf(newTree("o").add("conf.py", modeFile, line).inspect(t)); !slices.Contains(got, secret.RuleAssigned) {
		t.Errorf("%v", got)
	}
	if got := rulesOf(newTree("o").add("conf_test.go", modeFile, line).inspect(t)); slices.Contains(got, secret.RuleAssigned) {
		t.Errorf("%v", got)
	}
}

// TestSecretsLateAreSaid: what the time did not suffice for is a finding of its own.
func TestSecretsLateAreSaid(t *testing.T) {
	tr := newTree("o").add("a.txt", modeFile, strings.Repeat("token key secret api = \"x"+body36+"\" auth\n", 10000))
	tr.in.Limits.Time = 3 * time.Millisecond
	if got := rulesOf(tr.inspect(t)); !slices.Contains(got, "scan.incomplete") {
		t.Errorf("%v", got)
	}
}

// FuzzAddedRuns: the runs are the added lines, in order, and numbered as they stand.
func FuzzAddedRuns(f *testing.F) {
	f.Add([]byte("a\nb\nc"), []byte("b\n"))
	f.Add([]byte("\n\na\n"), []byte("a"))
	f.Fuzz(func(t *testing.T, text, base []byte) {
		known := lineSet(base)
		if known == nil {
			return
		}
		var want, got []string
		addedLines(text, known, func(n int, line []byte) bool { want = append(want, string(line)); return true })
		all := strings.Split(string(text), "\n")
		addedRuns(text, known, func(first int, run []byte) {
			for k, line := range strings.Split(strings.TrimSuffix(string(run), "\n"), "\n") {
				if all[first-1+k] != line {
					t.Fatalf("line %d is %q, not %q", first+k, all[first-1+k], line)
				}
				if line != "" {
					got = append(got, line)
				}
			}
		})
		if !slices.Equal(got, want) {
			t.Fatalf("%q, expected %q", got, want)
		}
	})
}
