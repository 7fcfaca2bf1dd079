package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// host is what lies outside of all sandboxes: a person's home and repository, lures, a network that is all ours. It lives
// in namespaces of its own (main.go), so that "the internet" is an address on a loopback interface, and nothing that
// anybody starts here outlives the program.
type host struct {
	dir      string // not below /tmp, where some sandboxes may write on purpose
	programs string
	uid      int // whose turn it is
	token    string
	port     string
	canary   *exec.Cmd

	mu     sync.Mutex
	heards map[string]bool // since the last reset
	uids   map[string]bool // on the host, of processes that hold the token in their arguments
	was    string          // of setting
	tty    *terminal
}

const (
	secret   = "containment-secret-c7a1" // of private files, an environment, a key
	sysvKey  = 0x5a11b007
	ordinary = 1000 // the user that is not root; it needs no account
)

func newHost(programs string) (*host, error) {
	dir, err := os.MkdirTemp("/var/tmp", "spc-")
	if err != nil {
		return nil, err
	}
	h := &host{dir: dir, programs: programs, heards: map[string]bool{}}
	b, err := os.ReadFile(setting)
	if err != nil {
		return nil, err
	}
	h.was = string(b)
	if err := errors.Join(os.Chmod(dir, 0o755), h.furnish(), h.listen()); err != nil {
		_ = h.close()
		return nil, err
	}
	return h, nil
}

func (h *host) path(name string) string { return filepath.Join(h.dir, name) }
func (h *host) home() string            { return h.path(fmt.Sprintf("home-%d", h.uid)) }
func (h *host) work() string            { return h.home() + "/work" }
func (h *host) state() string           { return h.path(fmt.Sprintf("own-%d", h.uid)) + "/state" }

func (h *host) close() error {
	if h.canary != nil {
		_ = h.canary.Process.Kill()
		_ = h.canary.Wait()
	}
	return errors.Join(os.WriteFile(setting, []byte(h.was), 0), os.RemoveAll(h.dir))
}

// furnish makes both homes, the folder for everybody, and a set-uid copy of this program.
func (h *host) furnish() error {
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(h.path("suid"), 0o755), os.WriteFile(h.path("suid/probe"), self, 0o755), os.Chmod(h.path("suid/probe"), 0o755|os.ModeSetuid)); err != nil {
		return err
	}
	for _, h.uid = range []int{0, ordinary} {
		files := map[string]string{"work/x": string(self), "work/README": "a project\n", ".ssh/id_ed25519": secret, "other/.env": secret, ".bashrc": "", "work/sallyport.yaml": policy,
			".config/sallyport/config.yaml": "version: 1\nlimits: {memory: 512MiB, pids: 256, disk: 256MiB, time: 90s}\n"}
		for name, text := range files {
			if err := writeFile(h.home()+"/"+name, text); err != nil {
				return err
			}
		}
		if err := os.Chmod(h.home()+"/.ssh/id_ed25519", 0o600); err != nil {
			return err
		}
		if err := h.give(h.home()); err != nil {
			return err
		}
		for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"config", "user.name", "Una"}, {"config", "user.email", "una@example.invalid"}, {"add", "-A"}, {"commit", "-q", "-m", "base"}} {
			cmd := h.command(context.Background(), h.work(), "git", args...)
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("git %s: %w: %s", args[0], err, out)
			}
		}
	}
	return nil
}

const policy = "version: 1\nchecks: []\n"

// give gives a folder and what is in it to whose turn it is.
func (h *host) give(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, h.uid, h.uid))
	})
}

// command is a program of the person's whose turn it is.
func (h *host) command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.WaitDelay = dir, 5*time.Second
	cmd.Env = []string{"HOME=" + h.home(), "CODEX_HOME=" + h.path(fmt.Sprintf("codex-%d", h.uid)), "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "TERM=dumb", "SALLYPORT_STATE=" + h.state(), "USER=una",
		"DOCKER_HOST=unix://" + h.path("engine/docker.sock"), "DOCKER_CONFIG=" + h.path("engine/config")}
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if h.uid != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(h.uid), Gid: uint32(h.uid)}
	}
	return cmd
}

