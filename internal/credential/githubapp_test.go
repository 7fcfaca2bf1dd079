package credential

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/credential/credentialtest"
)

// book is a Ledger in memory that keeps the order of what it was told, the forge's calls among it.
type book struct {
	mu     sync.Mutex
	events []string
	held   map[string]Held
	fail   []string // the events that fail
}

func (b *book) say(format string, args ...any) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	event := fmt.Sprintf(format, args...)
	b.events = append(b.events, event)
	for _, f := range b.fail {
		if strings.HasPrefix(event, f) {
			return errors.New("the disk is full")
		}
	}
	return nil
}

func (b *book) Intend(_ context.Context, name, _ string) (string, error) {
	id := fmt.Sprintf("t%d", strings.Count(strings.Join(b.events, " "), "intend"))
	return id, b.say("intend %s", id)
}
func (b *book) Minted(_ context.Context, id string, _ Token) error { return b.say("minted %s", id) }
func (b *book) Ending(_ context.Context, id string) error          { return b.say("ending %s", id) }
func (b *book) Gone(_ context.Context, id, _ string) error         { return b.say("gone %s", id) }
func (b *book) Failed(_ context.Context, id, _ string) error       { return b.say("failed %s", id) }
func (b *book) Held(_ context.Context, name string) (Held, bool, error) {
	h, ok := b.held[name]
	return h, ok, nil
}

func (b *book) order() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.events, " ")
}

func appOf(f *credentialtest.Forge) sallyport.CredentialSource {
	return sallyport.CredentialSource{GitHubApp: &sallyport.GitHubApp{App: f.App, Installation: f.Installation, KeyFile: f.KeyFile,
		Repositories: []string{"one", "Two"}, Permissions: map[string]string{"contents": "read"}, BaseURL: f.BaseURL()}}
}

func forgeAndBook(t *testing.T) (*credentialtest.Forge, *book) {
	f, b := credentialtest.NewForge(t, canary), &book{held: map[string]Held{}}
	f.Before(func(method string) { _ = b.say("%s", method) })
	return f, b
}

