package contain

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

// The tests build real sandboxes: this binary runs itself again as pid 1 of new namespaces ("inside"), makes
// a root of its own there, spends a thread on Apply and Probe, and prints what the probes found. Where the
// tests run as root they do so twice: as root, mapped to two unprivileged host ids, and as an ordinary user.

const roleEnv = "CONTAIN_TEST_ROLE"

// confinedPath leads only to what every user may execute.
const confinedPath = "/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin"

// Ids inside, and the first host id they are mapped to when root starts.
const (
	agentID  = 1000
	runnerID = 999
	hostBase = 231000
	userID   = 1000 // the ordinary user on the host
)

// scene is one sandbox. Omit leaves one layer out, to see that the probes notice.
type scene struct {
	Omit   string   // steps of Apply with commas between, or one of "pid", "net", "root", "seal"
	OneID  bool     // only one id is mapped
	Run    []string // a program to start confined, instead of the probes
	Target Targets
	Root   string // folder for the new root
	Hidden string // a host path that the new root does not have
	// HostRoot keeps the host's root (read-write mounts): toolchains, and the "root" omission.
	HostRoot bool
	Work     string
	// Keeper starts Run from outside the sandbox's pid, mount and network namespaces.
	Keeper bool
}

func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "":
		os.Exit(m.Run())
	case "inside":
		inside()
	case "user":
		asUser()
	case "keeper":
		keeper()
	case "pid1":
		pidOne()
	}
}

// self is a copy of the test binary that every user may execute.
func self(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "contain-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "self")
	if err := os.WriteFile(name, data, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"root", "work"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o777); err != nil {
			t.Fatal(err)
		}
		os.Chmod(filepath.Join(dir, d), 0o777)
	}
	return name
}

// play runs one scene and returns its standard output.
func play(t testing.TB, s scene, user bool) string {
	t.Helper()
	exe := self(t)
	s.Root = filepath.Join(filepath.Dir(exe), "root")
	s.Hidden = exe
	if s.Work == "" {
		s.Work = filepath.Join(filepath.Dir(exe), "work")
	}
	s.OneID = user
	arg, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, string(arg))
	if user && os.Getuid() == 0 {
		cmd.Env = append(os.Environ(), roleEnv+"=user")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: userID, Gid: userID, Groups: []uint32{userID, 27}}}
	} else {
		cmd = sandboxCommand(exe, string(arg), s, user)
	}
	cmd.Dir = "/"
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("sandbox: %v\n%s%s", err, out, errs.String())
	}
	return string(out)
}

// asUser is the ordinary user between root and the sandbox.
func asUser() {
	var s scene
	check(json.Unmarshal([]byte(os.Args[1]), &s))
	cmd := sandboxCommand("/proc/self/exe", os.Args[1], s, true)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	check(cmd.Run())
}

func sandboxCommand(exe, arg string, s scene, oneID bool) *exec.Cmd {
	cmd := exec.Command(exe, arg)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, roleEnv+"=") }), roleEnv+"=inside")
	if s.Keeper {
		cmd.Env[len(cmd.Env)-1] = roleEnv + "=keeper"
	}
	flags := uintptr(unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP)
	if s.Omit != "pid" {
		flags |= unix.CLONE_NEWPID
	}
	if s.Omit != "net" {
		flags |= unix.CLONE_NEWNET
	}
	if s.Keeper {
		flags = unix.CLONE_NEWUSER
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags, AmbientCaps: allCaps(), Pdeathsig: unix.SIGKILL}
	if oneID {
		me := os.Getuid()
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: me, HostID: me, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		return cmd
	}
	two := []syscall.SysProcIDMap{{ContainerID: agentID, HostID: hostBase, Size: 1}, {ContainerID: runnerID, HostID: hostBase + 1, Size: 1}}
	cmd.SysProcAttr.UidMappings, cmd.SysProcAttr.GidMappings = two, two
	cmd.SysProcAttr.GidMappingsEnableSetgroups = true
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: runnerID, Gid: runnerID}
	return cmd
}

func allCaps() (caps []uintptr) {
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		caps = append(caps, c)
	}
	return caps
}

