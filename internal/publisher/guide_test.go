package publisher

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/approval"
)

func guideConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "publisher.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const guideTarget = "version: 1\nmission-control: [mc.pub]\ntargets:\n  - {repository: https://forge.example/a/b, kind: gitea, bases: [main], credential: {token-file: %s}}\n"

// TestCredentialsDirectory: a path may lie in what systemd loads for the unit, and not leave it.
func TestCredentialsDirectory(t *testing.T) {
	for _, c := range []struct{ dir, path, want string }{
		{"/run/credentials/p.service", "$CREDENTIALS_DIRECTORY/token", "/run/credentials/p.service/token"},
		{"/run/credentials/p.service", "$CREDENTIALS_DIRECTORY/../../../etc/shadow", "/run/credentials/p.service/etc/shadow"},
		{"/run/credentials/p.service", "x/$CREDENTIALS_DIRECTORY/token", "HERE/x/$CREDENTIALS_DIRECTORY/token"},
		{"/run/credentials/p.service", "$CREDENTIALS_DIRECTORY_/token", "HERE/$CREDENTIALS_DIRECTORY_/token"},
		{"/run/credentials/p.service", "$HOME/token", "HERE/$HOME/token"},
		{"", "$CREDENTIALS_DIRECTORY/token", "HERE/$CREDENTIALS_DIRECTORY/token"},
		{"relative", "$CREDENTIALS_DIRECTORY/token", "HERE/$CREDENTIALS_DIRECTORY/token"},
	} {
		t.Setenv("CREDENTIALS_DIRECTORY", c.dir)
		path := guideConfig(t, strings.ReplaceAll(guideTarget, "%s", c.path))
		got, err := ReadConfig(path)
		if err != nil {
			t.Fatal(err)
		}
		if have := strings.Replace(got.Targets[0].Credential.TokenFile, filepath.Dir(path), "HERE", 1); have != c.want {
			t.Errorf("%s in %q: %s, want %s", c.path, c.dir, have, c.want)
		}
	}
}

var guideBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// TestGuidesConfigurations: every one on the page is read. A block that begins with a target is a list of targets, one that begins
// with credential or approvers belongs into a target.
func TestGuidesConfigurations(t *testing.T) {
	page, err := os.ReadFile("../../docs/guide-publishing.md")
	if err != nil {
		t.Fatal(err)
	}
	const head = "version: 1\nmission-control: [mc.pub]\n"
	indent := func(s, by string) string { return by + strings.ReplaceAll(strings.TrimSuffix(s, "\n"), "\n", "\n"+by) }
	blocks := guideBlock.FindAllSubmatch(page, -1)
	if len(blocks) < 6 {
		t.Errorf("%d blocks: the pattern no longer finds them", len(blocks))
	}
	for _, b := range blocks {
		text := string(b[1])
		switch {
		case strings.HasPrefix(text, "version: 1\n"):
		case strings.HasPrefix(text, "- repository:"):
			text = head + "targets:\n" + indent(text, "  ")
		case strings.HasPrefix(text, "credential:"):
			text = head + "targets:\n  - repository: https://forge.example/owner/shop\n    kind: gitea\n    bases: [main]\n" + indent(text, "    ")
		case strings.HasPrefix(text, "approvers:"):
			text = head + "targets:\n  - repository: https://forge.example/owner/shop\n    kind: gitea\n    bases: [main]\n    credential: {token-file: t}\n" + indent(text, "    ")
		default:
			t.Errorf("a block that is neither a configuration nor part of one:\n%s", text)
			continue
		}
		c, err := ReadConfig(guideConfig(t, text))
		if err != nil {
			t.Errorf("%v %s\n%s", err, sallyport.HintOf(err), text)
			continue
		}
		for _, target := range c.Targets {
			for _, person := range target.Approvers.People {
				for _, line := range person.Keys {
					if _, err := approval.ParseKey(person.Name, line); err != nil {
						t.Errorf("%v\n%s", err, text)
					}
				}
			}
		}
	}
}