func TestMintUseRevoke(t *testing.T) {
	f, b := forgeAndBook(t)
	s := openSet(t, Deps{Ledger: b}, of(appOf(f)))
	var wg sync.WaitGroup
	for range 4 { // requests that come at once share one
		wg.Go(func() {
			if v, err := s.Value(t.Context(), "c"); err != nil || v.Reveal() != f.Minted()[0] {
				t.Errorf("%v", err)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(s.Close(t.Context()), s.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	if got := b.order(); got != "intend t0 POST minted t0 ending t0 DELETE gone t0" || f.Valid() != 0 {
		t.Errorf("%s; %d valid", got, f.Valid())
	}
	if _, err := Open([]sallyport.Credential{of(appOf(f))}, Deps{}); sallyport.CodeOf(err) != sallyport.CodeUnsupported {
		t.Errorf("without a ledger: %v", err)
	}
}

// TestMintIsHeldToWhatWasAsked: a token that can do more or other things is revoked before anybody has it.
func TestMintIsHeldToWhatWasAsked(t *testing.T) {
	for says, change := range map[string]func(a map[string]any){
		`permission "contents" is "write"`: func(a map[string]any) { a["permissions"].(map[string]string)["contents"] = "write" },
		`permission "metadata" is "write"`: func(a map[string]any) { a["permissions"].(map[string]string)["metadata"] = "write" },
		`permission "issues" is "read"`:    func(a map[string]any) { a["permissions"].(map[string]string)["issues"] = "read" },
		`permission "contents" is missing`: func(a map[string]any) { delete(a["permissions"].(map[string]string), "contents") },
		"it is for 1 repositories of 2":    func(a map[string]any) { a["repositories"] = a["repositories"].([]any)[:1] },
		"it is for 3 repositories of 2": func(a map[string]any) {
			a["repositories"] = append(a["repositories"].([]any), map[string]any{"name": "three"})
		},
		"it is for 2 repositories of 2 asked for, or for others": func(a map[string]any) { a["repositories"].([]any)[0].(map[string]any)["name"] = "other" },
		"it is for 0 repositories of 2":                          func(a map[string]any) { delete(a, "repositories") },
		`it is for "all" repositories`:                           func(a map[string]any) { a["repository_selection"] = "all" },
		"it ends at":                                             func(a map[string]any) { a["expires_at"] = time.Now().Add(48 * time.Hour).Format(time.RFC3339) },
		"it ends at 0001":                                        func(a map[string]any) { delete(a, "expires_at") },
	} {
		f, b := forgeAndBook(t)
		f.Answer(change)
		s := openSet(t, Deps{Ledger: b}, of(appOf(f)))
		_, err := s.Value(t.Context(), "c")
		refused(t, err, sallyport.CodeDenied, says)
		if got := b.order(); got != "intend t0 POST ending t0 DELETE gone t0" || f.Valid() != 0 {
			t.Errorf("%s: %s; %d valid", says, got, f.Valid())
		}
		if err := s.Close(t.Context()); err != nil {
			t.Errorf("%s: %v", says, err)
		}
	}
}

func TestForgeThatRefuses(t *testing.T) {
	for status, w := range map[int]struct {
		code  sallyport.Code
		says  string
		order string
	}{
		401: {sallyport.CodeDenied, "does not know the App", "intend t0 POST gone t0"},
		403: {sallyport.CodeDenied, "refuses (403)", "intend t0 POST gone t0"},
		404: {sallyport.CodeDenied, "no installation 42", "intend t0 POST gone t0"},
		422: {sallyport.CodeDenied, "does not reach these repositories", "intend t0 POST gone t0"},
		// Whether there is one now is not known.
		500: {sallyport.CodeUnavailable, "answers 500", "intend t0 POST failed t0"},
		302: {sallyport.CodeUnavailable, "answers 302", "intend t0 POST failed t0"},
		200: {sallyport.CodeUnavailable, "answers 200", "intend t0 POST failed t0"},
	} {
		f, b := forgeAndBook(t)
		f.Fail(http.MethodPost, status)
		_, err := openSet(t, Deps{Ledger: b}, of(appOf(f))).Value(t.Context(), "c")
		refused(t, err, w.code, w.says)
		if b.order() != w.order {
			t.Errorf("%d: %s", status, b.order())
		}
	}
	// Nobody there.
	f, b := forgeAndBook(t)
	f.Server.Close()
	_, err := openSet(t, Deps{Ledger: b}, of(appOf(f))).Value(t.Context(), "c")
	refused(t, err, sallyport.CodeUnavailable, "did not answer")
	if b.order() != "intend t0 failed t0" {
		t.Error(b.order())
	}
	// The real thing answers so to a wrong App, installation or key.
	f, b = forgeAndBook(t)
	for says, change := range map[string]func(*sallyport.GitHubApp){
		"does not know the App": func(a *sallyport.GitHubApp) { a.App = "other" },
		"no installation 7":     func(a *sallyport.GitHubApp) { a.Installation = 7 },
	} {
		src := appOf(f)
		change(src.GitHubApp)
		_, err := openSet(t, Deps{Ledger: b}, of(src)).Value(t.Context(), "c")
		refused(t, err, sallyport.CodeDenied, says)
	}
	// What a Manifest never holds is refused before anybody is asked.
	asked := len(f.Calls())
	for says, change := range map[string]func(*sallyport.GitHubApp){
		`"write"; an agent is given read alone`: func(a *sallyport.GitHubApp) { a.Permissions = map[string]string{"contents": "write"} },
		"no permission is named":                func(a *sallyport.GitHubApp) { a.Permissions = nil },
		"no repository is named":                func(a *sallyport.GitHubApp) { a.Repositories = nil },
	} {
		src := appOf(f)
		change(src.GitHubApp)
		_, err := openSet(t, Deps{Ledger: b}, of(src)).Value(t.Context(), "c")
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	if len(f.Calls()) != asked {
		t.Error("the forge was asked")
	}
}

func TestAppKeys(t *testing.T) {
	f, b := forgeAndBook(t)
	src := appOf(f)
	src.GitHubApp.KeyFile = filepath.Join(t.TempDir(), "key")
	small, _ := rsa.GenerateKey(rand.Reader, 1024)
	curve, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	curveDER, _ := x509.MarshalPKCS8PrivateKey(curve)
	smallDER := []byte("x")
	if small != nil {
		smallDER = x509.MarshalPKCS1PrivateKey(small)
	}
	for name, text := range map[string]string{
		"no PEM": "hello", "no key": string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: []byte("x")})),
		"small": string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: smallDER})),
		"curve": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: curveDER})),
	} {
		if err := os.WriteFile(src.GitHubApp.KeyFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s := openSet(t, Deps{Ledger: b}, of(src))
		refused(t, s.Ready(), sallyport.CodeInvalid, "is no RSA private key")
		if _, err := s.Value(t.Context(), "c"); err == nil {
			t.Errorf("%s: minted", name)
		}
	}
	good, err := os.ReadFile(f.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(good)
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	eight, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(src.GitHubApp.KeyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: eight}), 0o600); err != nil {
		t.Fatal(err)
	}
	s := openSet(t, Deps{Ledger: b}, of(src))
	if _, err := s.Value(t.Context(), "c"); err != nil {
		t.Errorf("PKCS #8: %v", err)
	}
	if err := os.Chmod(src.GitHubApp.KeyFile, 0o640); err != nil {
		t.Fatal(err)
	}
	refused(t, s.Ready(), sallyport.CodeDenied, "has mode 0640")
}

