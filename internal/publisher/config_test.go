package publisher

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
)

// What is wrong with a configuration is named, and none of it is half believed.
func TestConfigThatIsRefused(t *testing.T) {
	const good = "version: 1\nmission-control: [mc.pub]\ntargets:\n  - repository: https://forge.example/a/b\n    kind: gitea\n    bases: [main]\n    credential: {token-file: t}\n"
	for name, k := range map[string]struct {
		text string
		mode os.FileMode
		code sallyport.Code
		says string
	}{
		"sound":                {good, 0o644, -1, ""},
		"others can write":     {good, 0o664, sallyport.CodeDenied, "others can write it"},
		"two documents":        {good + "---\nversion: 1\n", 0o600, sallyport.CodeInvalid, "one document"},
		"an unknown key":       {good + "    merge: true\n", 0o600, sallyport.CodeInvalid, "merge"},
		"a key twice":          {good + "    kind: git\n", 0o600, sallyport.CodeInvalid, "kind"},
		"no target":            {strings.Split(good, "targets")[0] + "targets: []\n", 0o600, sallyport.CodeInvalid, "targets"},
		"no base":              {strings.Replace(good, "[main]", "[]", 1), 0o600, sallyport.CodeInvalid, "bases"},
		"no key":               {strings.Replace(good, "[mc.pub]", "[]", 1), 0o600, sallyport.CodeInvalid, "mission-control"},
		"a password in it":     {strings.Replace(good, "https://", "https://me:pw@", 1), 0o600, sallyport.CodeInvalid, "repository"},
		"no credential":        {strings.Replace(good, "token-file: t", "user: x", 1), 0o600, sallyport.CodeInvalid, "credential"},
		"two credentials":      {strings.Replace(good, "token-file: t", "token-file: t, owner-token-file: o", 1), 0o600, sallyport.CodeInvalid, "credential"},
		"an approver's no key": {good + "    approvers: {count: 1, people: [{name: ada, keys: [nonsense]}]}\n", 0o600, sallyport.CodeInvalid, "approvers.people[0].keys"},
		"attestations":         {strings.Replace(good, "kind: gitea", "kind: github", 1) + "    attestations: true\n", 0o600, -1, ""},
		"nobody keeps those":   {good + "    attestations: true\n", 0o600, sallyport.CodeInvalid, "only kind github keeps attestations, found kind gitea"},
		"approvers uncounted":  {good + "    approvers: {people: [{name: ada, keys: []}]}\n", 0o600, sallyport.CodeInvalid, "approvers"},
	} {
		path := filepath.Join(t.TempDir(), "publisher.yaml")
		if err := os.WriteFile(path, []byte(k.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, k.mode); err != nil {
			t.Fatal(err)
		}
		_, err := ReadConfig(path)
		if k.code < 0 {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if sallyport.CodeOf(err) != k.code || !strings.Contains(err.Error(), k.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
