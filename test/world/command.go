package world

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"sallyport.dev/sallyport"
)

// Patience bounds one command line; the longest one compiles with a cold cache.
const Patience = 3 * time.Minute

// Program is the path of sallyport.
func (w *World) Program() string { return filepath.Join(w.programs, "sallyport") }

// Environ is the person's environment: nothing of the tests' own user but PATH.
func (w *World) Environ() []string {
	return append([]string{"HOME=" + w.Home, "SALLYPORT_STATE=" + w.State, "PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "TERM=dumb",
		"GIT_CONFIG_NOSYSTEM=1", "USER=una"}, w.Env...)
}

// Prepare makes a command one of the person's, in the repository.
func (w *World) Prepare(cmd *exec.Cmd) *exec.Cmd {
	cmd.Dir, cmd.Env, cmd.WaitDelay = w.Repo, w.Environ(), 5*time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if w.UID != os.Getuid() {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(w.UID), Gid: uint32(w.UID)}
	}
	return cmd
}

// Verb is a verb of sallyport that the test itself starts, signals and waits for.
func (w *World) Verb(args ...string) *exec.Cmd { return w.Prepare(exec.Command(w.Program(), args...)) }

// Command runs a program as the person in a folder (Path).
func (w *World) Command(dir string, argv ...string) Result {
	w.T.Helper()
	return w.CommandWith(dir, nil, "", argv...)
}

// CommandWith runs a program with other attributes than the person's (nil: the person's) and on an input.
func (w *World) CommandWith(dir string, attr *syscall.SysProcAttr, stdin string, argv ...string) Result {
	w.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	cmd := w.Prepare(exec.CommandContext(ctx, argv[0], argv[1:]...))
	cmd.Dir, cmd.Stdin = w.Path(dir), strings.NewReader(stdin)
	if attr != nil {
		cmd.SysProcAttr = attr
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	began := time.Now()
	err := cmd.Run()
	r := Result{T: w.T, Name: strings.Join(argv, " "), Out: out.String(), Err: errs.String(), Took: time.Since(began)}
	if ctx.Err() != nil {
		w.T.Fatalf("%.300s did not end within %v\n%.6000s", r.Name, Patience, r.Err)
	}
	r.Code = w.code(err)
	return r
}

// code is the exit code behind what Wait returned; -1: ended by a signal.
func (w *World) code(err error) int {
	w.T.Helper()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	w.Must(err)
	return 0
}

// WaitFor is the exit code of a command that was started.
func (w *World) WaitFor(cmd *exec.Cmd) int {
	w.T.Helper()
	return w.code(cmd.Wait())
}

// Git runs the person's git and returns its output; it must succeed.
func (w *World) Git(args ...string) string {
	w.T.Helper()
	return strings.TrimSpace(w.Command("", append([]string{"git"}, args...)...).Want(0).Out)
}

// Sallyport runs a verb in the repository.
func (w *World) Sallyport(args ...string) Result {
	w.T.Helper()
	return w.In("", args...)
}

// In runs a verb in a folder.
func (w *World) In(dir string, args ...string) Result {
	w.T.Helper()
	return w.Command(dir, append([]string{w.Program()}, args...)...)
}

// Run is `run --json` with a shell script as agent.
func (w *World) Run(name, script string, flags ...string) Result {
	w.T.Helper()
	return w.RunIn("", name, script, flags...)
}

// RunIn is Run in a folder.
func (w *World) RunIn(dir, name, script string, flags ...string) Result {
	w.T.Helper()
	return w.In(dir, runArgs(name, script, append([]string{"--json"}, flags...))...)
}

// Start is `run -d` with a shell script as agent.
func (w *World) Start(name, script string, flags ...string) sallyport.AttemptID {
	w.T.Helper()
	r := w.Sallyport(runArgs(name, script, append([]string{"-d"}, flags...))...).Want(0)
	return sallyport.AttemptID(strings.TrimSpace(r.Out))
}

func runArgs(name, script string, flags []string) []string {
	args := append([]string{"run", "--name", name, "-m", "Task of " + name}, flags...)
	return append(args, "--", "sh", "-c", script)
}

// Wait follows an Attempt to its end, adopting it if need be, and returns its report and the exit code.
func (w *World) Wait(id sallyport.AttemptID) (sallyport.Report, int) {
	w.T.Helper()
	r := w.Sallyport("wait", "--json", string(id))
	return r.Report(), r.Code
}

// List is `ps -a`.
func (w *World) List() []sallyport.Report {
	w.T.Helper()
	var doc struct {
		Attempts []sallyport.Report `json:"attempts"`
	}
	r := w.Sallyport("ps", "-a", "--json")
	if err := json.Unmarshal([]byte(r.Out), &doc); err != nil {
		w.T.Errorf("ps -a: exit %d, %v\n%s", r.Code, err, r.Err)
	}
	return doc.Attempts
}

// Show is the report that `ps -a` has of an Attempt.
func (w *World) Show(id sallyport.AttemptID) sallyport.Report {
	w.T.Helper()
	for _, r := range w.List() {
		if r.Attempt == id {
			return r
		}
	}
	w.T.Fatalf("no %s in ps -a", id)
	return sallyport.Report{}
}

// Log is what one command of an Attempt said: "agent", "check-NAME-validate".
func (w *World) Log(id sallyport.AttemptID, name string) string {
	w.T.Helper()
	return w.Read(filepath.Join(w.State, "attempts", string(id), name+".log"))
}

// DriverLogs is what the drivers of all Attempts had to say.
func (w *World) DriverLogs() string {
	var b strings.Builder
	logs, _ := filepath.Glob(filepath.Join(w.State, "attempts", "*", "driver.log"))
	for _, l := range logs {
		text, _ := os.ReadFile(l)
		b.Write(text)
	}
	return b.String()
}