// TestTokenOfAnEarlierDriver: it goes on being used while it has time, and is replaced, revoked first, when it has not.
func TestTokenOfAnEarlierDriver(t *testing.T) {
	f, b := forgeAndBook(t)
	first := openSet(t, Deps{Ledger: b}, of(appOf(f)))
	v, err := first.Value(t.Context(), "c")
	if err != nil {
		t.Fatal(err)
	}
	b.held["c"] = Held{"t0", Token{f.BaseURL(), v.Reveal(), time.Now().Add(time.Hour)}}
	second := openSet(t, Deps{Ledger: b}, of(appOf(f)))
	if again, err := second.Value(t.Context(), "c"); err != nil || again != v || len(f.Minted()) != 1 {
		t.Errorf("%v, %d minted", err, len(f.Minted()))
	}
	now := time.Now().Add(56 * time.Minute)
	second.deps.Now = func() time.Time { return now }
	f.Answer(func(a map[string]any) { a["expires_at"] = now.Add(time.Hour).Format(time.RFC3339) })
	renewed, err := second.Value(t.Context(), "c")
	if err == nil && renewed == v {
		t.Error("it was used to its end")
	}
	if want := "intend t0 POST minted t0 ending t0 DELETE gone t0 intend t1 POST"; !strings.HasPrefix(b.order(), want) {
		t.Errorf("%s (%v)", b.order(), err)
	}
}

// TestLedgerThatFails: a token that cannot be kept is not used, and does not stay.
func TestLedgerThatFails(t *testing.T) {
	for fails, want := range map[string]string{
		"intend": "intend t0",
		"minted": "intend t0 POST minted t0 ending t0 DELETE gone t0",
	} {
		f, b := forgeAndBook(t)
		b.fail = []string{fails}
		if v, err := openSet(t, Deps{Ledger: b}, of(appOf(f))).Value(t.Context(), "c"); err == nil || v != (Secret{}) || b.order() != want || f.Valid() != 0 {
			t.Errorf("%s: %v, %s, %d valid", fails, err, b.order(), f.Valid())
		}
	}
}

// TestDiskIsFull: nothing can be written after the forge has answered. The token ends all the same.
func TestDiskIsFull(t *testing.T) {
	f, b := forgeAndBook(t)
	b.fail = []string{"minted", "ending", "gone", "failed"}
	_, err := openSet(t, Deps{Ledger: b}, of(appOf(f))).Value(t.Context(), "c")
	if err == nil || f.Valid() != 0 || b.order() != "intend t0 POST minted t0 ending t0 DELETE" {
		t.Errorf("%v, %d valid, %s", err, f.Valid(), b.order())
	}
}

func TestRevokeIsTriedAgain(t *testing.T) {
	f, b := forgeAndBook(t)
	s := openSet(t, Deps{Ledger: b}, of(appOf(f)))
	v, err := s.Value(t.Context(), "c")
	if err != nil {
		t.Fatal(err)
	}
	f.Fail(http.MethodDelete, 503)
	err = s.Close(t.Context())
	refused(t, err, sallyport.CodeUnavailable, "answers 503 to revoking")
	if want := "intend t0 POST minted t0 ending t0 DELETE DELETE DELETE failed t0"; b.order() != want || f.Valid() != 1 {
		t.Errorf("%s; %d valid", b.order(), f.Valid())
	}
	held := Held{"t0", Token{f.BaseURL(), v.Reveal(), time.Now().Add(time.Hour)}}
	f.Fail(http.MethodDelete, 0)
	for range 2 { // the second time it is not valid any more, and that is as good
		if err := Revoke(t.Context(), nil, b, held, time.Now()); err != nil {
			t.Error(err)
		}
	}
	if !strings.HasSuffix(b.order(), "ending t0 DELETE gone t0 ending t0 DELETE gone t0") || f.Valid() != 0 {
		t.Errorf("%s; %d valid", b.order(), f.Valid())
	}
	calls := len(f.Calls())
	if err := Revoke(t.Context(), nil, b, held, time.Now().Add(2*time.Hour)); err != nil || len(f.Calls()) != calls {
		t.Errorf("one that has ended by itself: %v", err)
	}
}

