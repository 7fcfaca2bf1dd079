package secret

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/rs/zerolog"
	"github.com/zricethezav/gitleaks/v8/config"
	"github.com/zricethezav/gitleaks/v8/detect"
	"github.com/zricethezav/gitleaks/v8/logging"
)

const (
	body36 = "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY1zA2"
	body99 = body36 + "b4C6d8E0f2G4h6J8k0L2m4N6p8Q0r2S4t6U8" + "v0W2x4Y6z8A1b3C5d7E9f1G3h5J"
	upper  = "Q2W3E4R5T6Y7U8I9P1A2S3D4F5G6H7J8K9L0Z1X2C3V4B5N6M7Q8W9E1R2T3Y4U5I6"
	hex64  = "0a1b2c3d4e5f60718293a4b5c6d7e8f9f0e1d2c3b4a5968778695a4b3c2d1e0f"
	digits = "314159265358979"
)

func jwt() string {
	enc := base64.RawURLEncoding.EncodeToString
	return enc([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + enc([]byte(`{"sub":"1","exp":1999999999}`)) + "." + body36
}

// tokens have a form of their own. They are made at run time, so that this file holds none.
func tokens() map[string]string {
	return map[string]string{
		"GitHub personal": "ghp_" + body36, "GitHub OAuth": "gho_" + body36, "GitHub user": "ghu_" + body36, "GitHub refresh": "ghr_" + body36,
		"GitHub app, classic": "ghs_" + body36, "GitHub app, with a JWT": "ghs_" + "1234567_" + jwt(), "GitHub fine-grained": "github_pat_11" + body36 + "_" + body36,
		"GitLab personal": "glpat-" + body36[:20], "GitLab deploy": "gldt-" + body36[:20], "GitLab runner": "glrt-" + body36[:20], "GitLab agent": "glagent-" + body99[:50], "GitLab OAuth": "gloas-" + body99[:64],
		"Anthropic": "sk-ant-" + "api03-" + body99[:93] + "AA", "OpenAI project": "sk-proj-" + body99[:74], "OpenAI, old": "sk-" + body99[:48], "Slack bot": "xoxb-" + "123456789012-123456789012-" + body36[:24],
		"Slack app": "xapp-" + "1-A0123BCDEFG-1234567890123-" + hex64, "Slack hook": "https://hooks.slack.com/services/" + "T0123ABCD/B0123ABCD/" + body36[:24],
		"Google API": "AIza" + body99[:35], "Google OAuth": "GOCSPX-" + body36[:28], "Stripe": "sk_live_" + body36, "Stripe restricted": "rk_live_" + body36,
		"npm": "npm_" + body36, "PyPI": "pypi-" + "AgEIcHlwaS5vcmc" + body99[:70], "Hugging Face": "hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZaBcDeFgH", "SendGrid": "SG." + body99[:22] + "." + body99[22:65],
		"DigitalOcean": "dop_v1_" + hex64, "Docker": "dckr_pat_" + body36[:27], "Vault": "hvs." + body99[:95], "age": "AGE-SECRET-KEY-1" + strings.Repeat("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 2)[:58],
		"Azure storage": "AccountKey=" + body99[:86] + "==", "Azure AD": "xyz8Q~" + body99[:34], "Shopify": "shpat_" + hex64[:32], "Telegram": "123456789:AA" + body36[:33],
		"1Password": "ops_" + "eyJ" + strings.Repeat(body36, 7), "Alibaba": "LTAI" + body36[:20], "Artifactory": "AKCp" + body99[:69], "Bedrock": "ABSK" + strings.Repeat(body99, 2)[:120],
		"Clojars": "CLOJARS_" + hex64[:60], "Databricks": "dapi" + hex64[:32], "Doppler": "dp.pt." + body99[:43], "Dynatrace": "dt0c01." + upper[:24] + "." + (upper + upper)[:64],
		"EasyPost": "EZAK" + body99[:54], "fly.io": "fm2_" + strings.Repeat(body99, 2)[:120], "Grafana": "glsa_" + body36[:32] + "_" + hex64[:8], "Linear": "lin_api_" + body99[:40],
		"Notion": "ntn_" + "12345678901" + body36[:35], "OpenShift": "sha256~" + body99[:43], "Postman": "PMAK-" + hex64[:24] + "-" + hex64[:34], "Pulumi": "pul-" + hex64[:40],
		"RubyGems": "rubygems_" + hex64[:48], "Sentry": "sntryu_" + hex64, "Prefect": "pnu_" + body36, "Terraform": body36[:14] + ".atlasv1." + body99[:64], "Brevo": "xkeysib-" + hex64 + "-" + body36[:16],
		"private key": "-----BEGIN " + "PRIVATE KEY-----", "OpenSSH key": "-----BEGIN OPENSSH " + "PRIVATE KEY-----", "PGP key": "-----BEGIN PGP " + "PRIVATE KEY BLOCK-----",
		"AWS secret": "aws_secret_access_key = " + body36 + "/+a9", "AWS id": "AKIA" + upper[:16], "JWT": jwt(),
	}
}

func scanned(t testing.TB, path, text string) []Hit {
	t.Helper()
	hits, done := Scan(path, []byte(text), time.Now().Add(time.Minute))
	if !done {
		t.Fatal("not to the end")
	}
	return hits
}

// strong are the rules found, without those of which only a name speaks.
func strong(hits []Hit) []string {
	var out []string
	for _, h := range hits {
		if h.Rule != RuleAssigned {
			out = append(out, h.Rule)
		}
	}
	return out
}

func TestFormatsAreFound(t *testing.T) {
	if n := len(tokens()); n < 40 {
		t.Fatalf("%d formats", n)
	}
	for name, v := range tokens() {
		for _, line := range []string{v, `x = "` + v + `"`, "a: '" + v + "', b", "see " + v + " there", `{"text":"` + v + `"}`} {
			hits := scanned(t, "dir/f.go", "one\n"+line+"\nthree\n")
			if len(strong(hits)) == 0 {
				t.Errorf("%s: not found in %q", name, line)
				continue
			}
			if i := slices.IndexFunc(hits, func(h Hit) bool { return h.Rule != RuleAssigned && h.Line == 2 }); i < 0 {
				t.Errorf("%s in %q: %+v, expected line 2", name, line, hits)
			}
		}
	}
}

// TestFormatsInDisguise: a terminal sequence inside, a line end inside, two bytes per character, an encoding.
func TestFormatsInDisguise(t *testing.T) {
	for name, v := range tokens() {
		if strings.Contains(v, " ") || name == "Slack hook" {
			continue // of several words: its parts may be lines of their own anyway
		}
		half := len(v) / 2
		var wide strings.Builder
		for _, u := range utf16.Encode([]rune(v)) {
			wide.WriteByte(byte(u >> 8))
			wide.WriteByte(byte(u))
		}
		as := map[string]string{"a colour": v[:half] + "\x1b[32m" + v[half:], "a title": v[:3] + "\x1b]0;t\x07" + v[3:], "UTF-16": wide.String(),
			"base64": base64.StdEncoding.EncodeToString([]byte("key " + v + "\n")), "base64 twice": base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString([]byte("token=" + v)))),
			"hex": hex.EncodeToString([]byte(v)), "base64url": base64.RawURLEncoding.EncodeToString([]byte("token: " + v))}
		if ownFormat(v) {
			as["two lines"] = v[:half] + "\n" + v[half:]
			as["two strings"] = v[:half] + "\" +\n\t\t\"" + v[half:] + "\""
		}
		for how, text := range as {
			hits := scanned(t, "f.txt", "one\nx = \""+text+"\";\nthree\n")
			if len(strong(hits)) == 0 {
				t.Errorf("%s as %s: not found", name, how)
			} else if hits[0].Line != 2 && hits[0].Line != 3 {
				t.Errorf("%s as %s: line %d", name, how, hits[0].Line)
			}
		}
	}
}

func ownFormat(v string) bool {
	return slices.ContainsFunc(formats, func(f format) bool { return strings.HasPrefix(v, f.prefix) && len(f.prefix) > 3 })
}

func TestNamedValues(t *testing.T) {
	for _, line := range []string{"api_key = \"" + body36 + "\"", "DATADOG_ACCESS_TOKEN=" + hex64[:40], "client-secret: '" + body36[:24] + "'", `"twitch_api_token": "` + strings.ToLower(body36[:30]) + `"`} {
		hits := scanned(t, "config.yaml", line+"\n")
		if len(hits) != 1 || hits[0].Rule != RuleAssigned {
			t.Errorf("%q: %+v", line, hits)
		}
	}
	if hits := scanned(t, "yarn.lock", "auth_token = \""+body36+"\"\n"); len(hits) != 0 {
		t.Errorf("a lock file: %+v", hits)
	}
	if hits := scanned(t, "yarn.lock", "x \"ghp_"+body36+"\"\n"); len(hits) == 0 {
		t.Error("a token with a form of its own is one in a lock file too")
	}
}

// TestLookAlikes are no credentials. What issuers print in their documents (AKIAIOSFODNN7EXAMPLE) is known to
// everybody, and so is a body of fewer than six different characters.
func TestLookAlikes(t *testing.T) {
	for _, line := range []string{
		"ghp_short", "ghp_" + strings.Repeat("x", 36), "AKIA" + "IOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCY" + "EXAMPLEKEY", "xghp_" + body36, "sk-learn-is-a-library-of-python-for-machine-learning",
		"sk-button--primary-with-a-long-css-class-name", "npm_config_prefix", "npm_package_config_something_very_long_indeed_yes", "-----BEGIN PUBLIC " + "KEY-----", "-----BEGIN CERTIFICATE-----",
		"eyJhbGciOiJIUzI1NiJ9.e30.abc", "AGE-SECRET-KEY-1", "sha256:" + hex64, "commit " + hex64[:40], "SG.d", "https://hooks.slack.com/services/", "secret_access_key = os.environ[\"AWS_SECRET_ACCESS_KEY\"]",
		"AIzaShort", "glpat-", "pypi-server", "hf_hub_download", "a:AAAA", "token = getToken(request)", "password: ${DB_PASSWORD}", "api_key: <your key here>", "key = \"application/vnd.example.v1+json\"",
		"\"integrity\": \"sha512-" + base64.StdEncoding.EncodeToString([]byte(hex64)) + "\"", "uuid: 123e4567-e89b-12d3-a456-426614174000", "data:image/png;base64," + base64.StdEncoding.EncodeToString([]byte{0x89, 'P', 'N', 'G', 0, 1, 2, 3, 4, 5, 200, 201, 202, 203, 204, 205, 206, 7, 8, 9}),
		"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + body36, "passwordHashAlgorithm = pbkdf2-sha256", "if err := checkAuthorizationHeader(w, r); err != nil {", "xoxb-your-token", "sk_test_" + strings.Repeat("0", 24),
	} {
		if hits := scanned(t, "f.go", line+"\n"); len(hits) != 0 {
			t.Errorf("%q: %+v", line, hits)
		}
	}
}

// TestNoCommentSwitchesItOff: the text is written by who would like to.
func TestNoCommentSwitchesItOff(t *testing.T) {
	for _, c := range []string{"# gitleaks:allow", "// nosec", "# pragma: allowlist secret", "betterleaks:allow"} {
		if hits := scanned(t, ".gitleaksignore", "x = ghp_"+body36+" "+c+"\n"); len(strong(hits)) == 0 {
			t.Errorf("%s hides it", c)
		}
	}
}

// TestNoPathSwitchesItOff: the library allows everything in lock files, packages, images and its own settings.
func TestNoPathSwitchesItOff(t *testing.T) {
	for _, path := range []string{"go.sum", "package-lock.json", "node_modules/a/b.js", "vendor/github.com/a/b.go", "jquery.min.js", "a.png", "a.pdf", ".gitleaks.toml", "gitleaks.toml", "a.bb", "venv/lib/x.py", "@octokit/auth-token/README.md"} {
		for _, v := range []string{"ghp_" + body36, "PMAK-" + hex64[:24] + "-" + hex64[:34]} {
			if hits := scanned(t, path, "x "+v+"\n"); len(strong(hits)) == 0 {
				t.Errorf("%s: not found", path)
			}
		}
	}
	if hits := scanned(t, "node_modules/a.js", "api_key = \""+body36+"\"\n"); len(hits) != 1 {
		t.Errorf("a named value in a package: %+v", hits)
	}
}

// TestWhereverItIsCut: a text goes to the library in pieces, with and without lines to cut between.
func TestWhereverItIsCut(t *testing.T) {
	for _, v := range []string{"ghp_" + body36, "ops_" + "eyJ" + strings.Repeat(body36, 7)} {
		for _, fill := range []string{"a word\n", "word,", "x"} {
			for pad := range 150 {
				before := strings.Repeat(fill, pad*25/len(fill)) + " "
				hits := scanned(t, "f.txt", before+v+" "+strings.Repeat(fill, 400))
				if len(hits) != 1 || hits[0].Start != len(before) || hits[0].End != len(before)+len(v) {
					t.Fatalf("behind %d bytes of %q: %+v", len(before), fill, hits)
				}
			}
		}
	}
}

// TestPanicIsNoAnswer: what the library panics on was not searched, and what follows is.
func TestPanicIsNoAnswer(t *testing.T) {
	e, err := loaded()
	if err != nil {
		t.Fatal(err)
	}
	broken := *e
	bad := config.Rule{RuleID: "bad", Regex: regexp.MustCompile("bad"), Keywords: []string{"bad"}, Allowlists: []*config.Allowlist{nil}}
	rules := map[string]config.Rule{"bad": bad}
	for _, r := range ownRules() {
		rules[r.RuleID] = r
	}
	words := map[string]struct{}{"bad": {}, "ghp_": {}}
	broken.all = detect.NewDetector(config.Config{Rules: rules, Keywords: words})
	hits, done := broken.scan("f", []byte("bad\n"+strings.Repeat("line\n", pieceBytes)+"ghp_"+body36+"\n"), time.Now().Add(time.Minute))
	if done || len(strong(hits)) != 1 {
		t.Errorf("done %v, %+v", done, hits)
	}
}

func TestScanEndsAtItsDeadline(t *testing.T) {
	text := []byte(strings.Repeat("token key secret = \""+body36+"\" api auth ghp_\n", 20000))
	began := time.Now()
	if _, done := Scan("f", text, began.Add(20*time.Millisecond)); done {
		t.Error("it says that it was done")
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("it took %v", took)
	}
	if hits, done := Scan("f", []byte("x\n"), time.Now().Add(time.Minute)); len(hits) != 0 || !done {
		t.Error("a short text is not done")
	}
}

// TestScansAtOnce: one scan leaves nothing for another, and equal input gives equal hits.
func TestScansAtOnce(t *testing.T) {
	var all strings.Builder
	for _, name := range slices.Sorted(maps.Keys(tokens())) {
		all.WriteString("x = \"" + tokens()[name] + "\"\n")
	}
	want := scanned(t, "f.go", all.String())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 5 {
				if hits, _ := Scan("f.go", []byte(all.String()), time.Now().Add(time.Minute)); !slices.Equal(hits, want) {
					t.Errorf("%+v, before %+v", hits, want)
				}
				Scan("f.go", []byte("password: x\n"), time.Now())
			}
		})
	}
	wg.Wait()
}

