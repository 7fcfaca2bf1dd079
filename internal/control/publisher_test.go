package control

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/evidence"
	"sallyport.dev/sallyport/internal/publication"
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

// TestRequestThatIsCut: where the request could not be sent whole, the Publisher hears its end, and nobody waits for the other.
func TestRequestThatIsCut(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.Copy(io.Discard, c) // until its end
		_ = publication.WriteAnswer(c, publication.Answer{Error: publication.Refuse(&sallyport.Error{Code: sallyport.CodeDenied, Message: "it is not the pack that was accepted"})})
	}()
	key, err := evidence.OpenKeyring(filepath.Join(dir, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	public, err := key.Public()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "keys.pem"), public, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(PublisherSocket, socket)
	t.Setenv(PublisherKeys, filepath.Join(dir, "keys.pem"))
	ended := make(chan error, 1)
	go func() {
		_, _, err := askPublisher(t.Context(), publication.Request{Acceptance: "{}", Evidence: "{}", PackBytes: 10}, iotest.ErrReader(errors.New("the disk")))
		ended <- err
	}()
	select {
	case err := <-ended:
		if sallyport.CodeOf(err) != sallyport.CodeUnavailable {
			t.Errorf("%v, code %v", err, sallyport.CodeOf(err))
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it waits for an answer to what it did not ask")
	}
}