// sandboxNamespaces are all that a sandbox has beside its user namespace.
const sandboxNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// keeper lives in the sandbox's user namespace only. Its thread enters the rest, is confined there and starts
// the program.
func keeper() {
	var s scene
	check(json.Unmarshal([]byte(os.Args[1]), &s))
	check(SealDescriptors())
	cmd := exec.Command("/proc/self/exe", os.Args[1])
	cmd.Env = []string{roleEnv + "=pid1"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: sandboxNamespaces, AmbientCaps: allCaps()}
	cmd.Stderr = os.Stderr
	hold, err := cmd.StdinPipe()
	check(err)
	out, err := cmd.StdoutPipe()
	check(err)
	check(cmd.Start())
	_, err = out.Read(make([]byte, 1)) // ready
	check(err)
	p, err := Prepare(Confinement{UID: agentID, GID: agentID, ChangeIDs: !s.OneID, Writable: []string{"/work", "/tmp"}})
	check(err)
	var ws syscall.WaitStatus
	Spend(func() {
		fd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
		check(err)
		check(unix.Unshare(unix.CLONE_FS)) // a thread that shares its root with others cannot change namespace
		check(unix.Setns(fd, sandboxNamespaces))
		check(unix.Close(fd))
		check(p.Apply())
		pid, err := syscall.ForkExec("/bin/sh", s.Run, &syscall.ProcAttr{Dir: "/work", Env: []string{"PATH=/usr/bin:/bin"}, Files: []uintptr{0, 1, 1}, Sys: &syscall.SysProcAttr{Setsid: true}})
		check(err)
		_, err = syscall.Wait4(pid, &ws, 0, nil)
		check(err)
	})
	fmt.Printf("exit %d\n", ws.ExitStatus())
	hold.Close()
	check(cmd.Wait())
	os.Exit(0)
}

