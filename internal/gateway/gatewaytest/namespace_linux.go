// Package gatewaytest gives tests a real network namespace with nothing but a loopback interface: sockets
// made in it, connections dialled in it, and a command run in it. It is what a sandbox looks like to the
// gateway, without the rest of a sandbox; it contains nothing and is for tests only.
package gatewaytest

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const stageVariable = "SALLYPORT_GATEWAYTEST_STAGE"

// Main must be called first in TestMain: a re-executed test binary becomes the namespace's first process in
// it and never returns.
func Main() {
	if os.Getenv(stageVariable) != "" {
		runtime.LockOSThread()
		stage()
		os.Exit(0)
	}
}

// Namespace is a process in a user and network namespace of its own that makes sockets on request.
type Namespace struct {
	cmd  *exec.Cmd
	mu   sync.Mutex
	conn int // SOCK_SEQPACKET to the stage
}

// User is who the namespace's process is.
type User struct {
	Inside  int // uid and gid in the namespace
	Outside int // and on the host
}

// Users lists the identities that this process can give: its own always; as root also an ordinary one.
func Users() []User {
	own := os.Getuid()
	if own != 0 {
		return []User{{own, own}}
	}
	return []User{{0, 0}, {1000, 1000}}
}

// Start makes a namespace; it ends with the test. A host that forbids user namespaces fails the test with
// the reason.
func Start(t testing.TB, u User) *Namespace {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "stage")
	defer theirs.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{stageVariable + "=1"}
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNET | unix.CLONE_NEWPID, // pid: what a command leaves behind dies with it
		UidMappings: []syscall.SysProcIDMap{{ContainerID: u.Inside, HostID: u.Outside, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: u.Inside, HostID: u.Outside, Size: 1}},
		Credential:  &syscall.Credential{Uid: uint32(u.Inside), Gid: uint32(u.Inside), NoSetGroups: true},
		AmbientCaps: []uintptr{unix.CAP_NET_ADMIN}, // to bring lo up; given away before any command runs
		Pdeathsig:   syscall.SIGKILL,
	}
	if err := cmd.Start(); err != nil {
		_ = unix.Close(pair[0])
		t.Fatalf("no user and network namespace for uid %d: %v", u.Outside, err)
	}
	n := &Namespace{cmd: cmd, conn: pair[0]}
	t.Cleanup(func() {
		_ = unix.Close(n.conn)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return n
}

// request is one message to the stage.
type request struct {
	Make string   `json:"make"` // a kind of socket, "dial" or "run"
	Port int      `json:"port"`
	Argv []string `json:"argv"`
	Env  []string `json:"env"`
	Dir  string   `json:"dir"`
}

// Socket has a socket of the given kind made inside and handed out: "listen" (127.0.0.1:port), "any"
// (0.0.0.0:port), "mptcp", "tcp6", "udp", "unix", "bound" (not listening), "connected", "pipe".
func (n *Namespace) Socket(t testing.TB, kind string, port int) *os.File {
	t.Helper()
	f, err := n.ask(request{Make: kind, Port: port})
	if err != nil {
		t.Fatalf("make a %s socket inside: %v", kind, err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// Dial connects to 127.0.0.1:port inside the namespace.
func (n *Namespace) Dial(port int) (net.Conn, error) {
	f, err := n.ask(request{Make: "dial", Port: port})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return net.FileConn(f)
}

// Run runs a command inside, without capabilities, and returns its output (both streams) and its failure.
// It is the namespace's last request: no more sockets come from it.
func (n *Namespace) Run(t testing.TB, limit time.Duration, dir string, env []string, argv ...string) (string, error) {
	t.Helper()
	f, err := n.ask(request{Make: "run", Argv: argv, Env: env, Dir: dir})
	if err != nil {
		return "", err
	}
	defer f.Close()
	timer := time.AfterFunc(limit, func() { _ = n.cmd.Process.Kill() })
	defer timer.Stop()
	var out strings.Builder
	buf := make([]byte, 32<<10)
	for {
		k, err := f.Read(buf)
		out.Write(buf[:k])
		if err != nil {
			break
		}
	}
	return out.String(), n.cmd.Wait()
}

func (n *Namespace) ask(r request) (*os.File, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	b, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if err := unix.Sendmsg(n.conn, b, nil, nil, unix.MSG_NOSIGNAL); err != nil {
		return nil, err
	}
	answer, oob := make([]byte, 4096), make([]byte, unix.CmsgSpace(4))
	k, on, _, _, err := unix.Recvmsg(n.conn, answer, oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return nil, err
	}
	if on == 0 {
		return nil, fmt.Errorf("the namespace answered %q", answer[:k])
	}
	ms, err := unix.ParseSocketControlMessage(oob[:on])
	if err != nil {
		return nil, err
	}
	fds, err := unix.ParseUnixRights(&ms[0])
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fds[0]), r.Make), nil
}