func TestSealer(t *testing.T) {
	dir := t.TempDir()
	key := filepath.Join(dir, "minter.key")
	var wg sync.WaitGroup
	sealers := make([]*Sealer, 8)
	for i := range sealers {
		wg.Go(func() {
			s, err := OpenSealer(key)
			if err != nil {
				t.Error(err)
			}
			sealers[i] = s
		})
	}
	wg.Wait()
	if slices.ContainsFunc(sealers, func(s *Sealer) bool { return s == nil || s.identity.String() != sealers[0].identity.String() }) {
		t.Fatal("they have different keys")
	}
	if fi, err := os.Stat(key); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", fi.Mode(), err)
	}
	want := Token{"https://forge.example", canary, time.Now().Add(time.Hour).UTC().Truncate(time.Second)}
	path := filepath.Join(dir, "t.age")
	if err := sealers[0].Seal(path, want); err != nil {
		t.Fatal(err)
	}
	if got, err := sealers[1].Unseal(path); err != nil || got != want {
		t.Errorf("%+v %v", got.Expires, err)
	}
	if n := credentialtest.NoCanary(t, canary, nil, dir); n != 2 {
		t.Errorf("%d files", n)
	}
	other, err := OpenSealer(filepath.Join(dir, "other.key"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = other.Unseal(path)
	refused(t, err, sallyport.CodeCorrupt, "was not sealed to this minter's key")
	sealed, _ := os.ReadFile(path)
	for i := range sealed { // every byte counts
		bad := slices.Clone(sealed)
		bad[i] ^= 1
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := sealers[0].Unseal(path); err == nil {
			t.Fatalf("byte %d changed: %+v", i, got)
		}
	}
	if err := os.WriteFile(path, sealed[:len(sealed)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = sealers[0].Unseal(path)
	refused(t, err, sallyport.CodeCorrupt, "was changed")
	_, err = sealers[0].Unseal(path + "2")
	refused(t, err, sallyport.CodeNotFound, "does not exist")
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = OpenSealer(key)
	refused(t, err, sallyport.CodeDenied, "has mode 0644")
}

func TestCanaryIsFound(t *testing.T) {
	for name, form := range credentialtest.Spellings(canary) {
		probe := &testing.T{}
		credentialtest.Holds(probe, name, append(append([]byte("before "), form...), " after"...), credentialtest.Spellings(canary))
		if !probe.Failed() {
			t.Errorf("%s is not found", name)
		}
	}
}

// FuzzForgeAnswer: a token that is taken reads, reaches exactly what was asked for and ends within the hour, to a reader of plain maps too.
func FuzzForgeAnswer(f *testing.F) {
	honest := `{"token":"ghs_0123456789abcdef","expires_at":"2026-01-01T00:30:00Z","permissions":{"contents":"read","metadata":"read"},"repository_selection":"selected","repositories":[{"name":"one"},{"name":"two"}]}`
	for _, s := range []string{honest, strings.Replace(honest, `"contents":"read"`, `"contents":"write"`, 1), strings.Replace(honest, "selected", "all", 1), `{}`, `{"token":"x"}`, `[]`, strings.Replace(honest, `{"name":"two"}`, `{"name":"one"}`, 1),
		strings.Replace(honest, `"contents":"read"`, `"contents":"read","Contents":"write"`, 1), strings.Replace(honest, "00:30", "03:30", 1)} {
		f.Add([]byte(s))
	}
	app := &sallyport.GitHubApp{App: "a", Installation: 1, Repositories: []string{"one", "Two"}, Permissions: map[string]string{"contents": "read"}}
	c := of(sallyport.CredentialSource{GitHubApp: app})
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s, err := Open([]sallyport.Credential{c}, Deps{Ledger: &book{}, Now: func() time.Time { return now }})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		token, m, err := s.compare(s.named["c"], answer)
		if (err == nil) != (m == madeKept) {
			t.Fatalf("%v %v", m, err)
		}
		if err != nil {
			if token.Value != "" && !token.Expires.After(now) {
				t.Fatal("a token that is refused would not be revoked")
			}
			return
		}
		// Another reader, of plain maps.
		var all map[string]any
		if err := json.Unmarshal(answer, &all); err != nil {
			t.Fatal(err)
		}
		permissions, _ := all["permissions"].(map[string]any)
		for name, level := range permissions {
			if level != "read" || name != "contents" && name != "metadata" {
				t.Fatalf("%s: %v", name, level)
			}
		}
		if len(permissions) == 0 || all["token"] != token.Value {
			t.Fatalf("%s", answer)
		}
		if token.Expires.After(now.Add(2*time.Hour)) || len(token.Value) < minSecret {
			t.Fatalf("%+v", token.Expires)
		}
	})
}
