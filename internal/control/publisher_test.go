package control

import (
	"os"
	"path/filepath"
	"testing"

	"sallyport.dev/sallyport"
)

// TestPublisherThatIsKilled: a Publisher that was ended from outside is asked again, and one that says no is not.
func TestPublisherThatIsKilled(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	t.Setenv("SALLYPORT_LIBEXEC", dir)
	t.Setenv(PublisherSocket, "")
	file := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	file("sallyport/publisher.yaml", "")
	for script, want := range map[string]sallyport.Code{
		"kill -9 $$":                   sallyport.CodeUnavailable,
		"echo no such key >&2; exit 2": sallyport.CodeInvalid,
	} {
		file(publisherProgram, "#!/bin/sh\n"+script+"\n")
		_, _, _, err := startPublisher(t.Context())
		if sallyport.CodeOf(err) != want {
			t.Errorf("%s: %v, code %v, want %v", script, err, sallyport.CodeOf(err), want)
		}
	}
}
