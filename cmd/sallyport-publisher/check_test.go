package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/evidence"
	served "sallyport.dev/sallyport/internal/forge/forgetest/github"
)

// TestCheckWantsWhatIsConfigured: with attestations: true the App must have that permission, and without it is not asked for.
func TestCheckWantsWhatIsConfigured(t *testing.T) {
	gh := served.New(t)
	dir := t.TempDir()
	ring, err := evidence.OpenKeyring(filepath.Join(dir, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	public, err := ring.Public()
	if err != nil {
		t.Fatal(err)
	}
	check := func(more string) (string, error) {
		t.Helper()
		text := fmt.Sprintf("version: 1\nmission-control: [mc.pub]\ntargets:\n  - repository: %s\n    kind: github\n    bases: [main]\n    credential: {app: {id: %s, key-file: %s, installation: %d, repository-id: 4711}}\n%s",
			gh.Repository, gh.AppID, gh.KeyFile, gh.Installation, more)
		for name, b := range map[string][]byte{"mc.pub": public, "publisher.yaml": []byte(text)} {
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var out bytes.Buffer
		err := run([]string{"check", "--config", filepath.Join(dir, "publisher.yaml")}, &out)
		return out.String(), err
	}
	for _, c := range []struct {
		more, granted string
		code          sallyport.Code
		says          string
	}{
		{"", "", -1, "minted [contents: write metadata: read pull_requests: write]"},
		{"", "write", -1, "minted [contents: write metadata: read pull_requests: write]"},
		{"    attestations: true\n", "write", -1, "minted [attestations: write contents: write metadata: read pull_requests: write]"},
		{"    attestations: true\n", "read", sallyport.CodeDenied, "has not attestations: write"},
		{"    attestations: true\n", "", sallyport.CodeDenied, "has not attestations: write"},
	} {
		gh.Set(func(s *served.State) {
			if delete(s.Granted, "attestations"); c.granted != "" {
				s.Granted["attestations"] = c.granted
			}
		})
		out, err := check(c.more)
		if !strings.Contains(out, c.says) || (err != nil) != (c.code >= 0) || err != nil && sallyport.CodeOf(err) != c.code {
			t.Errorf("%q, installation has %q: %v\n%s", c.more, c.granted, err, out)
		}
	}
	if gh.Live() != 0 {
		t.Errorf("%d tokens are left", gh.Live())
	}
}
