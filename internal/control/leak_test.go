package control_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/control"
)

// TestNoKnownSecretIsKept: an agent and a check that hold a secret say it in every way that they can, and none of it is
// in any log, journal, evidence, feedback, report or commit. It is in what a person wrote (the Manifest) and in
// what the agent left (the quarantined stream, which is never altered), and nowhere else.
func TestNoKnownSecretIsKept(t *testing.T) {
	const secret = "Zq7/x+Kp9<v>mW=tR"
	t.Setenv("DB_PASSWORD", secret) // the driver's, where the name says what it is
	say := `
p=$DBP
echo "exact $p"
printf '{"json":"Zq7/x+Kp9\\u003cv\\u003emW=tR"}\n'
printf 'x%s' "$p" | base64; printf 'xx%s' "$p" | base64; printf '%s' "$p" | base64 | tr '+/' '-_'
printf '%s' "$p" | od -An -v -tx1 | tr -d ' \n'; echo
printf '%s' "$p" | od -An -v -tx1 | tr -d ' \n' | tr a-f A-F; echo
printf '%s' "$p" | od -An -v -tx1 | tr -d '\n' | sed 's/ /%/g'; echo
a=$(printf '%s' "$p" | cut -c1-5); b=$(printf '%s' "$p" | cut -c6-)
printf '%s' "$a"; sleep 0.2; printf '%s\n' "$b"
printf '%s\033[31m%s\033[0m\n' "$a" "$b"
printf '%s\n%s\n' "$a" "$b"
`
	w := newWorld(t, map[string]string{"sallyport.yaml": strings.ReplaceAll(policy, "run: sh test.sh", "run: sh test.sh >&2"), "value": "wrong\n", "test.sh": say + "grep -q right value\n"})
	agent := "cat \"$SALLYPORT_FEEDBACK\" 2>/dev/null\n" + say + `
test -n "$SALLYPORT_FEEDBACK" && echo right > value || echo other > value
git commit -qam "with $p in it"
printf '\033]0;%s\007' "$p"`
	at := w.run(sallyport.WorkOrder{Task: "say it", Attempts: 2, Env: map[string]string{"DBP": secret}, Command: []string{"sh", "-c", agent}})
	if at.Report.Number != 2 || at.Report.State != sallyport.AttemptAccepted {
		t.Fatalf("number %d, state %s, %+v", at.Report.Number, at.Report.State, at.Report.Reason)
	}
	// The journal's own file: without a checkpoint part of it is beside it.
	forms := spellings(secret)
	seen := 0
	look := func(where string, b []byte) {
		seen++
		for name, f := range forms {
			if bytes.Contains(b, []byte(f)) {
				t.Errorf("%s holds it, %s", where, name)
			}
		}
	}
	state := filepath.Join(filepath.Dir(w.repo), "state")
	marks := 0
	err := filepath.WalkDir(state, func(p string, e fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(state, p)
		top, _, _ := strings.Cut(rel, "/")
		if err != nil || !e.Type().IsRegular() || top == "manifests" || top == "quarantine" {
			return err
		}
		b, err := os.ReadFile(p)
		look(rel, b)
		marks += bytes.Count(b, []byte("[redacted:DB_PASSWORD]"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 8 || marks < 20 {
		t.Errorf("%d files with %d marks: nothing was said", seen, marks)
	}
	report, err := json.Marshal(at)
	if err != nil {
		t.Fatal(err)
	}
	look("the report", report)
	message := w.git("log", "-1", "--format=%B", at.Report.Branch)
	look("the commit", []byte(message))
	if !strings.Contains(message, "with [redacted:DB_PASSWORD] in it") {
		t.Errorf("the commit says %q", message)
	}
	if !strings.Contains(strings.Join(at.Report.Notices, "\n"), "DB_PASSWORD") {
		t.Errorf("nobody is told: %q", at.Report.Notices)
	}
}

// spellings are worked out here once more, and not by the code under test.
func spellings(secret string) map[string]string {
	quoted, _ := json.Marshal(secret)
	h := hex.EncodeToString([]byte(secret))
	m := map[string]string{"exact": secret, "as JSON": strings.Trim(string(quoted), `"`), "in a URL": url.QueryEscape(secret), "as hex": h, "as HEX": strings.ToUpper(h), "a half": secret[5:]}
	for shift := range 3 {
		e := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + secret))
		m["as base64 after "+strings.Repeat("x", shift)] = e[4 : len(e)-4]
		m["as base64url after "+strings.Repeat("x", shift)] = strings.NewReplacer("+", "-", "/", "_").Replace(e[4 : len(e)-4])
	}
	return m
}

// TestASecretThatAPersonTypes: what is meant for the agent is refused, a reason is recorded without it.
func TestASecretThatAPersonTypes(t *testing.T) {
	const secret = "Zq7/x+Kp9<v>mW=tR"
	t.Setenv("DB_PASSWORD", secret)
	w := newWorld(t, map[string]string{"sallyport.yaml": strings.ReplaceAll(policy, "on-finding", "always"), "value": "wrong\n", "test.sh": "grep -q right value\n"})
	refused := func(field string, err error) {
		t.Helper()
		if e := (*sallyport.Error)(nil); !errors.As(err, &e) || e.Code != sallyport.CodeInvalid || e.Subject != field || !strings.Contains(e.Error(), "DB_PASSWORD") || strings.Contains(e.Error()+e.Hint, secret) {
			t.Errorf("%s: %v", field, err)
		}
	}
	encoded := base64.StdEncoding.EncodeToString([]byte(secret))
	for field, order := range map[string]sallyport.WorkOrder{
		"task":    {Task: "log in with " + encoded, Command: []string{"true"}},
		"name":    {Name: "x-" + hex.EncodeToString([]byte(secret)), Task: "x", Command: []string{"true"}},
		"base":    {Task: "x", Base: secret, Command: []string{"true"}},
		"command": {Task: "x", Command: []string{"sh", "-c", "login '" + secret + "'"}},
	} {
		_, err := w.c.Submit(t.Context(), control.Request{Dir: w.repo, Flags: order, Announce: func(string) {}, Environ: os.Environ()})
		refused(field, err)
	}
	order := sallyport.WorkOrder{Task: "mend it", Command: []string{"sh", "-c", "echo right > value"}}
	at := w.run(order)
	if at.Report.State != sallyport.AttemptAwaitingApproval {
		t.Fatalf("%s: %+v", at.Report.State, at.Report.Reason)
	}
	if _, err := w.c.Reject(t.Context(), string(at.Report.Attempt), "me", "it says "+secret); err != nil {
		t.Fatal(err)
	}
	_, err := w.c.Retry(t.Context(), string(at.Report.Attempt), "use "+secret)
	refused("message", err)
	order.Name = "other"
	at = w.run(order)
	if _, err = w.c.Approve(t.Context(), string(at.Report.Attempt), "me", "I know "+secret); err != nil {
		t.Fatal(err)
	}
	marks := 0
	err = filepath.WalkDir(filepath.Dir(w.repo), func(p string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(p)
		for name, f := range spellings(secret) {
			if bytes.Contains(b, []byte(f)) {
				t.Errorf("%s holds it, %s", p, name)
			}
		}
		marks += bytes.Count(b, []byte("[redacted:DB_PASSWORD]"))
		return err
	})
	if err != nil || marks < 2 {
		t.Errorf("%d marks, %v", marks, err)
	}
}

// TestASecretInTheChangeIsRefused: what the agent was given must not be published by it.
func TestASecretInTheChangeIsRefused(t *testing.T) {
	const secret = "Zq7-x-Kp9-v-mW-tR"
	t.Setenv("DB_PASSWORD", secret)
	for name, agent := range map[string]string{
		"in a file": `echo right > value; echo "$DBP" > config`, "encoded": `echo right > value; printf 'ab%s' "$DBP" | base64 > config`, "as a name": `echo right > value; echo x > "$DBP"`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, shop)
			r := w.run(sallyport.WorkOrder{Task: "leak it", Env: map[string]string{"DBP": secret}, Command: []string{"sh", "-c", agent}}).Report
			if r.Decision != sallyport.DecisionRejected || r.Reason.Code != "finding" {
				t.Fatalf("%s, %+v", r.Decision, r.Reason)
			}
			b, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(b, []byte("secret.known-value")) || bytes.Contains(b, []byte(secret)) || !bytes.Contains(b, []byte("DB_PASSWORD")) {
				t.Errorf("%s", b)
			}
		})
	}
}

