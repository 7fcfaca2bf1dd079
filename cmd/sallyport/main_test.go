package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/agent"
)

// TestMain lets the test binary stand in for the driver: driver starts os.Executable.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "drive" {
		status, err := os.ReadFile("/proc/self/stat")
		if err != nil {
			os.Exit(1)
		}
		_, rest, _ := strings.Cut(string(status), ") ")
		dir, _ := os.Getwd()
		stdin, _ := os.Readlink("/proc/self/fd/0")
		// state, ppid, pgrp, session
		os.Stdout.WriteString(strings.Join([]string{"id=" + os.Args[2], "pid=" + strconv.Itoa(os.Getpid()), "session=" + strings.Fields(rest)[3], "dir=" + dir, "stdin=" + stdin}, "\n") + "\n" + strings.Join(os.Environ(), "\n") + "\nend\n")
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestDriverIsASessionOfItsOwn(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "key-for-the-gateway")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "not-for-us")
	t.Setenv("SALLYPORT_STATE", "relative")
	log, err := os.Create(filepath.Join(t.TempDir(), "driver.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if err := driver("/state")("att_1", log); err != nil {
		t.Fatal(err)
	}
	lines := waitForLog(t, log.Name())
	pid := strings.TrimPrefix(lines[1], "pid=")
	for _, want := range []string{"id=att_1", "session=" + pid, "dir=/", "stdin=/dev/null", "SALLYPORT_STATE=/state", "ANTHROPIC_API_KEY=key-for-the-gateway", "HOME=" + os.Getenv("HOME")} {
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
