package secret

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestFromEnv(t *testing.T) {
	v := FromEnv([]string{"GITHUB_TOKEN=abcdefgh1", "dbPassword=hunter2-hunter2", "AWS_SECRET_ACCESS_KEY=wJalr/x+yz12", "PATH=/usr/bin:/bin", "HOME=/home/me", "KEYBOARD=german-nodeadkeys", "SSH_PUBLIC_KEY=ssh-ed25519 AAAA",
		"SSH_KEY_FILE=/home/me/.ssh/id_ed25519", "PIN_TOKEN=1234", "DB_PASS=password", "DATABASE_URL=postgres://app:s3cr3t-of-db@db:5432/app", "API_URL=https://example.invalid/x", "EMPTY_TOKEN=", "TOKENS", "NOTE=redacted:thing", "X_SECRET=redacted-once"})
	want := map[string]string{"GITHUB_TOKEN": "abcdefgh1", "dbPassword": "hunter2-hunter2", "AWS_SECRET_ACCESS_KEY": "wJalr/x+yz12", "DATABASE_URL": "s3cr3t-of-db"}
	got := map[string]string{}
	for name, value := range v.Known {
		got[name] = string(value)
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if !slices.Equal(v.Skipped, []string{"PIN_TOKEN", "DB_PASS", "X_SECRET"}) {
		t.Errorf("skipped %v", v.Skipped)
	}
}

func TestFromFile(t *testing.T) {
	key := "-----BEGIN " + "PRIVATE KEY-----\nMIIEvAIBADANBgkq\nAAECAwQFBgcICQoL\n-----END " + "PRIVATE KEY-----"
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		".env":        {"# a comment\nexport API_TOKEN='tok-123456789'\nPORT=3000\nNODE_ENV=development\nOPAQUE=aB3dE5fG7hJ9kL1mN2pQ4rS6\nDB_PASSWORD=\"a b c d e f\"\r\nSHORT_KEY=abc\n", []string{"tok-123456789", "aB3dE5fG7hJ9kL1mN2pQ4rS6", "a b c d e f"}},
		"a.yaml":      {"db:\n  password: \"of-the-database\"\n  host: db.example.invalid\n", []string{"of-the-database"}},
		"a.json":      {"{\n  \"client_secret\": \"s-0123456789\",\n  \"name\": \"a-plain-name\"\n}\n", []string{"s-0123456789"}},
		".token":      {"  word-alone-in-file\n", []string{"word-alone-in-file"}},
		"key.pem":     {"text\n" + key + "\n", []string{key}},
		"empty":       {"", nil},
		"notes.txt":   {"just some words\nof prose\n", nil},
		"~weird/n\nm": {"PASSWORD=0123456789\n", []string{"0123456789"}},
	} {
		v := FromFile(name, []byte(c.text))
		var got []string
		for n, value := range v.Known {
			got = append(got, string(value))
			if n == "" || strings.ContainsFunc(n, func(r rune) bool { return !strings.ContainsRune("._-", r) && !alnum(byte(r)) }) {
				t.Errorf("%s: the name %q is not plain", name, n)
			}
		}
		slices.Sort(got)
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestOrdinaryVariables: where a shell stands is no secret, whatever "pwd" means elsewhere.
func TestOrdinaryVariables(t *testing.T) {
	v := FromEnv([]string{"PWD=/home/Me/Big Project", "SSH_AUTH_SOCK=/tmp/ssh-AbCdEf/agent.123", "DESKTOP_SESSION=gnome-classic", "DB_PWD=/home/Me/Big Project"})
	if len(v.Known) != 1 || string(v.Known["DB_PWD"]) != "/home/Me/Big Project" {
		t.Errorf("%q", v.Known)
	}
}

func TestNamed(t *testing.T) {
	for name, want := range map[string]bool{"API_KEY": true, "apiKey": true, "client-secret": true, "db.password": true, "AuthToken2": true, "SESSION": true, "monkey": false, "KEYBOARD": false, "PUBLIC_KEY": false, "tokenizer": false, "": false, "PASSENGER": false, "X": false} {
		if Named(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}