// turn makes everything new for one run by one user: files, token, what was heard, the process outside.
func (h *host) turn(uid int) error {
	h.uid = uid
	h.mu.Lock()
	h.token = fmt.Sprintf("t%x", time.Now().UnixNano())
	h.heards, h.uids = map[string]bool{}, map[string]bool{}
	h.mu.Unlock()
	clean := h.command(context.Background(), h.work(), "git", "checkout", "-q", "-f", "HEAD")
	_ = os.Remove(h.work() + "/.git/hooks/post-checkout")
	_ = os.Remove("/usr/local/bin/sallyport-containment")
	config, err := os.ReadFile(h.work() + "/.git/config")
	if err != nil {
		return err
	}
	config, _, _ = bytes.Cut(config, []byte("[core]\n\tfsmonitor"))
	if err := errors.Join(os.WriteFile(h.work()+"/.git/config", config, 0o644), clean.Run(), os.RemoveAll(h.path("outside")), os.Mkdir(h.path("outside"), 0o777), os.Chmod(h.path("outside"), 0o777),
		os.WriteFile(h.home()+"/.bashrc", nil, 0o644), os.WriteFile(setting, []byte(h.was), 0), h.give(h.home())); err != nil {
		return err
	}
	if err := h.agentSocket(); err != nil {
		return err
	}
	return h.newCanary()
}

// newCanary starts a process of the user's outside, that has something to hide. Its number is a high one: a sandbox has low
// ones of its own, which must not be taken for it.
func (h *host) newCanary() error {
	if h.canary != nil {
		_ = h.canary.Process.Kill()
		_ = h.canary.Wait()
	}
	_ = os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte("30000"), 0)
	h.canary = h.command(context.Background(), h.dir, "/proc/self/exe", "canary", h.path("signalled"))
	h.canary.Path = h.work() + "/x"
	h.canary.Env = append(h.canary.Env, "PRIVATE="+secret)
	_ = os.Remove(h.path("signalled"))
	if err := errors.Join(os.WriteFile(h.path("signalled"), nil, 0o666), os.Chmod(h.path("signalled"), 0o666)); err != nil {
		return err
	}
	out, err := h.canary.StdoutPipe()
	if err != nil {
		return err
	}
	if err := h.canary.Start(); err != nil {
		return err
	}
	_, err = out.Read(make([]byte, 8)) // it holds memory and key by now
	return err
}

// canary is that process: it has System V memory and a key of its user's, and says when it is signalled.
func canary(file string) error {
	got := make(chan os.Signal, 1)
	notify(got)
	id, _, e := unix.Syscall(unix.SYS_SHMGET, sysvKey, 4096, unix.IPC_CREAT|0o666)
	if e == 0 {
		_, _, _ = unix.Syscall(unix.SYS_SHMAT, id, 0, 0) // it ends with our namespace
	}
	// Where this user has no place for keys the row says ENOKEY of everybody.
	if id, err := unix.AddKey("user", secret, []byte(secret), unix.KEY_SPEC_USER_KEYRING); err == nil {
		_, _ = unix.KeyctlInt(unix.KEYCTL_SET_TIMEOUT, id, 600, 0, 0)
	}
	fmt.Println("ready")
	<-got
	return os.WriteFile(file, []byte("signalled"), 0o666)
}

func (h *host) canarySignalled() bool {
	b, _ := os.ReadFile(h.path("signalled"))
	return len(b) > 0
}

func (h *host) fileHolds(path string) bool {
	b, err := os.ReadFile(path)
	return err == nil && bytes.Contains(b, []byte(h.token))
}

func (h *host) settingChanged() bool {
	b, err := os.ReadFile(setting)
	_ = os.WriteFile(setting, []byte(h.was), 0)
	return err == nil && string(b) == settingProbe
}

