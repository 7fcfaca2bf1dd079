package control

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/internal/provider"
)

const dbPassword = "Zq7/x+Kp9<v>mW=tR"

func knowing(t *testing.T) *driver {
	t.Helper()
	repo := t.TempDir()
	if err := os.WriteFile(filepath.Join(repo, ".env"), []byte("STRIPE=aB3dE5fG7hJ9kL1mN2pQ4rS6\nDEBUG=true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("MODEL_CREDENTIAL", "sk-model-0123456789")
	return &driver{m: sallyport.Manifest{Repository: repo, Copies: []string{".env", "missing"}, Env: map[string]string{"DB_PASSWORD": dbPassword, "MODE": "development"},
		Agent: sallyport.Agent{Endpoint: &sallyport.Endpoint{CredentialEnv: "MODEL_CREDENTIAL"}}}}
}

func TestWhatADriverKnows(t *testing.T) {
	d := knowing(t)
	if err := d.learn(frozen{Spec: provider.Spec{Allocation: "alc_1"}, Secret: "key-to-the-wire", held: held{Placeholder: "sallyport-placeholder-1"}}); err != nil {
		t.Fatal(err)
	}
	r, err := d.redactor()
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"sk-model-0123456789": "[redacted:MODEL_CREDENTIAL]", dbPassword: "[redacted:DB_PASSWORD]", "aB3dE5fG7hJ9kL1mN2pQ4rS6": "[redacted:.env.STRIPE]",
		"key-to-the-wire": "[redacted:wire.alc_1]", "sallyport-placeholder-1": "[redacted:placeholder.alc_1]", "development": "development",
	} {
		if got := string(r.Bytes([]byte(text))); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// A value that a mark would write cannot be redacted; it must not keep everything from being recorded either.
func TestAValueLikeAMarkIsLeft(t *testing.T) {
	d := &driver{m: sallyport.Manifest{Env: map[string]string{"MY_OWN_TOKEN": "MY_OWN_TOKEN", "OTHER_TOKEN": "as-it-should-be"}}}
	b, err := d.clean("MY_OWN_TOKEN as-it-should-be")
	if err != nil || string(b) != `"MY_OWN_TOKEN [redacted:OTHER_TOKEN]"` {
		t.Errorf("%s, %v", b, err)
	}
	if len(d.redaction.skipped) == 0 {
		t.Error("nobody is told")
	}
}

// TestAPlaceIsLeft: a record that says where something is stays true, whatever else has that value.
func TestAPlaceIsLeft(t *testing.T) {
	m := sallyport.Manifest{Repository: "/home/Me/Big Project", Name: "fix-the-payments", Env: map[string]string{"A_KEY": "Me/Big Project", "B_KEY": "the-payments", "C_KEY": "as-it-should-be"}}
	v := ownSecrets(m)
	if len(v.Known["A_KEY"])+len(v.Known["B_KEY"]) > 0 || len(v.Known["C_KEY"]) == 0 || !slices.Contains(v.Skipped, "A_KEY") || !slices.Contains(v.Skipped, "B_KEY") {
		t.Errorf("%q, skipped %v", v.Known, v.Skipped)
	}
	if err := withoutSecrets("run", m, spoken{"name", m.Name}); sallyport.CodeOf(err) != sallyport.CodeInvalid {
		t.Errorf("a name that holds a secret: %v", err)
	}
}

// TestRecordsAreCleaned: a string anywhere in what is recorded, and numbers as they were.
func TestRecordsAreCleaned(t *testing.T) {
	d := knowing(t)
	in := lifecycle.Imported{Changes: []sallyport.Change{{Path: "a/" + dbPassword, Size: 1<<62 + 1}}, Commits: []string{"fix " + dbPassword}, Left: map[string]int{dbPassword: 2}}
	b, err := d.clean(in)
	if err != nil {
		t.Fatal(err)
	}
	var out lifecycle.Imported
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	const mark = "[redacted:DB_PASSWORD]"
	if out.Changes[0].Path != "a/"+mark || out.Changes[0].Size != 1<<62+1 || out.Commits[0] != "fix "+mark || out.Left[mark] != 2 {
		t.Errorf("%s", b)
	}
	known, err := d.knownIn(out.Changes)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]int{"a/" + mark: 1, dbPassword: 1, "a text that says " + mark: 0} {
		if got := known([]byte(text)); len(got) != want {
			t.Errorf("known in %q: %v", text, got)
		}
	}
	if b, err := d.clean(lifecycle.Notice{Text: "nothing"}); b != nil || err != nil {
		t.Errorf("%s, %v", b, err)
	}
}

// TestRecordsPassTheRedactor: beside the one way in there are a person's order, refused before if it holds a secret,
// and what a signer says.
func TestRecordsPassTheRedactor(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(b), "journal.Append("); n > 0 && !strings.HasSuffix(f, "_test.go") {
			got[f] = n
		}
	}
	if want := map[string]int{"secrets.go": 1, "submit.go": 1, "look.go": 1}; !maps.Equal(got, want) {
		t.Errorf("the journal is appended to in %v, expected %v: use record", got, want)
	}
}

func TestErrorsAreCleaned(t *testing.T) {
	d := knowing(t)
	plain := errors.New("plain")
	if got := d.cleanError(plain); got != plain {
		t.Errorf("%v", got)
	}
	got := d.cleanError(&sallyport.Error{Code: sallyport.CodeUnavailable, Message: "cannot reach " + dbPassword, Hint: "look at " + dbPassword, Err: plain})
	if strings.Contains(got.Error()+sallyport.HintOf(got), dbPassword) || sallyport.CodeOf(got) != sallyport.CodeUnavailable || !strings.Contains(got.Error(), "cannot reach") {
		t.Errorf("%v", got)
	}
	r, err := d.cleanResult(sallyport.CheckResult{Name: "test", Tail: "x " + dbPassword, Controls: []sallyport.Control{}})
	if err != nil || r.Tail != "x [redacted:DB_PASSWORD]" || r.Name != "test" {
		t.Errorf("%+v, %v", r, err)
	}
}

// saying is a sandbox whose command says a few words and has ended.
type saying struct {
	provider.Wire
	words []string
}

func (s saying) Output(_ context.Context, _ int64, w provider.Writer) (int64, error) {
	n := 0
	for _, p := range s.words {
		if _, err := w.Write([]byte(p)); err != nil {
			return 0, err
		}
		n += len(p)
	}
	return int64(n), nil
}

func (s saying) Wait(context.Context) (provider.Exit, error) {
	return provider.Exit{Code: -1, Cause: "start", Message: "no such program: " + strings.Join(s.words, "")}, nil
}

func TestTerminalIsRedacted(t *testing.T) {
	d := knowing(t)
	ours, theirs := net.Pipe()
	w := saying{words: []string{"\x1b[1mpassword: " + dbPassword[:7], "\x1b[0m", dbPassword[7:], "\r\n$ "}}
	go d.serveOne(t.Context(), theirs, w)
	b, err := io.ReadAll(ours)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(b); !strings.Contains(got, "[redacted:DB_PASSWORD]\r\n$ ") || strings.Contains(got, dbPassword[7:]) {
		t.Errorf("%q", got)
	}
	exit, err := d.ended(t.Context(), saying{words: []string{dbPassword}})
	if err != nil || strings.Contains(exit.Message, dbPassword) {
		t.Errorf("%+v, %v", exit, err)
	}
}
