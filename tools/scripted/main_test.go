package main

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
)

func TestServesAndLogsWithoutSecrets(t *testing.T) {
	t.Setenv("SCRIPTED_CREDENTIAL", "sk-scripted-0123456789")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = run([]string{"-command", "make a"}, w) }() // ends with the test binary
	lines := bufio.NewReader(r)
	url, _ := lines.ReadString('\n')
	q, err := http.NewRequest("POST", strings.TrimSpace(url)+"/v1/messages", strings.NewReader(`{"tools":[{"name":"Bash"}],"x":"body text"}`))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("X-Api-Key", "sk-scripted-0123456789")
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	line, _ := lines.ReadString('\n')
	if !strings.Contains(string(body), "make a") || !strings.Contains(line, `"asked":"command 1"`) || strings.Contains(line, "sk-") || strings.Contains(line, "body text") {
		t.Fatalf("answered %s, logged %s", body, line)
	}
}

func TestRefusesToStart(t *testing.T) {
	t.Setenv("SCRIPTED_CREDENTIAL", "")
	if err := run(nil, os.Stdout); err == nil || !strings.Contains(err.Error(), "SCRIPTED_CREDENTIAL") {
		t.Fatalf("without a credential: %v", err)
	}
	t.Setenv("SCRIPTED_CREDENTIAL", "x")
	if err := run([]string{"-listen", "0.0.0.0:0"}, os.Stdout); err == nil || !strings.Contains(err.Error(), "loopback") {
		t.Fatalf("on all interfaces: %v", err)
	}
}
