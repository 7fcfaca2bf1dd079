// Package credentialtest is what tests of credentials run against: a forge that mints and revokes installation tokens
// as GitHub does, over HTTP, and the search for a canary in what a run left behind.
package credentialtest

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// Forge is a server with one App that has one installation. The zero values of its settings make it well-behaved.
type Forge struct {
	*httptest.Server
	App          string
	Installation int64
	KeyFile      string // PEM, mode 0600

	mu     sync.Mutex
	key    *rsa.PrivateKey
	valid  map[string]bool
	minted []string
	calls  []string
	change func(answer map[string]any)
	status map[string]int // by method: answered instead
	before func(method string)
}

// NewForge starts one; it ends with the test. A token that it mints begins with "ghs_" and has prefix in it.
func NewForge(t testing.TB, prefix string) *Forge {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	f := &Forge{App: "Iv1.test", Installation: 42, key: key, valid: map[string]bool{}, status: map[string]int{}}
	f.KeyFile = t.TempDir() + "/app.pem"
	b := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	if err := os.WriteFile(f.KeyFile, b, 0o600); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v3/app/installations/{id}/access_tokens", func(w http.ResponseWriter, r *http.Request) { f.mint(w, r, prefix) })
	mux.HandleFunc("DELETE /api/v3/installation/token", f.revoke)
	f.Server = httptest.NewServer(mux)
	t.Cleanup(f.Close)
	return f
}

// BaseURL is that of its API.
func (f *Forge) BaseURL() string { return f.URL + "/api/v3" }

// Answer has the answers to minting changed before they are sent; nil: they are honest.
func (f *Forge) Answer(change func(answer map[string]any)) { f.set(func() { f.change = change }) }

// Fail has requests of a method answered with status and nothing done; 0: as it should be.
func (f *Forge) Fail(method string, status int) { f.set(func() { f.status[method] = status }) }

// Before is called when a request came and before anything is done about it.
func (f *Forge) Before(do func(method string)) { f.set(func() { f.before = do }) }

func (f *Forge) set(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

// Minted are all tokens, in order; Valid those that were not revoked.
func (f *Forge) Minted() (out []string) {
	f.set(func() { out = append(out, f.minted...) })
	return out
}

// Valid counts the tokens that were not revoked.
func (f *Forge) Valid() (n int) {
	f.set(func() {
		for _, v := range f.valid {
			if v {
				n++
			}
		}
	})
	return n
}

// Calls are the methods that were asked, in order.
func (f *Forge) Calls() (out []string) {
	f.set(func() { out = append(out, f.calls...) })
	return out
}

func (f *Forge) begin(w http.ResponseWriter, r *http.Request) bool {
	f.mu.Lock()
	before, status := f.before, f.status[r.Method]
	f.calls = append(f.calls, r.Method)
	f.mu.Unlock()
	if before != nil {
		before(r.Method)
	}
	if status != 0 {
		if status >= 300 && status < 400 {
			w.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
		}
		w.WriteHeader(status)
		return false
	}
	return true
}

func (f *Forge) mint(w http.ResponseWriter, r *http.Request, prefix string) {
	if !f.begin(w, r) {
		return
	}
	if why := f.signedBy(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")); why != "" {
		http.Error(w, why, http.StatusUnauthorized)
		return
	}
	var ask struct {
		Repositories []string          `json:"repositories"`
		Permissions  map[string]string `json:"permissions"`
	}
	if r.PathValue("id") != fmt.Sprint(f.Installation) {
		http.Error(w, "no such installation", http.StatusNotFound)
		return
	}
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil || len(ask.Repositories) == 0 || len(ask.Permissions) == 0 {
		http.Error(w, "asks for everything", http.StatusUnprocessableEntity)
		return
	}
	permissions := maps.Clone(ask.Permissions)
	permissions["metadata"] = "read"
	repositories := []any{}
	for i, name := range ask.Repositories {
		repositories = append(repositories, map[string]any{"id": i, "name": name, "full_name": "owner/" + name, "private": true})
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	token := fmt.Sprintf("ghs_%s-%d", prefix, len(f.minted))
	answer := map[string]any{"token": token, "expires_at": time.Now().Add(time.Hour).UTC().Format(time.RFC3339), "permissions": permissions,
		"repository_selection": "selected", "repositories": repositories}
	if f.change != nil {
		f.change(answer)
	}
	f.minted, f.valid[token] = append(f.minted, token), true
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(answer)
}

func (f *Forge) revoke(w http.ResponseWriter, r *http.Request) {
	if !f.begin(w, r) {
		return
	}
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.valid[token] {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	f.valid[token] = false
	w.WriteHeader(http.StatusNoContent)
}

// signedBy says what is wrong with a JWT of the App; "" where nothing is.
func (f *Forge) signedBy(jwt string) string {
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 {
		return "no JWT"
	}
	var head struct{ Alg string }
	var claims struct {
		Iat, Exp int64
		Iss      string
	}
	for i, out := range []any{&head, &claims} {
		b, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil || json.Unmarshal(b, out) != nil {
			return "no JWT"
		}
	}
	sig, err := base64.RawURLEncoding.DecodeString(parts[2])
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	now := time.Now().Unix()
	switch {
	case err != nil || head.Alg != "RS256" || rsa.VerifyPKCS1v15(&f.key.PublicKey, crypto.SHA256, sum[:], sig) != nil:
		return "wrong signature"
	case claims.Iss != f.App:
		return "another App"
	case claims.Iat > now || claims.Exp <= now || claims.Exp > now+600 || claims.Exp-claims.Iat > 660:
		return "wrong times"
	}
	return ""
}