func TestRedactNames(t *testing.T) {
	v := "ghp_" + body36
	for in, want := range map[string]string{"": "", "plain/name.go": "plain/name.go", "a/" + v + "/b": "a/<redacted>/b", v + "-" + v: "<redacted>", v + "/" + v: "<redacted>/<redacted>", "api_key=" + body36: "api_key=" + body36} {
		if got := Redact(in); got != want && !(strings.HasPrefix(in, v+"-") && !strings.Contains(got, body36)) {
			t.Errorf("%q gave %q", in, got)
		}
	}
}

// TestLibraryRules: they are all there, widened, nothing is allowed because of where it stands, and the library
// says nothing.
func TestLibraryRules(t *testing.T) {
	c, err := libraryRules()
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Rules) < 200 || len(c.Allowlists) > 0 {
		t.Errorf("%d rules, %d allowlists for ours too", len(c.Rules), len(c.Allowlists))
	}
	ends, begins := 0, 0
	for id, r := range c.Rules {
		for _, a := range r.Allowlists {
			if len(a.Paths) > 0 {
				t.Errorf("%s allows %v", id, a.Paths)
			}
		}
		if r.Regex != nil && strings.Contains(r.Regex.String(), widerEnd) {
			ends++
		}
		if r.Regex != nil && strings.Contains(r.Regex.String(), before) {
			begins++
		}
	}
	if ends < 150 || begins < 60 {
		t.Errorf("the ends of %d rules and the beginnings of %d are widened", ends, begins)
	}
	if _, err := loaded(); err != nil || logging.Logger.GetLevel() != zerolog.Disabled {
		t.Errorf("%v, the library's log is at %v", err, logging.Logger.GetLevel())
	}
	for _, id := range slices.Concat(replaced, loose) {
		if _, ok := c.Rules[id]; !ok {
			t.Errorf("the library has no rule %s", id)
		}
	}
}

