package keeper

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/runner"
)

// sandboxNamespaces are what a sandbox has of its own besides the user namespace, which it shares with its
// keeper.
const sandboxNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// sandbox is a running PID 1 and what is needed to join or end it.
type sandbox struct {
	cmd     *exec.Cmd
	pidfd   int
	control *os.File
	gone    chan struct{} // closed when PID 1, and so every process of its namespace, is dead
}

// newSandbox starts the runner on plan (a runner.Plan as JSON in anonymous memory) and waits for its report.
// result, if any, receives the change stream.
// The caller must be on the process's main thread: the kernel ends PID 1 when that thread ends.
func (k *keeper) newSandbox(plan *os.File, sources []*os.File, result *os.File) (*sandbox, runner.Ready, *os.File, error) {
	fail := func(err error) (*sandbox, runner.Ready, *os.File, error) {
		return nil, runner.Ready{}, nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fail(err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control")
	defer theirs.Close()
	collects := result != nil
	if !collects {
		if result, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0); err != nil {
			return fail(err)
		}
		defer result.Close()
	}
	pidfd := -1
	files := append(append([]*os.File{plan, theirs, result}, sources...), k.runner)
	// The descriptor's number in the child, where it is the last one.
	cmd := exec.Command(fmt.Sprintf("/proc/self/fd/%d", 2+len(files)))
	cmd.Args = []string{runner.Name, string(k.setup.Spec.Allocation)}
	cmd.Env = runnerEnv(collects)
	cmd.Dir = "/"
	cmd.ExtraFiles = files
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: sandboxNamespaces,
		Pdeathsig:  syscall.SIGKILL,
		PidFD:      &pidfd,
		// An exec as a mapped non-zero uid drops every capability that is not ambient.
		AmbientCaps: capabilities,
	}
	if err := cmd.Start(); err != nil {
		ours.Close()
		return fail(fmt.Errorf("start the runner: %w", err))
	}
	theirs.Close() // now: while we hold it too, the end of a runner that never reports would not be seen
	s := &sandbox{cmd: cmd, pidfd: pidfd, control: ours, gone: make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		close(s.gone)
	}()
	// The command is born in the group by itself; PID 1 only reaps, and moving a process waits for every
	// processor. The collector works on what the command left, so it is held as well.
	if collects {
		// Already dead: nothing is left to hold; its report, or the lack of one, says why.
		if err := k.cgroup.MoveProcess(cmd.Process.Pid); err != nil && !errors.Is(err, unix.ESRCH) {
			s.kill()
			return fail(err)
		}
	}
	ready, listener, err := receiveReady(ours)
	if err == nil && ready.Error != "" {
		err = &sallyport.Error{Op: "prepare sandbox", Code: sallyport.ParseCode(ready.Code), Message: ready.Error}
	}
	if err != nil {
		s.kill()
		return fail(err)
	}
	return s, ready, listener, nil
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

// receiveReady takes exactly one message and at most one descriptor from the runner.
func receiveReady(c *os.File) (runner.Ready, *os.File, error) {
	buf := make([]byte, 128<<10)
	oob := make([]byte, unix.CmsgSpace(4))
	var n, oobn, flags int
	var err error
	for {
		n, oobn, flags, _, err = unix.Recvmsg(int(c.Fd()), buf, oob, unix.MSG_CMSG_CLOEXEC)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return runner.Ready{}, nil, fmt.Errorf("the runner's report: %w", err)
	}
	if n == 0 {
		return runner.Ready{}, nil, fmt.Errorf("the runner ended before it reported")
	}
	if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		return runner.Ready{}, nil, fmt.Errorf("the runner's report is too large")
	}
	var r runner.Ready
	d := json.NewDecoder(bytes.NewReader(buf[:n]))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return runner.Ready{}, nil, fmt.Errorf("the runner's report: %w", err)
	}
	var listener *os.File
	if oobn > 0 {
		msgs, err := unix.ParseSocketControlMessage(oob[:oobn])
		if err != nil || len(msgs) != 1 {
			return r, nil, fmt.Errorf("the runner's report carries something else than one descriptor")
		}
		fds, err := unix.ParseUnixRights(&msgs[0])
		if err != nil || len(fds) != 1 {
			return r, nil, fmt.Errorf("the runner's report carries something else than one descriptor")
		}
		listener = os.NewFile(uintptr(fds[0]), "egress")
	}
	return r, listener, nil
}

// kill ends PID 1 and waits; the kernel then has ended every process of its pid namespace.
func (s *sandbox) kill() {
	_ = unix.PidfdSendSignal(s.pidfd, unix.SIGKILL, nil, 0)
	<-s.gone
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
