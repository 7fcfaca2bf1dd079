package main

import (
	"os"
	"os/exec"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"sallyport.dev/sallyport/internal/testkit"
)

// TestScripts runs the real command line, driver, keeper and runner on real repositories. The scripts double
// as a manual.
func TestScripts(t *testing.T) {
	programs := testkit.Programs(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			home := e.WorkDir + "/home"
			if err := os.Mkdir(home, 0o755); err != nil {
				return err
			}
			e.Setenv("HOME", home)
			e.Setenv("XDG_CONFIG_HOME", home+"/config")
			e.Setenv("SALLYPORT_STATE", e.WorkDir+"/state")
			e.Setenv("SALLYPORT_LIBEXEC", programs)
			e.Setenv("NO_COLOR", "1")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "repository": repository},
	})
}

// exits CODE PROGRAM ARGS... runs a program and demands its exact exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGUMENTS")
	}
	code := "0"
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		code = "?"
		if e, ok := err.(*exec.ExitError); ok {
			code = e.ProcessState.String()[len("exit status "):]
		}
	}
	if code != args[0] {
		ts.Fatalf("exit code %s, want %s", code, args[0])
	}
}

// repository DIR makes a git repository of a folder's files, with one commit on main.
func repository(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: repository DIR")
	}
	ts.Check(ts.Chdir(args[0]))
	for _, git := range [][]string{{"init", "-q", "-b", "main"}, {"config", "user.name", "Alice"}, {"config", "user.email", "alice@example.com"},
		{"add", "-A"}, {"commit", "-q", "-m", "first"}} {
		ts.Check(ts.Exec("git", git...))
	}
}