// pidOne makes the sandbox and waits for its end.
func pidOne() {
	var s scene
	check(json.Unmarshal([]byte(os.Args[1]), &s))
	check(unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
	loopbackUp()
	newRoot(s)
	fmt.Print("r")
	os.Stdin.Read(make([]byte, 1))
	os.Exit(0)
}

// inside is pid 1 of the sandbox.
func inside() {
	var s scene
	check(json.Unmarshal([]byte(os.Args[1]), &s))
	check(unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
	check(SealDescriptors())
	if s.Omit == "seal" {
		fd, err := unix.Open("/", unix.O_PATH, 0) // a descriptor of the host's root: the classic leak
		check(err)
		defer unix.Close(fd)
	}
	if s.Omit != "net" {
		loopbackUp()
	}
	c := Confinement{UID: agentID, GID: agentID, ChangeIDs: !s.OneID}
	switch {
	case s.HostRoot:
		check(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		check(unix.Mount("proc", "/proc", "proc", 0, ""))
		check(unix.Mount("tmpfs", "/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"))
		c.Writable = []string{"/dev/shm"}
	default:
		newRoot(s)
		if s.Omit != "root" {
			s.Work = "/work"
		}
	}
	c.Writable = append(c.Writable, s.Work, "/tmp")
	p, err := Prepare(c)
	check(err)
	t := s.Target
	t.UID, t.GID, t.OneID = agentID, agentID, s.OneID
	t.Absent, t.Writable = []string{s.Hidden}, []string{s.Work}
	Spend(func() {
		for _, step := range p.steps() {
			if !slices.Contains(strings.Split(s.Omit, ","), step.name) {
				check(step.do())
			}
		}
		if len(s.Run) > 0 {
			runConfined(s)
			return
		}
		check(json.NewEncoder(os.Stdout).Encode(Probe(t)))
	})
	os.Exit(0)
}

// runConfined starts a program from the confined thread, as the keeper does.
func runConfined(s scene) {
	env := []string{"PATH=" + confinedPath, "HOME=" + s.Work, "GOCACHE=" + s.Work + "/gocache", "GOPROXY=off", "GOTOOLCHAIN=local", "CGO_ENABLED=0", "LC_ALL=C.UTF-8"}
	os.Setenv("PATH", confinedPath)
	path, err := exec.LookPath(s.Run[0])
	check(err)
	pid, err := syscall.ForkExec(path, s.Run, &syscall.ProcAttr{Dir: s.Work, Env: env, Files: []uintptr{0, 1, 1}, Sys: &syscall.SysProcAttr{Setsid: true}})
	check(err)
	var ws syscall.WaitStatus
	for {
		got, err := syscall.Wait4(-1, &ws, 0, nil)
		if err == syscall.EINTR || got != pid {
			continue
		}
		check(err)
		break
	}
	fmt.Printf("exit %d signal %d\n", ws.ExitStatus(), ws.Signal())
	os.Exit(0)
}

// newRoot makes a small read-only root. With Omit "root" it is made and not entered.
func newRoot(s scene) {
	at := func(p string) string { return filepath.Join(s.Root, p) }
	check(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	check(unix.Mount("tmpfs", s.Root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"))
	for _, d := range []string{"usr", "etc", "proc", "dev", "work", "tmp", "sys"} {
		check(os.Mkdir(at(d), 0o755))
	}
	for _, l := range []string{"bin", "sbin", "lib", "lib64"} {
		if target, err := os.Readlink("/" + l); err == nil {
			check(os.Symlink(target, at(l)))
		}
	}
	check(unix.Mount("/usr", at("usr"), "", unix.MS_BIND|unix.MS_REC, ""))
	readOnly(at("usr"), true)
	for _, d := range []string{"work", "tmp"} {
		check(unix.Mount("tmpfs", at(d), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"))
	}
	for _, d := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		check(os.WriteFile(at("dev/"+d), nil, 0o644))
		check(unix.Mount("/dev/"+d, at("dev/"+d), "", unix.MS_BIND, ""))
	}
	if s.Omit == "pid" { // the kernel gives a new procfs only to a new pid namespace
		check(unix.Mount("/proc", at("proc"), "", unix.MS_BIND|unix.MS_REC, ""))
	} else {
		check(unix.Mount("proc", at("proc"), "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""))
	}
	check(unix.Mount(at("proc/sys"), at("proc/sys"), "", unix.MS_BIND, ""))
	readOnly(at("proc/sys"), false)
	if s.Omit == "root" {
		check(unix.Mount("proc", "/proc", "proc", 0, ""))
		return
	}
	check(os.Mkdir(at("old"), 0o700))
	check(unix.PivotRoot(s.Root, at("old")))
	check(os.Chdir("/"))
	check(unix.Unmount("/old", unix.MNT_DETACH))
	check(os.Remove("/old"))
	readOnly("/", false)
}

// loopbackUp gives the namespace its 127.0.0.1.
func loopbackUp() {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	check(err)
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	check(err)
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	check(unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo))
}

func readOnly(path string, recursive bool) {
	var flags uint
	if recursive {
		flags = unix.AT_RECURSIVE
	}
	check(unix.MountSetattr(unix.AT_FDCWD, path, flags, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}))
}

func check(err error) {
	if err != nil {
		_, file, line, _ := runtime.Caller(1)
		fmt.Fprintf(os.Stderr, "%s:%d: %v\n", filepath.Base(file), line, err)
		os.Exit(3)
	}
}

// hostTargets listens where a sandbox must not arrive.
func hostTargets(t testing.TB) Targets {
	t.Helper()
	tcp, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("sallyport-test-%d", os.Getpid())
	abstract, err := net.Listen("unix", "@"+name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tcp.Close(); abstract.Close() })
	return Targets{
		HostPort: tcp.Addr().(*net.TCPAddr).Port, Abstract: name,
		Env:         []string{"PATH=/usr/bin:/bin", "HOME=/home/agent", "ANTHROPIC_API_KEY=placeholder"},
		ForbidNames: []string{"*_TOKEN", "*_KEY", "AWS_*"}, AllowNames: []string{"ANTHROPIC_API_KEY"}, ForbidValues: []string{"ghp_", "-----BEGIN"},
	}
}

func probes(t testing.TB, s scene, user bool) map[sallyport.Layer]sallyport.LayerReport {
	t.Helper()
	out := play(t, s, user)
	var list []sallyport.LayerReport
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	byLayer := map[sallyport.Layer]sallyport.LayerReport{}
	for _, r := range list {
		byLayer[r.Layer] = r
	}
	return byLayer
}

// starters are who starts a sandbox here.
func starters(t *testing.T) map[string]bool {
	if os.Getuid() != 0 {
		t.Log("not root: only the ordinary user's sandbox is tried")
		return map[string]bool{"user": true}
	}
	return map[string]bool{"root": false, "user": true}
}
