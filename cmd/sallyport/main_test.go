package main

import (
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/agent"
)

// TestMain lets the test binary be the programs that it starts: `sallyport` in the scripts, and what driver
// starts from os.Executable, which is the real driver unless standIn is its state folder.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "drive" {
		if os.Getenv("SALLYPORT_STATE") == standIn {
			os.Exit(describeSelf())
		}
		os.Exit(run())
	}
	testscript.Main(m, map[string]func(){"sallyport": func() { os.Exit(run()) }})
}

const standIn = "/state"

// describeSelf prints what a driver finds about itself.
func describeSelf() int {
	status, err := os.ReadFile("/proc/self/stat")
	dir, err2 := os.Getwd()
	stdin, err3 := os.Readlink("/proc/self/fd/0")
	if err := errors.Join(err, err2, err3); err != nil {
		fmt.Println(err)
		return 1
	}
	_, rest, _ := strings.Cut(string(status), ") ") // state, ppid, pgrp, session
	fmt.Printf("id=%s\npid=%d\nsession=%s\ndir=%s\nstdin=%s\n%s\nend\n", os.Args[2], os.Getpid(), strings.Fields(rest)[3], dir, stdin, strings.Join(os.Environ(), "\n"))
	return 0
}

func TestDriverIsASessionOfItsOwn(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "key-for-the-gateway")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "not-for-us")
	t.Setenv("LENT_TOKEN", "for-a-credential")
	t.Setenv("SALLYPORT_STATE", "relative")
	log, err := os.Create(filepath.Join(t.TempDir(), "driver.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if err := driver(standIn)("att_1", log, []string{"LENT_TOKEN", "NOT_SET"}); err != nil {
		t.Fatal(err)
	}
	lines := waitForLog(t, log.Name())
	pid := strings.TrimPrefix(lines[1], "pid=")
	for _, want := range []string{"id=att_1", "session=" + pid, "dir=/", "stdin=/dev/null", "SALLYPORT_STATE=" + standIn, "ANTHROPIC_API_KEY=key-for-the-gateway", "LENT_TOKEN=for-a-credential", "HOME=" + os.Getenv("HOME")} {
		if !slices.Contains(lines, want) {
			t.Errorf("no %q in\n%s", want, strings.Join(lines, "\n"))
		}
	}
	if all := strings.Join(lines, "\n"); strings.Contains(all, "not-for-us") || strings.Contains(all, "=relative") {
		t.Errorf("the environment holds more than it should:\n%s", all)
	}
	// Reaped: a zombie would be taken for a living holder.
	for range 200 {
		if _, err := os.Stat("/proc/" + pid); os.IsNotExist(err) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("the driver stays as a zombie")
}

func waitForLog(t *testing.T, path string) []string {
	t.Helper()
	for range 500 {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(string(b), "\nend\n") {
			return strings.Split(string(b), "\n")
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the driver said nothing")
	return nil
}

// A preset that a driver could not serve for want of its credential would fail only when it runs.
func TestDriverGetsEveryCredential(t *testing.T) {
	for _, name := range agent.Names() {
		a, err := agent.Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		if a.Endpoint != nil && !driverNeeds(a.Endpoint.CredentialEnv) {
			t.Errorf("%s needs %s", name, a.Endpoint.CredentialEnv)
		}
	}
}

func TestLibexec(t *testing.T) {
	t.Setenv("SALLYPORT_LIBEXEC", "/opt/x")
	if dir, err := libexec(); dir != "/opt/x" || err != nil {
		t.Errorf("%q, %v", dir, err)
	}
	t.Setenv("SALLYPORT_LIBEXEC", "")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if dir, err := libexec(); dir != filepath.Dir(self) || err != nil {
		t.Errorf("%q, %v; want the folder of %s", dir, err, self)
	}
}

// Missing programs are named, with the command that installs them.
func TestProvidersNameWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("SALLYPORT_LIBEXEC", dir)
	_, err := providers(sallyport.FactoryID(sallyport.FormatID(sallyport.FactoryPrefix, [16]byte{1})), t.TempDir())
	if sallyport.CodeOf(err) != sallyport.CodeUnsupported || !strings.Contains(err.Error(), filepath.Join(dir, "sallyport-keeper")) || sallyport.HintOf(err) == "" {
		t.Errorf("%v", err)
	}
}

// The driver's log takes its standard error: what net/http would write there of an upstream's bytes goes nowhere.
func TestStandardLogIsSilent(t *testing.T) {
	args := os.Args
	defer func() { os.Args = args }()
	os.Args = []string{"sallyport", "version"}
	if code := run(); code != 0 || stdlog.Writer() != io.Discard {
		t.Errorf("exit %d, the log goes to %T", code, stdlog.Writer())
	}
}
