package credential

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

const canary = "canary-9f8e7d6c5b4a-Zq7Kp"

func TestSecretIsNeverShown(t *testing.T) {
	s := Secretly(canary)
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "s", s, "in", struct{ S Secret }{s}, "p", &s)
	j, err := json.Marshal(map[string]any{"s": s, "p": &s, "in": struct{ S Secret }{s}, "key": map[Secret]int{s: 1}})
	if err != nil {
		t.Fatal(err)
	}
	all := log.String() + string(j)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%10s", "%t", "%w"} {
		all += fmt.Sprintf(verb, s) + fmt.Sprintf(verb, &s) + fmt.Sprintf(verb, []Secret{s}) + fmt.Sprintf(verb, struct{ S Secret }{s})
	}
	hexed := fmt.Sprintf("%x", canary)
	if strings.Contains(all, canary) || strings.Contains(strings.ToLower(all), hexed) || strings.Contains(all, canary[:12]) {
		t.Errorf("shown: %s", all)
	}
	if s.Reveal() != canary {
		t.Error("the value is lost")
	}
}

func openSet(t *testing.T, deps Deps, list ...sallyport.Credential) *Set {
	t.Helper()
	if deps.Home == "" {
		deps.Home = t.TempDir()
	}
	if deps.Getenv == nil {
		deps.Getenv = func(string) string { return "" }
	}
	s, err := Open(list, deps)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func of(src sallyport.CredentialSource) sallyport.Credential {
	return sallyport.Credential{Name: "c", Source: src, Hosts: []string{"a.example"}, Header: "authorization"}
}

// refused says that err has the code, speaks of what it should, and holds no canary.
func refused(t *testing.T, err error, code sallyport.Code, says string) {
	t.Helper()
	if err == nil || sallyport.CodeOf(err) != code || !strings.Contains(err.Error(), says) {
		t.Errorf("got %v (%s), want %s: … %s", err, sallyport.CodeOf(err), code, says)
	}
	if err != nil && (strings.Contains(err.Error()+sallyport.HintOf(err), canary) || strings.Contains(err.Error(), canary[7:19])) {
		t.Errorf("the error holds the secret: %v", err)
	}
}

func TestEnvironment(t *testing.T) {
	env := map[string]string{}
	s := openSet(t, Deps{Getenv: func(n string) string { return env[n] }}, of(sallyport.CredentialSource{Env: "TOKEN"}))
	_, err := s.Value(t.Context(), "c")
	refused(t, err, sallyport.CodeNotFound, "the environment variable TOKEN is not set")
	_, err = s.Value(t.Context(), "other")
	refused(t, err, sallyport.CodeNotFound, "no such credential")
	for value, says := range map[string]string{"short": "at least 16", strings.Repeat("x", 9000): "at most", canary + " b": "one word", canary + "\r\nX: y": "one word", canary + "é": "one word"} {
		env["TOKEN"] = value
		_, err := s.Value(t.Context(), "c")
		refused(t, err, sallyport.CodeInvalid, says)
	}
	// Read at the moment it is needed, so a value that was changed outside counts.
	for _, want := range []string{canary, canary + "2"} {
		env["TOKEN"] = want + "\n"
		if v, err := s.Value(t.Context(), "c"); err != nil || v.Reveal() != want {
			t.Errorf("got %q %v", v.Reveal(), err)
		}
	}
	if known := s.Known()["c"]; len(known) != 2 {
		t.Errorf("known: %d values", len(known))
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = s.Value(t.Context(), "c")
	refused(t, err, sallyport.CodeDenied, "have ended")
}

func TestFile(t *testing.T) {
	home := t.TempDir()
	path := filepath.Join(home, "token")
	s := openSet(t, Deps{Home: home}, of(sallyport.CredentialSource{File: "~/token"}))
	check := func(code sallyport.Code, says string) {
		t.Helper()
		_, err := s.Value(t.Context(), "c")
		refused(t, err, code, says)
	}
	check(sallyport.CodeNotFound, "does not exist")
	write := func(mode os.FileMode, text string) {
		t.Helper()
		if err := errors.Join(os.RemoveAll(path), os.WriteFile(path, []byte(text), 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o602, 0o644} {
		write(mode, canary)
		check(sallyport.CodeDenied, fmt.Sprintf("has mode %04o", mode))
	}
	write(0o600, strings.Repeat("x", maxFile+1))
	check(sallyport.CodeInvalid, "more than")
	write(0o600, "")
	check(sallyport.CodeInvalid, "it is empty")
	write(0o400, canary+"\n")
	if v, err := s.Value(t.Context(), "c"); err != nil || v.Reveal() != canary {
		t.Errorf("got %v", err)
	}
	if err := errors.Join(os.Rename(path, path+"2"), os.Symlink(path+"2", path)); err != nil {
		t.Fatal(err)
	}
	check(sallyport.CodeDenied, "is a symbolic link")
	if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	check(sallyport.CodeInvalid, "is no regular file")
	if err := errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	check(sallyport.CodeInvalid, "is no regular file") // and nobody waits for a writer
	magic := openSet(t, Deps{Home: home}, of(sallyport.CredentialSource{File: "/proc/self/cwd/source_test.go"}))
	_, err := magic.Value(t.Context(), "c")
	refused(t, err, sallyport.CodeDenied, "is a symbolic link") // the kernel's own kind, wherever in the path
	if os.Geteuid() == 0 {
		write(0o600, canary)
		if err := os.Chown(path, 12345, 12345); err == nil {
			check(sallyport.CodeDenied, "belongs to user 12345")
		}
	}
}

func TestCommand(t *testing.T) {
	home := t.TempDir()
	command := func(timeout time.Duration, argv ...string) *Set {
		return openSet(t, Deps{Home: home}, of(sallyport.CredentialSource{Command: argv, Timeout: timeout}))
	}
	s := command(5*time.Second, "sh", "-c", `echo run >> ran; printf '%s\n' "$1"`, "x", canary)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if v, err := s.Value(t.Context(), "c"); err != nil || v.Reveal() != canary {
				t.Errorf("got %v", err)
			}
		})
	}
	wg.Wait()
	if b, _ := os.ReadFile(filepath.Join(home, "ran")); string(b) != "run\n" {
		t.Errorf("it ran so often: %q", b)
	}
	// Not a shell: what would be one is an argument.
	v, err := command(5*time.Second, "printf", "%s", "$(id);`id`|$HOME").Value(t.Context(), "c")
	if err != nil || v.Reveal() != "$(id);`id`|$HOME" {
		t.Errorf("got %q %v", v.Reveal(), err)
	}
	for _, w := range []struct {
		argv []string
		code sallyport.Code
		says string
	}{
		{[]string{"no-such-program-anywhere"}, sallyport.CodeNotFound, "cannot be started: executable file not found"},
		{[]string{"sh", "-c", "head -c 100000 /dev/zero | tr '\\0' x"}, sallyport.CodeInvalid, "prints more than"},
		{[]string{"sh", "-c", "yes"}, sallyport.CodeInvalid, "prints more than"},
		{[]string{"true"}, sallyport.CodeInvalid, "it is empty"},
		{[]string{"sh", "-c", "echo two words of it here"}, sallyport.CodeInvalid, "one word"},
		{[]string{"sh", "-c", "echo vault is locked >&2; exit 3"}, sallyport.CodeUnavailable, "failed: exit status 3; it says: vault is locked"},
		{[]string{"sh", "-c", "echo " + canary + "; echo the value is " + canary + " or " + canary[:9] + " >&2; exit 1"}, sallyport.CodeUnavailable, "it says: the value is […] or […]"},
		{[]string{"sh", "-c", "echo horse-battery; echo is:horse-battery, or horse >&2; exit 1"}, sallyport.CodeUnavailable, "it says: […] or […]"},
		{[]string{"sh", "-c", "echo token=" + canary + " >&2; exit 1"}, sallyport.CodeUnavailable, "it says: […]"},
		{[]string{"cat"}, sallyport.CodeInvalid, "it is empty"}, // nothing is on its standard input
	} {
		_, err := command(5*time.Second, w.argv...).Value(t.Context(), "c")
		refused(t, err, w.code, w.says)
	}
}

// TestCommandLeavesNothing: at its end, in time or not, everything of its process group is gone.
func TestCommandLeavesNothing(t *testing.T) {
	for name, script := range map[string]string{
		"in time":  "sleep 300 & echo $! > %s; echo " + canary,
		"too late": "sleep 300 & echo $! > %s; wait",
	} {
		pidFile := filepath.Join(t.TempDir(), "pid")
		began := time.Now()
		_, err := openSet(t, Deps{}, of(sallyport.CredentialSource{Command: []string{"sh", "-c", fmt.Sprintf(script, pidFile)}, Timeout: 700 * time.Millisecond})).Value(t.Context(), "c")
		if name == "too late" {
			refused(t, err, sallyport.CodeUnavailable, "did not end within 700ms")
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s took %v", name, took)
		}
		var pid int
		b, _ := os.ReadFile(pidFile)
		if _, err := fmt.Sscan(string(b), &pid); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !gone(pid) {
			t.Errorf("%s: process %d is still there", name, pid)
		}
	}
	// A caller that gives up does not wait either.
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := openSet(t, Deps{}, of(sallyport.CredentialSource{Command: []string{"sleep", "300"}, Timeout: time.Minute})).Value(ctx, "c")
	if err == nil || time.Since(began) > 5*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

func gone(pid int) bool {
	for range 100 {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || bytes.Contains(b, []byte(") Z ")) {
			return true
		}
		time.Sleep(20 * time.Millisecond)
	}
	return false
}

// TestHeardBeforeItIsGiven: a value that cannot be made known is not given.
func TestHeardBeforeItIsGiven(t *testing.T) {
	no := errors.New("no")
	s := openSet(t, Deps{Getenv: func(string) string { return canary }, Heard: func(string, Secret) error { return no }}, of(sallyport.CredentialSource{Env: "T"}))
	if v, err := s.Value(t.Context(), "c"); !errors.Is(err, no) || v.Reveal() != "" {
		t.Errorf("%v %v", v, err)
	}
	if err := s.Ready(); !errors.Is(err, no) {
		t.Errorf("%v", err)
	}
}

func TestPlaceholder(t *testing.T) {
	base := sallyport.Credential{Name: "c", Source: sallyport.CredentialSource{Env: "T"}, Hosts: []string{"a.example"}, Header: "authorization"}
	with := func(change func(*sallyport.Credential)) sallyport.Credential {
		c := base
		change(&c)
		return c
	}
	seen := map[string]string{}
	for what, in := range map[string]struct {
		key     string
		attempt sallyport.AttemptID
		c       sallyport.Credential
	}{
		"base":    {"k", "att_1", base},
		"key":     {"k2", "att_1", base},
		"attempt": {"k", "att_2", base},
		"name":    {"k", "att_1", with(func(c *sallyport.Credential) { c.Name = "d" })},
		"host":    {"k", "att_1", with(func(c *sallyport.Credential) { c.Hosts = []string{"b.example"} })},
		"hosts":   {"k", "att_1", with(func(c *sallyport.Credential) { c.Hosts = []string{"a.example", "b.example"} })},
		"header":  {"k", "att_1", with(func(c *sallyport.Credential) { c.Header = "x-api-key" })},
		"query":   {"k", "att_1", with(func(c *sallyport.Credential) { c.Header, c.Query = "", "authorization" })},
		"basic":   {"k", "att_1", with(func(c *sallyport.Credential) { c.Header, c.Basic = "", "authorization" })},
		"prefix":  {"k", "att_1", with(func(c *sallyport.Credential) { c.PlaceholderPrefix = "npm_" })},
		"claude":  {"k", "att_1", with(func(c *sallyport.Credential) { c.Source = sallyport.CredentialSource{Login: "claude-code"} })},
		"codex":   {"k", "att_1", with(func(c *sallyport.Credential) { c.Source = sallyport.CredentialSource{Login: "codex"} })},
	} {
		s := openSet(t, Deps{}, in.c)
		p, err := s.Placeholder(in.key, in.attempt, in.c.Name)
		again, _ := s.Placeholder(in.key, in.attempt, in.c.Name)
		if err != nil || p != again || len(p) < 32 || seen[p] != "" || strings.Trim(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != "" {
			t.Errorf("%s: %q %v, same as %q", what, p, err, seen[p])
		}
		seen[p] = what
	}
	begins := func(what, prefix string) {
		for p, w := range seen {
			if w == what && !strings.HasPrefix(p, prefix) {
				t.Errorf("%s: %s", what, p)
			}
		}
	}
	begins("base", "sallyport-")
	begins("prefix", "npm_")
	begins("claude", "sk-ant-oat01-")
	begins("codex", "eyJ")
}