// daemonLives looks for what the probe left, and ends it.
func (h *host) daemonLives() bool {
	found := false
	for _, pid := range h.processes("environ", daemonID+"="+h.token) {
		found = true
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	return found
}

// processes are those of this pid namespace whose file of /proc holds text.
func (h *host) processes(file, text string) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/" + file)
	for _, f := range all {
		if b, err := os.ReadFile(f); err == nil && bytes.Contains(b, []byte(text)) {
			if pid, _ := strconv.Atoi(strings.Split(f, "/")[2]); pid != os.Getpid() {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// watch notes as whom, on the host, the probe runs, until ctx ends.
func (h *host) watch(ctx context.Context, config string) {
	for ctx.Err() == nil {
		for _, pid := range h.processes("cmdline", "x\x00probe\x00"+config) {
			// Those who started it name it too, further on.
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			first, _, _ := strings.Cut(string(line), "\x00")
			if filepath.Base(first) != "x" {
				continue
			}
			if f := strings.Fields(status(strconv.Itoa(pid), "Uid")); len(f) > 0 {
				h.mu.Lock()
				h.uids[f[0]] = true
				h.mu.Unlock()
			}
		}
		time.Sleep(time.Millisecond) // some runs are over in a moment
	}
}

// config is what the probe is told.
func (h *host) config() string {
	read := func(path string) string { b, _ := os.ReadFile(path); return digest(b) }
	spaces := map[string]int{}
	for _, ns := range []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"} {
		if fi, err := os.Stat("/proc/self/ns/" + ns); err == nil {
			spaces[ns] = int(fi.Sys().(*syscall.Stat_t).Ino)
		}
	}
	b, err := json.Marshal(probe{Token: h.token, Home: h.home(), Outside: h.path("outside"), Port: h.port, Abstract: "sallyport-containment", Suid: h.path("suid/probe"), Secret: secret,
		Passwd: read("/etc/passwd"), Shadow: read("/etc/shadow"), Canary: h.canary.Process.Pid, Spaces: spaces, SysV: sysvKey})
	if err != nil {
		panic(err) // strings and numbers
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func (h *host) hear(on, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if strings.Contains(text, h.token) {
		h.heards[on] = true
	}
}

func (h *host) heard(on string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.heards[on]
}

// listen opens all servers. They note what they hear and answer.
func (h *host) listen() error {
	first, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	h.port = strconv.Itoa(first.Addr().(*net.TCPAddr).Port)
	go h.serve(first, "tcp4 127.0.0.1")
	for _, l := range []struct{ network, address, on string }{
		{"tcp6", "[::1]:" + h.port, "tcp6 ::1"}, {"tcp4", metadata + ":80", "tcp4 " + metadata}, {"tcp4", internet + ":443", "tcp4 " + internet},
		{"unix", "@sallyport-containment", "unix abstract"}, {"unix", "/run/docker.sock", "unix docker"},
	} {
		n, err := net.Listen(l.network, l.address)
		if err != nil {
			return err
		}
		go h.serve(n, l.on)
	}
	if err := os.Chmod("/run/docker.sock", 0o666); err != nil {
		return err
	}
	web, err := net.Listen("tcp4", internet+":80") // evil.test, to a proxy that looks it up
	if err != nil {
		return err
	}
	go func() {
		_ = http.Serve(web, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.hear("http evil.test", r.URL.Path)
			_, _ = io.WriteString(w, answer)
		}))
	}()
	for address, on := range map[string]string{internet + ":9999": "udp4 " + internet, resolver + ":53": "dns"} {
		c, err := net.ListenPacket("udp4", address)
		if err != nil {
			return err
		}
		go h.datagrams(c, on)
	}
	return nil
}

func (h *host) serve(l net.Listener, on string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(patience))
			b := make([]byte, 256)
			n, _ := c.Read(b)
			h.hear(on, string(b[:n]))
			_, _ = io.WriteString(c, answer)
		}()
	}
}

// datagrams answers; a question for a name is answered with an address.
func (h *host) datagrams(c net.PacketConn, on string) {
	b := make([]byte, 1500)
	for {
		n, from, err := c.ReadFrom(b)
		if err != nil {
			return
		}
		h.hear(on, string(b[:n]))
		reply := []byte(answer)
		if on == "dns" && n > 12 {
			reply = append([]byte{b[0], b[1], 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0}, b[12:n]...)
			reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 198, 51, 100, 7)
		}
		_, _ = c.WriteTo(reply, from)
	}
}

// agentSocket is in the person's home, as an SSH agent's would be.
func (h *host) agentSocket() error {
	path := h.home() + "/agent.sock"
	_ = os.Remove(path)
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	go h.serve(l, "unix agent")
	return errors.Join(os.Chmod(path, 0o600), os.Lchown(path, h.uid, h.uid))
}

// terminal is the person's: standard input of all that is started.
type terminal struct{ master, slave *os.File }

func newTerminal() (*terminal, error) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err := errors.Join(err, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)); err != nil {
		return nil, err
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	t, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err != nil {
		return nil, err
	}
	t.Lflag &^= unix.ICANON | unix.ECHO
	return &terminal{master, slave}, unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, t)
}

func (t *terminal) close() {
	_ = t.slave.Close()
	_ = t.master.Close()
}

// typed says whether something is waiting to be read by a shell at this terminal.
func (h *host) typed() bool {
	n, err := unix.IoctlGetInt(int(h.tty.slave.Fd()), unix.TIOCINQ)
	return err == nil && n > 0
}