// TestFeedbackHoldsNothingKnownSince: what a check said before its words became a secret does not reach the next agent.
func TestFeedbackHoldsNothingKnownSince(t *testing.T) {
	const later = "Lx9/known+Since<8>qR"
	w := newWorld(t, map[string]string{"sallyport.yaml": policy, "value": "wrong\n", "test.sh": "echo 'it says " + later + "'; grep -q right value\n"})
	at := w.run(sallyport.WorkOrder{Task: "mend it", Command: []string{"sh", "-c", "echo other > value"}})
	if at.Report.State != sallyport.AttemptRejected {
		t.Fatalf("%s: %+v", at.Report.State, at.Report.Reason)
	}
	t.Setenv("DB_PASSWORD", later)
	id, err := w.c.Retry(t.Context(), string(at.Report.Attempt), "again")
	if err != nil {
		t.Fatal(err)
	}
	next, err := w.c.Attempt(t.Context(), string(id))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(next.Feedback, later) || !strings.Contains(next.Feedback, "[redacted:DB_PASSWORD]") {
		t.Errorf("the next agent is told %q", next.Feedback)
	}
}

// TestGarbageOfAStore: what git was given to read by somebody who was killed is removed, once it is old.
func TestGarbageOfAStore(t *testing.T) {
	w := newWorld(t, shop)
	dir := filepath.Join(filepath.Dir(w.repo), "state", "repos", "x", "y")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * time.Hour)
	half := filepath.Join(dir, "../../../local/.proof.json123") // of the provider's
	for _, name := range []string{"spool-1.tmp", "attributes-2.tmp", "shallow-3.tmp", "spool-4.tmp", "new-5/HEAD", "tmp/incoming-6", "git/objects/info/.new-7", "../../../local/.proof.json123"} {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if name != "spool-4.tmp" {
			if err := os.Chtimes(p, old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Chtimes(filepath.Join(dir, "new-5"), old, old); err != nil {
		t.Fatal(err)
	}
	if _, err := w.c.GC(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	for _, empty := range []string{"git/objects/info", "git/objects", "git", "tmp"} {
		if err := os.Remove(filepath.Join(dir, empty)); err != nil {
			t.Error(err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 1 || filepath.Base(left[0]) != "spool-4.tmp" {
		t.Errorf("left: %v", left)
	}
	if _, err := os.Lstat(half); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", half, err)
	}
}