// FuzzScan: lines are in the text, places hold what they did, and nothing panics.
func FuzzScan(f *testing.F) {
	for _, v := range tokens() {
		f.Add([]byte("a\n"+v+"\x1b[0m\nb"), "f.go")
	}
	f.Add([]byte("\x1b["), "")
	f.Add([]byte("api_key=\n\n\x00"), "x.yaml")
	f.Fuzz(func(t *testing.T, text []byte, path string) {
		hits, _ := Scan(path, text, time.Now().Add(time.Second))
		lines := strings.Count(string(text), "\n") + 1
		for _, h := range hits {
			if h.Line < 1 || h.Line > lines || h.Start < 0 || h.End > len(text) || h.End < h.Start || !slices.Contains(Rules(), h.Rule) {
				t.Fatalf("%+v of %d lines, %d bytes", h, lines, len(text))
			}
			if h.End > 0 && strings.Count(string(text[:h.Start]), "\n")+1 != h.Line {
				t.Fatalf("%+v is not in its line", h)
			}
		}
	})
}

func BenchmarkScan(b *testing.B) {
	var text strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&text, "func (s *Server) handleToken%d(w http.ResponseWriter, r *http.Request) { key := r.Header.Get(\"X-Api-Key\") }\n", i)
	}
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		Scan("f.go", []byte(text.String()), time.Now().Add(time.Minute))
	}
}
