package keeper

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/process"
	"sallyport.dev/sallyport/internal/runner"
)

// sandboxNamespaces are what a sandbox has of its own besides the user namespace, which it shares with its
// keeper.
const sandboxNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// sandbox is a running PID 1 and what is needed to join or end it.
type sandbox struct {
	cmd     *exec.Cmd
	id      process.ID
	pidfd   int
	control *os.File
	gone    chan struct{} // closed when PID 1, and so every process of its namespace, is dead
	staged  *staged       // nil: no command is started in it
}

// startRunner starts a runner that waits for its plan; collects: for the collector's.
// The caller must be on the process's main thread: the kernel ends PID 1 when that thread ends.
func (k *keeper) startRunner(collects bool) (*sandbox, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control")
	// At once: while we hold it too, the end of a runner that never reports would not be seen.
	defer theirs.Close()
	pidfd := -1
	cmd := exec.Command(fmt.Sprintf("/proc/self/fd/%d", runner.FDExecutable))
	cmd.Args = []string{runner.Name, runner.Unnamed}
	cmd.Env = runnerEnv(collects)
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{theirs, k.runner}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: sandboxNamespaces,
		Pdeathsig:  syscall.SIGKILL,
		PidFD:      &pidfd,
		// An exec as a mapped non-zero uid drops every capability that is not ambient.
		AmbientCaps: capabilities,
	}
	if err := cmd.Start(); err != nil {
		ours.Close()
		return nil, fmt.Errorf("start the runner: %w", err)
	}
	// Nobody waits for it yet, so the number is its own; one that is dead already says so when it is spoken to.
	id, err := process.Of(cmd.Process.Pid)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		ours.Close()
		return nil, fmt.Errorf("start the runner: %w", err)
	}
	s := &sandbox{cmd: cmd, id: id, pidfd: pidfd, control: ours, gone: make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		close(s.gone)
	}()
	return s, nil
}

// name has s bear the Allocation's id, before it is given anything of it.
func (s *sandbox) name(a sallyport.AllocationID) error {
	return runner.Say(s.control, []byte(a), nil)
}

// give hands s, which waits and was told its name, what it builds its root of.
func (s *sandbox) give(h runner.Handed) error {
	if h.Result == nil { // nobody collects
		h.Result = h.Log
	}
	return runner.Hand(s.control, h.Files())
}

// built waits until s, which was given its plan, has built its root and proved it; given is what give returned.
// After an error s is dead.
func (s *sandbox) built(given error) (runner.Ready, []*os.File, error) {
	// What is given to a runner that is dead already is nothing against what it said before it died.
	ready, wayOut, err := s.hear()
	if err == nil {
		err = given
	}
	if err != nil {
		s.kill()
	}
	return ready, wayOut, err
}

// hear takes one report of the runner's.
func (s *sandbox) hear() (runner.Ready, []*os.File, error) {
	ready, wayOut, err := receiveReady(s.control)
	if err == nil && ready.Error != "" {
		err = &sallyport.Error{Op: "prepare sandbox", Code: sallyport.ParseCode(ready.Code), Message: ready.Error}
	}
	return ready, wayOut, err
}

// runnerEnv keeps the Go runtime of a runner small: it does one thing after the other and then sleeps. Each
// thread less is one less to take the powers from, and one less page of stack in every sandbox. A collector's
// work grows with the change, so it is left to collect its garbage.
func runnerEnv(collects bool) []string {
	if collects {
		return []string{}
	}
	return []string{"GOMAXPROCS=1", "GOGC=off"}
}

// capabilities are what building a sandbox takes, inside its own user namespace only.
var capabilities = []uintptr{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_FOWNER, unix.CAP_KILL,
	unix.CAP_SETGID, unix.CAP_SETUID, unix.CAP_SETPCAP, unix.CAP_NET_ADMIN, unix.CAP_SYS_CHROOT, unix.CAP_SYS_PTRACE, unix.CAP_SYS_ADMIN}

// Capabilities is the set that Create gives a keeper in its user namespace.
func Capabilities() []uintptr { return capabilities }

// receiveReady takes exactly one message from the runner, and at most the descriptors of a way out.
func receiveReady(c *os.File) (r runner.Ready, wayOut []*os.File, err error) {
	b, wayOut, err := runner.HearMost(c, mostSockets)
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(b))
		d.DisallowUnknownFields()
		err = d.Decode(&r)
	}
	if err != nil {
		closeAll(wayOut)
		return runner.Ready{}, nil, fmt.Errorf("the runner's report: %w", err)
	}
	return r, wayOut, nil
}

// kill ends PID 1 and waits; the kernel then has ended every process of its pid namespace.
func (s *sandbox) kill() {
	_ = unix.PidfdSendSignal(s.pidfd, unix.SIGKILL, nil, 0)
	<-s.gone
	s.staged.drop()
	s.control.Close()
	unix.Close(s.pidfd)
}

// enter moves the calling, locked thread into the sandbox. Its children are born there.
func (s *sandbox) enter() error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("leave the shared working directory: %w", err)
	}
	if err := unix.Setns(s.pidfd, sandboxNamespaces); err != nil {
		return fmt.Errorf("enter the sandbox: %w", err)
	}
	return unix.Chdir("/")
}
