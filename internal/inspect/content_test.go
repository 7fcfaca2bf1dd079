package inspect

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"sallyport.dev/sallyport"
)

const (
	body36 = "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY1zA2"
	upper  = "Q2W3E4R5T6Y7U8I9"
)

func jwt() string {
	enc := base64.RawURLEncoding.EncodeToString
	return enc([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + enc([]byte(`{"sub":"1","exp":1999999999}`)) + "." + body36
}

// credentials are made up at run time, so that this file holds none.
func credentials() map[string][]string {
	return map[string][]string{
		"secret.github-token":       {"ghp_" + body36, "gho_" + body36, "ghu_" + body36, "ghr_" + body36, "ghs_" + body36, "ghs_" + jwt(), "github_pat_11" + body36 + "_" + body36},
		"secret.gitlab-token":       {"glpat-" + body36[:20], "gldt-" + body36[:20]},
		"secret.aws-access-key-id":  {"AKIA" + upper, "ASIA" + upper},
		"secret.aws-secret-key":     {"AWS_SECRET_ACCESS_KEY=" + body36 + "/+a9", `"SecretAccessKey": "` + body36 + `/+a9"`, "aws-secret-key: " + body36 + "/+a9"},
		"secret.anthropic-key":      {"sk-ant-" + "api03-" + body36 + "-" + body36},
		"secret.openai-key":         {"sk-" + body36 + body36[:12], "sk-proj-" + body36, "sk-svcacct-" + body36},
		"secret.slack-token":        {"xoxb-" + "123456789012-" + body36, "xapp-" + "1-" + body36},
		"secret.slack-webhook":      {"https://hooks.slack.com/services/" + "T0123/B0123/" + body36},
		"secret.google-key":         {"AIza" + body36[:35], "GOCSPX-" + body36},
		"secret.stripe-key":         {"sk_live_" + body36, "rk_live_" + body36},
		"secret.npm-token":          {"npm_" + body36},
		"secret.pypi-token":         {"pypi-" + body36 + body36},
		"secret.huggingface-token":  {"hf_" + body36},
		"secret.sendgrid-key":       {"SG." + body36[:22] + "." + body36 + body36[:7]},
		"secret.digitalocean-token": {"dop_v1_" + strings.Repeat("0a1b2c3d4e5f6789", 4)},
		"secret.docker-token":       {"dckr_pat_" + body36},
		"secret.vault-token":        {"hvs." + body36},
		"secret.age-key":            {"AGE-SECRET-KEY-1" + strings.Repeat("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 2)[:58]},
		"secret.azure-key":          {"AccountKey=" + body36 + body36 + "abcdefghijklmn=="},
		"secret.telegram-token":     {"123456789:AA" + body36[:33]},
		"secret.shopify-token":      {"shpat_" + strings.Repeat("0a1b2c3d4e5f6789", 2)},
		"secret.known-format":       {"glsa_" + body36[:32] + "_" + "0a1b2c3d", "dapi" + strings.Repeat("0a1b2c3d4e5f6789", 2)},
		"secret.assigned":           {"api_key=" + body36},
		"secret.jwt":                {jwt()},
		"secret.private-key":        {"-----BEGIN RSA " + "PRIVATE KEY-----", "-----BEGIN " + "PRIVATE KEY-----", "-----BEGIN OPENSSH " + "PRIVATE KEY-----", "-----BEGIN PGP " + "PRIVATE KEY BLOCK-----", "PuTTY-User-Key-" + "File-3: ssh-ed25519"},
	}
}

func TestSecrets(t *testing.T) {
	all := credentials()
	for _, r := range table {
		if strings.HasPrefix(r.ID, "secret.") && r.ID != "secret.in-name" && r.ID != "secret.private-key-in-test" && r.ID != "secret.known-value" && all[r.ID] == nil {
			t.Errorf("rule %s has no example", r.ID)
		}
	}
	for rule, values := range all {
		for _, v := range values {
			for _, line := range []string{v, "x = \"" + v + "\"", "a: " + v + ", b", "'" + v + "'", `"text\n` + v + `"`, "see " + v + "."} {
				found := newTree("o").add("f.go", modeFile, "one\n"+line+"\nthree\n").inspect(t)
				if got := rulesOf(found); !slices.Contains(got, rule) {
					t.Errorf("%s: %q is not found (%v)", rule, line, got)
					continue
				}
				for _, f := range found {
					if f.Rule == rule && !strings.HasPrefix(f.Message, "line 2:") {
						t.Errorf("%s: message %q", rule, f.Message)
					}
				}
				if rule == "secret.aws-secret-key" {
					noLeak(t, found, body36+"/+a9") // its label is no secret, and the rule is named like it
				} else {
					noLeak(t, found, v)
				}
			}
		}
	}
}

// noLeak fails if a finding holds any long part of a secret.
func noLeak(t testing.TB, found []sallyport.Finding, secret string) {
	t.Helper()
	for _, f := range found {
		all := f.Rule + "\x00" + f.Path + "\x00" + f.Message + "\x00" + f.Todo
		for at := 0; at+12 <= len(secret); at++ {
			if part := secret[at : at+12]; strings.Contains(all, part) && !strings.Contains("PRIVATE KEY", strings.Trim(part, " -")) {
				t.Fatalf("%s tells %q of a secret: %q", f.Rule, part, all)
			}
		}
	}
}

func TestNoSecrets(t *testing.T) {
	for _, line := range []string{
		"ghp_short", "ghp_" + strings.Repeat("x", 36), "AKIA" + "IOSFODNN7EXAMPLE", "xghp_" + body36, "sk-learn-is-a-library-of-python-for-machine-learning", "sk-button--primary-with-a-long-css-class-name",
		"npm_config_prefix", "npm_package_config_something_very_long_indeed_yes", "-----BEGIN PUBLIC KEY-----", "-----BEGIN CERTIFICATE-----", "eyJhbGciOiJIUzI1NiJ9.e30.abc",
		"AGE-SECRET-KEY-1", "sha256:" + strings.Repeat("0a1b2c3d", 8), "SG.d", "https://hooks.slack.com/services/", "secret_access_key = os.environ[\"AWS_SECRET_ACCESS_KEY\"]", "AIzaShort", "glpat-", "pypi-server", "hf_hub_download", "a:AAAA",
	} {
		for _, r := range rulesOf(newTree("o").add("f.go", modeFile, line+"\n").inspect(t)) {
			if strings.HasPrefix(r, "secret.") {
				t.Errorf("%q: %s", line, r)
			}
		}
	}
}

func TestOnlyAddedLinesCount(t *testing.T) {
	old := "token = ghp_" + body36 + "\nbidi \u202e\n"
	if got := rulesOf(newTree().edit("a.go", old, "new line\n"+old).inspect(t)); len(got) != 0 {
		t.Errorf("lines of the base are reported: %v", got)
	}
	if got := rulesOf(newTree().edit("a.go", "x\n", old).inspect(t)); !slices.Equal(got, []string{"secret.github-token", "text.bidi"}) {
		t.Errorf("added lines: %v", got)
	}
}

func TestSecretElsewhereThanInText(t *testing.T) {
	v := "ghp_" + body36
	utf16le := []byte{0xFF, 0xFE}
	for _, u := range utf16.Encode([]rune("key=" + v + "\n")) {
		utf16le = append(utf16le, byte(u), byte(u>>8))
	}
	for name, tr := range map[string]*tree{
		"binary": newTree("o").add("a.bin", modeFile, "\x00\x01\x02"+v+"\x00"),
		"utf-16": newTree("o").add("a.txt", modeFile, string(utf16le)),
		"link":   newTree("o").add("l", modeLink, v),
	} {
		found := tr.inspect(t)
		if !slices.Contains(rulesOf(found), "secret.github-token") {
			t.Errorf("%s: %v", name, rulesOf(found))
		}
		noLeak(t, found, v)
	}
	found := newTree("o").add("dir/"+v+"/x", modeFile, "x").inspect(t)
	if !slices.Contains(rulesOf(found), "secret.in-name") {
		t.Errorf("name: %v", rulesOf(found))
	}
	noLeak(t, found, v)
}

func TestKeyInTestsIsAWarning(t *testing.T) {
	key := "-----BEGIN " + "PRIVATE KEY-----\n"
	if got := newTree("o").add("testdata/k.pem", modeFile, key).inspect(t); Worst(got) != warn {
		t.Errorf("%+v", got)
	}
	if got := newTree("o").add("deploy/k.pem", modeFile, key).inspect(t); Worst(got) != block {
		t.Errorf("%+v", got)
	}
}

func TestText(t *testing.T) {
	for _, c := range []struct{ path, text, rule string }{
		{"a.go", "if x \u202e{\n", "text.bidi"}, {"a.md", "x \u2067y\u2069\n", "text.bidi-prose"}, {"Makefile2", "\u202a\n", "text.bidi"},
		{"a.go", "a\u200bb\n", "text.invisible"}, {"a.md", "x\U000E0069\U000E0067\n", "text.invisible"}, {"a.go", "\ufeffx\n\ufeffy\n", "text.invisible"},
		{"a.sh", "echo \x1b[2K\n", "text.escape"}, {"a.go", "x\u009b31m\n", "text.escape"},
		{"a.go", "\ufeffpackage a\n", ""}, {"a.md", "👩\u200d💻 ❤\ufe0f שלום\u200f نص #1\ufe0f\u20e3\n", ""}, {"a.go", "plain\ttext\r\n", ""}, {"a.md", "🏴\U000E0067\U000E0062\U000E0065\U000E006E\U000E0067\U000E007F\n", ""},
	} {
		if got := strings.Join(rulesOf(newTree("o").add(c.path, modeFile, c.text).inspect(t)), " "); got != c.rule {
			t.Errorf("%s %q: %q, expected %q", c.path, c.text, got, c.rule)
		}
	}
}

func TestManifestsAreRead(t *testing.T) {
	for _, c := range []struct {
		path, before, now string
		rule              string
		want              bool
	}{
		{"package.json", `{"scripts":{"test":"jest"}}`, `{"scripts":{"test":"true"}}`, "runner.script", false},
		{"package.json", `{"scripts":{}}`, `{"scripts":{"postinstall":"x"}}`, "runner.script", true},
		{"package.json", `{"scripts":{"prepare":"a"}}`, `{"scripts":{"prepare":"b"}}`, "runner.script", true},
		{"package.json", `{"scripts":{"prepare":"a"}}`, `{"scripts":{"prepare":"b"},"SCRIPTS":{"prepare":"a"}}`, "runner.script", true},
		{"package.json", `{"scripts":{"prepare":"a"}}`, `{"scripts":{"prepare":"a"},"version":"2"}`, "runner.script", false},
		{"package.json", `{}`, `{"scripts": `, "runner.script", true},
		{"go.mod", "module x\nrequire a v1\n", "module x\nrequire a v2\n", "runner.replace", false},
		{"go.mod", "module x\n", "module x\nreplace a => ../b\n", "runner.replace", true},
		{"go.mod", "module x\n", "module x\nreplace(\n\ta v1 => b v2\n)\n", "runner.replace", true},
		{"go.mod", "module x\nreplace a => b\n", "module x\nreplace (\n a => b // same\n)\n", "runner.replace", false},
		{"Cargo.toml", "[package]\n", "[package]\n[patch.crates-io]\nx = { path = \"y\" }\n", "runner.replace", true},
		{"Cargo.toml", "[package]\n", "[package]\nname = \"y\"\n", "runner.replace", false},
	} {
		if got := rulesOf(newTree().edit(c.path, c.before, c.now).inspect(t)); slices.Contains(got, c.rule) != c.want {
			t.Errorf("%s %q -> %q: %v", c.path, c.before, c.now, got)
		}
	}
}

func TestBinariesAndSizes(t *testing.T) {
	big := strings.Repeat("line of text\n", 1000)
	for _, c := range []struct {
		tree *tree
		rule string
	}{
		{newTree("o").add("a.png", modeFile, "\x89PNG\x00"), "binary.added"},
		{newTree("o").add("a", modeFile, "\x7fELF\x02\x00"), "binary.executable"},
		{newTree("o").add("a.jar", modeFile, "PK\x03\x04\x00"), "binary.executable"},
		{newTree("o").add("a.txt", modeFile, "PK is text\n"), ""},
		{newTree().edit("a.png", "\x89PNG\x00", "\x89PNG\x00\x01"), "binary.changed"},
		{newTree("o").add("a.txt", modeFile, big), "size.file"},
		{newTree("o").add("a.txt", modeFile, big[:9000]).add("b.txt", modeFile, big[:9001]), "size.total"},
		{newTree("o").remove("a.txt"), ""},
	} {
		c.tree.in.Limits = Limits{FileSize: 10000, ChangeSize: 15000}
		if got := rulesOf(c.tree.inspect(t)); c.rule == "" && len(got) > 0 || c.rule != "" && !slices.Contains(got, c.rule) {
			t.Errorf("%+v: %v, expected %q", c.tree.in.Changes, got, c.rule)
		}
	}
}

func TestLimitsAreSaid(t *testing.T) {
	secretAtEnd := strings.Repeat("x\n", 5000) + "ghp_" + body36 + "\n"
	tr := newTree("o").add("a.txt", modeFile, secretAtEnd)
	tr.in.Limits.BlobBytes = 1000
	if got := rulesOf(tr.inspect(t)); !slices.Equal(got, []string{"scan.incomplete"}) {
		t.Errorf("blob: %v", got)
	}
	tr = newTree("o").add("a.txt", modeFile, "one\n").add("b.txt", modeFile, "ghp_"+body36)
	tr.in.Limits.TotalBytes = 1
	if got := rulesOf(tr.inspect(t)); !slices.Equal(got, []string{"scan.incomplete"}) {
		t.Errorf("total: %v", got)
	}
	tr = newTree("o").add("a.txt", modeFile, "one\n")
	tr.in.Limits.Time = time.Nanosecond
	if got := rulesOf(tr.inspect(t)); !slices.Equal(got, []string{"scan.incomplete"}) {
		t.Errorf("time: %v", got)
	}
	tr = newTree("o")
	for i := range 20 {
		tr.add("a:"+string(rune('a'+i)), modeFile, "x")
	}
	tr.in.Limits.PerRule = 3
	found := tr.inspect(t)
	if len(found) != 4 || !slices.ContainsFunc(found, func(f sallyport.Finding) bool { return strings.HasPrefix(f.Message, "17 more") && f.Severity == warn }) {
		t.Errorf("%d findings: %+v", len(found), found)
	}
}

func TestUnreadableBlobIsNoVerdict(t *testing.T) {
	tr := newTree("o").add("a", modeFile, "x")
	tr.in.Blob = func(context.Context, sallyport.ObjectID, int64) ([]byte, error) {
		return nil, &sallyport.Error{Code: sallyport.CodeCorrupt, Message: "torn"}
	}
	if found, err := Inspect(context.Background(), tr.in); found != nil || sallyport.CodeOf(err) != sallyport.CodeCorrupt {
		t.Errorf("%v, %v", found, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Inspect(ctx, newTree("o").add("a", modeFile, "x").in); !errors.Is(err, context.Canceled) {
		t.Errorf("ended ctx: %v", err)
	}
	twice := newTree("o").add("a", modeFile, "x").add("a", modeFile, "y")
	if _, err := Inspect(context.Background(), twice.in); sallyport.CodeOf(err) != sallyport.CodeCorrupt {
		t.Errorf("a path twice: %v", err)
	}
}

func TestWorst(t *testing.T) {
	f := func(s ...sallyport.Severity) []sallyport.Finding {
		var out []sallyport.Finding
		for _, x := range s {
			out = append(out, sallyport.Finding{Severity: x})
		}
		return out
	}
	for _, c := range []struct {
		in   []sallyport.Finding
		want sallyport.Severity
	}{{nil, ""}, {f(info), info}, {f(info, warn, info), warn}, {f(warn, block), block}, {f(info, "new"), block}} {
		if got := Worst(c.in); got != c.want {
			t.Errorf("%v: %q, expected %q", c.in, got, c.want)
		}
	}
}
