package local

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/provider"
)

// fingerprint is every file below dir with mode, owner, time and content.
func fingerprint(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %o %d:%d %d.%d", p, st.Mode, st.Uid, st.Gid, st.Mtim.Sec, st.Mtim.Nsec)
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			c, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %x", sha256.Sum256(c))
		case unix.S_IFLNK:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			b.WriteString(" " + target)
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTheHostsFilesStayAsTheyWere(t *testing.T) {
	b := newBench(t)
	cow, tool := t.TempDir(), t.TempDir()
	for _, d := range []string{cow, tool} {
		must(t, os.WriteFile(d+"/host.txt", []byte("host\n"), 0o644))
		must(t, os.Chmod(d, 0o755))
	}
	before := fingerprint(t, b.base) + fingerprint(t, cow) + fingerprint(t, tool)
	out, e := b.shell(`
		for d in /work/repo "`+cow+`"; do cd "$d" && echo x >> keep.txt; echo x >> host.txt; chmod 777 . *; touch -d 2001-01-01 * .; rm -rf gone.txt; mkdir -p new/sub; ln -f keep.txt hard; mv edit.txt moved; done
		(echo x > "`+tool+`/host.txt") 2>&1; (echo x > "`+tool+`/new") 2>&1; (chmod 777 "`+tool+`") 2>&1
		cat /work/repo/keep.txt "`+cow+`/host.txt" "`+tool+`/host.txt"; echo done`,
		func(s *provider.Spec) {
			s.Mounts = append(s.Mounts, sallyport.Mount{Path: cow, Mode: "cow", Reason: "cache test"}, sallyport.Mount{Path: tool, Mode: "ro", Reason: "tool test"})
		})
	if e.Code != 0 || !strings.HasSuffix(out, "kept\nx\nhost\nx\nhost\ndone\n") {
		t.Errorf("the command could not work on its copies: %+v\n%s", e, out)
	}
	if after := fingerprint(t, b.base) + fingerprint(t, cow) + fingerprint(t, tool); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// What a cow mount gained inside is no part of the change, and does not come back in the next sandbox.
func TestCopyOnWriteDiesWithTheSandbox(t *testing.T) {
	b := newBench(t)
	cow := t.TempDir()
	must(t, os.Chmod(cow, 0o755))
	mount := func(s *provider.Spec) {
		s.Mounts = append(s.Mounts, sallyport.Mount{Path: cow, Mode: "cow", Reason: "cache test"})
	}
	spec, auth := b.spec("sh", "-c", "echo poison > "+cow+"/p && echo ok")
	mount(&spec)
	l := b.start(spec, auth)
	if out, e := l.all(); out != "ok\n" {
		t.Fatalf("%q %+v", out, e)
	}
	if got := l.collected(); len(got) != 0 {
		t.Errorf("changes %v", got)
	}
	l.destroy()
	if out, _ := b.shell("ls -A "+cow, mount); out != "" {
		t.Errorf("the next sandbox sees %q", out)
	}
}

func TestHiddenFilesShowNothing(t *testing.T) {
	for _, mode := range []string{"ro", "cow"} {
		t.Run(mode, func(t *testing.T) {
			b := newBench(t)
			tool := t.TempDir()
			must(t, os.Chmod(tool, 0o755))
			must(t, os.MkdirAll(tool+"/config/deep", 0o755))
			for _, f := range []string{"credentials.json", "config/deep/token", "shown.txt"} {
				must(t, os.WriteFile(filepath.Join(tool, f), []byte("content of "+f+"\n"), 0o644))
			}
			must(t, os.Symlink("credentials.json", tool+"/alias"))
			out, _ := b.shell("cd "+tool+"; cat shown.txt credentials.json alias; ls -A config; cat config/deep/token; mv credentials.json x; rm credentials.json; rm -r config; cat x credentials.json config/deep/token",
				func(s *provider.Spec) {
					s.Mounts = append(s.Mounts, sallyport.Mount{Path: tool, Mode: mode, Reason: "tool test", Hide: []string{"credentials.json", "config", "absent"}})
				})
			if !strings.Contains(out, "content of shown.txt") || strings.Contains(out, "content of cred") || strings.Contains(out, "content of config") || strings.Contains(out, "deep\n") {
				t.Errorf("output %s", out)
			}
		})
	}
}

func TestTheHostIsOutOfSight(t *testing.T) {
	b := newBench(t)
	canary := filepath.Join(t.TempDir(), "canary")
	must(t, os.WriteFile(canary, []byte("canary"), 0o666))
	neighbour := b.start(b.spec("sh", "-c", "echo secret > /tmp/mine; echo ready; sleep 1000"))
	neighbour.until("ready")
	home, err := os.UserHomeDir()
	must(t, err)
	script := `
		echo "pids $(ls /proc | grep -c '^[0-9]')"
		for p in ` + strings.Join([]string{canary, b.cfg.Folder, b.folder(neighbour.spec.Allocation), "/root/.ssh", home + "/.ssh", "/var/run/docker.sock", "/run/docker.sock", "/run/containerd", "/run/systemd", "/run/user", "/etc/shadow", "/etc/sudoers", "/var/lib", "/boot", "/sys/class", "/sys/fs/cgroup", "/tmp/mine"}, " ") + `; do
			[ -e "$p" ] && echo "sees $p"; done
		[ -n "$(ls -A /root /home 2>/dev/null | grep -v -e agent -e : )" ] && ls -A /root /home
		[ -n "$(ls -A /tmp /var/tmp /srv /mnt /opt | grep -v : )" ] && ls -A /tmp /var/tmp /srv /mnt /opt
		cat /proc/1/environ /proc/1/mem /proc/kcore /proc/kmsg 2>/dev/null | head -c 10
		ls /proc/1/fd /proc/1/cwd/ /proc/1/root/ 2>/dev/null
		dmesg 2>/dev/null
		echo done`
	out, e := b.shell(script)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	// PID 1, this shell, and the pipe that counts.
	if e.Code != 0 || len(lines) != 2 || lines[1] != "done" || !slices.Contains([]string{"pids 3", "pids 4", "pids 5"}, lines[0]) {
		t.Errorf("%+v\n%s", e, out)
	}
}

func TestDescriptorsOfTheHostReachNobody(t *testing.T) {
	b := newBench(t)
	path := filepath.Join(t.TempDir(), "opened-by-the-shell")
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	var extra []int
	for range 30 { // without close-on-exec, as a shell leaves them; over the numbers that a keeper uses, and beyond
		fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD, 3+len(extra)*7)
		must(t, err)
		extra = append(extra, fd)
	}
	defer func() {
		for _, fd := range extra {
			unix.Close(fd)
		}
	}()
	l := b.start(b.spec("sh", "-c", "ls -l /proc/self/fd /proc/$$/fd; echo ready; sleep 1000"))
	l.until("ready")
	for _, pid := range bearing(t, string(l.spec.Allocation)) {
		pid, _, _ = strings.Cut(pid, " ")
		fds, err := os.ReadDir("/proc/" + pid + "/fd")
		if err != nil && os.Geteuid() == 0 {
			t.Fatal(err) // an ordinary user cannot look into processes that are not dumpable
		}
		for _, fd := range fds {
			if target, err := os.Readlink("/proc/" + pid + "/fd/" + fd.Name()); err == nil && target == path {
				t.Errorf("process %s has descriptor %s of the host's", pid, fd.Name())
			}
		}
	}
	if err := l.Stop(b.ctx(), "test"); err != nil {
		t.Fatal(err)
	}
	out, _ := l.all()
	for _, line := range strings.Split(out, "\n") {
		_, target, ok := strings.Cut(line, " -> ")
		if ok && target != "/dev/null" && !strings.HasPrefix(target, "pipe:") && !strings.HasPrefix(target, "/proc/") {
			t.Errorf("the command has %s", line)
		}
	}
	if strings.Count(out, " -> ") < 6 {
		t.Errorf("output %s", out)
	}
}

func TestTwoSandboxesCannotReachEachOther(t *testing.T) {
	b := newBench(t)
	const listen = `use IO::Socket::INET; use IO::Socket::UNIX; use Socket;
		$t = IO::Socket::INET->new(Listen=>5, LocalAddr=>"127.0.0.1", LocalPort=>18999, ReuseAddr=>1) or die "tcp $!";
		socket($u, PF_UNIX, SOCK_STREAM, 0) or die; bind($u, pack("Sa*", AF_UNIX, "\0sallyport-test-abstract")) or die "abstract $!"; listen($u, 5);
		$SIG{TERM} = "IGNORE"; $| = 1; print "ready\n"; sleep 1000;`
	const reach = `use IO::Socket::INET; use Socket; $| = 1;
		print "tcp\n" if IO::Socket::INET->new(PeerAddr=>"127.0.0.1", PeerPort=>18999, Timeout=>2);
		socket($v, PF_UNIX, SOCK_STREAM, 0) or die; print "abstract\n" if connect($v, pack("Sa*", AF_UNIX, "\0sallyport-test-abstract"));
		for (1..40000) { next if $_ == $$ || $_ == getppid(); print "signalled $_\n" if kill(0, $_) }
		print "file\n" if -e "/tmp/shared" || -e "/work/repo/shared" || -e "/dev/shm/shared" || -e "/home/agent/shared";
		print "done\n"`
	first := b.start(b.spec("sh", "-c", "for d in /tmp /work/repo /dev/shm /home/agent; do echo x > $d/shared; done; exec perl -e '"+listen+"'"))
	first.until("ready")
	// The same attempts from within the first one's own walls succeed: the second's failures mean something.
	own, _ := b.shell("perl -e '" + strings.Replace(listen, "sleep 1000;", "", 1) + strings.ReplaceAll(reach, "use IO::Socket::INET; use Socket;", "") + "'")
	if !strings.Contains(own, "tcp\n") || !strings.Contains(own, "abstract\n") {
		t.Errorf("inside one sandbox: %s", own)
	}
	out, _ := b.shell("perl -e '" + reach + "'")
	for _, l := range strings.Split(strings.TrimSpace(out), "\n") {
		if l != "done" {
			t.Errorf("the second sandbox reached: %s", l)
		}
	}
	_, _ = b.shell("kill -9 -1; exit 0")
	ctxEnd, e := first.Wait(b.shortCtx())
	if sallyport.CodeOf(e) != sallyport.CodeUnknown {
		t.Errorf("the first sandbox ended: %+v, %v", ctxEnd, e)
	}
	second := b.start(b.spec("sh", "-c", "echo ready; sleep 1000"))
	second.until("ready")
	if os.Geteuid() == 0 {
		a, z := statOwner(t, first), statOwner(t, second)
		if a == z || a < firstHostID || z < firstHostID {
			t.Errorf("host ids %d and %d", a, z)
		}
	}
}

// statOwner is the host's uid of what a sandbox writes.
func statOwner(t *testing.T, l *live) uint32 {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Stat(filepath.Join(l.b.folder(l.spec.Allocation), "data", "home"), &st))
	return st.Uid
}

func TestHostileMountPointsAreRefused(t *testing.T) {
	outside := t.TempDir()
	must(t, os.Chmod(outside, 0o755))
	for name, target := range map[string]string{"absolute": "/etc", "relative": "../../etc", "host": outside, "dangling": "nowhere", "self": ".git", "proc": "/proc/self/root"} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			git := filepath.Join(t.TempDir(), "git")
			must(t, os.Mkdir(git, 0o755))
			layer := filepath.Join(t.TempDir(), "layer")
			must(t, os.Mkdir(layer, 0o755))
			must(t, os.Symlink(target, layer+"/.git"))
			spec, _ := b.spec("true")
			spec.Workspace.Layers = []string{layer, b.base}
			spec.Workspace.GitDir = git
			_, err := b.Create(b.ctx(), spec)
			if sallyport.CodeOf(err) != sallyport.CodeUnsupported {
				t.Errorf("Create: %v", err)
			}
			if left := b.traces(spec.Allocation); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			if got := fingerprint(t, outside); strings.Count(got, "\n") != 1 {
				t.Errorf("the host's folder has %s", got)
			}
		})
	}
}

func TestFIFOAsMountPointDoesNotHang(t *testing.T) {
	b := newBench(t)
	must(t, unix.Mkfifo(b.base+"/settings", 0o644))
	file := filepath.Join(t.TempDir(), "settings")
	must(t, os.WriteFile(file, []byte("settings\n"), 0o644))
	spec, _ := b.spec("true")
	spec.Workspace.Path = filepath.Dir(file)
	spec.Command.Dir = spec.Workspace.Path
	spec.Mounts = append(spec.Mounts, sallyport.Mount{Path: file, Mode: "ro", Reason: "tool test"})
	// Opening a FIFO would wait for ever; a slow machine only takes its time.
	ctx, cancel := context.WithTimeout(b.ctx(), time.Minute)
	defer cancel()
	if _, err := b.Create(ctx, spec); err != nil && sallyport.CodeOf(err) == sallyport.CodeUnknown {
		t.Errorf("Create: %v", err)
	}
	must(t, b.Destroy(b.ctx(), b.resource(spec.Allocation)))
}

func TestStubsAnswer(t *testing.T) {
	b := newBench(t)
	out, _ := b.shell("apt install x 2>&1; echo $?; apt-get update 2>&1; sudo id 2>&1; echo $?; command -v apt")
	if strings.Count(out, "cannot be installed") != 2 || !strings.Contains(out, "nobody is root") || strings.Count(out, "\n1\n") != 2 || !strings.HasSuffix(out, provider.StubFolder+"/apt\n") {
		t.Errorf("%s", out)
	}
}

func TestFilesAreLaidInReadOnly(t *testing.T) {
	b := newBench(t)
	out, _ := b.shell("cat /run/sallyport/files/note; (echo x >> /run/sallyport/files/note) 2>&1; cat ~/.config/tool.json; echo y >> ~/.config/tool.json && cat ~/.config/tool.json; ls -ld ~/.config | cut -c1-10; stat -c %u ~/.config; id -u",
		func(s *provider.Spec) {
			s.Command.Files = []provider.File{{Name: "note", Data: []byte("note\n")}, {Name: "/home/agent/.config/tool.json", Data: []byte("{}\n")}}
		})
	uid := "1000"
	if os.Geteuid() != 0 {
		uid = fmt.Sprint(os.Geteuid())
	}
	if !strings.HasPrefix(out, "note\n") || !strings.Contains(out, "{}\n{}\ny\ndrwxr-xr-x\n"+uid+"\n"+uid+"\n") || strings.Contains(out, "x\n{") {
		t.Errorf("%s", out)
	}
	spec, _ := b.spec("true")
	spec.Command.Files = []provider.File{{Name: "/etc/passwd", Data: []byte("x")}}
	if _, err := b.Create(b.ctx(), spec); sallyport.CodeOf(err) != sallyport.CodeInvalid {
		t.Errorf("a file outside the home: %v", err)
	}
}

func TestTerminalIsTheSandboxesOwn(t *testing.T) {
	b := newBench(t)
	spec, auth := b.spec("sh", "-c", "tty; ls -l /proc/$$/fd; ls /dev/pts; echo own > /dev/tty; echo ready; trap 'echo interrupted; exit 5' INT; while :; do sleep 0.1; done")
	spec.Command.Terminal = true
	l := b.start(spec, auth)
	l.until("ready")
	must(t, l.Resize(b.ctx(), 90, 33))
	must(t, l.Input(b.ctx(), []byte{3})) // Ctrl-C
	out, e := l.all()
	if e.Code != 5 || !strings.Contains(out, "interrupted") || !strings.HasPrefix(out, "/dev/pts/0\r\n") || strings.Count(out, "-> /dev/pts/0") < 3 {
		t.Errorf("%+v\n%s", e, out)
	}
	for _, line := range strings.Split(out, "\n") {
		if strings.Contains(line, "-> /dev/") && !strings.Contains(line, "-> /dev/pts/0") && !strings.Contains(line, "-> /dev/tty\r") {
			t.Errorf("a terminal of the host: %s", line)
		}
	}
}

// Somebody who types more than the command reads cannot keep it from being stopped.
func TestInputThatNobodyReads(t *testing.T) {
	b := newBench(t)
	spec, auth := b.spec("sh", "-c", "stty raw -echo; echo ready; sleep 1000")
	spec.Command.Terminal = true
	l := b.start(spec, auth)
	l.until("ready")
	_ = l.Input(b.shortCtx(), make([]byte, 1<<20))
	must(t, l.Stop(b.ctx(), "test"))
	if _, e := l.all(); e.Cause != "stopped" {
		t.Errorf("%+v", e)
	}
}

func TestEgressEndsWithTheCommand(t *testing.T) {
	b := newBench(t)
	spec, auth := b.spec("sh", "-c", "echo ready; sleep 1000")
	spec.EgressPort = 18081
	l := b.start(spec, auth)
	f, err := l.Egress(b.ctx())
	must(t, err)
	listener, err := net.FileListener(f[0])
	must(t, err)
	f[0].Close()
	defer listener.Close()
	accepted := make(chan error, 1)
	go func() { _, err := listener.Accept(); accepted <- err }()
	must(t, l.Stop(b.ctx(), "test"))
	select {
	case err := <-accepted:
		if err == nil {
			t.Error("somebody connected after Stop")
		}
	case <-time.After(10 * time.Second):
		t.Error("the way out is still open after Stop")
	}
	wrong := *l.Wire.(*localWire)
	wrong.hello.Secret = "wrong"
	if _, err := wrong.Egress(b.ctx()); err == nil {
		t.Error("a socket was handed out for a wrong secret")
	}
}

func TestStopReachesEveryProcess(t *testing.T) {
	b, mark := newBench(t), marker()
	l := b.start(b.spec("sh", "-c", "(setsid sleep "+mark+" &); ((trap '' TERM; sleep "+mark+") &); (setsid sh -c 'trap \"\" TERM HUP; sleep "+mark+"' &); perl -e 'fork and exit; setpgrp; fork and exit; exec \"sleep\", \""+mark+"\"'; echo ready; trap '' TERM; sleep "+mark+"; sleep 1000"))
	l.until("ready")
	soon(t, "all five run", func() bool { return len(bearing(t, mark)) >= 5 })
	must(t, l.Stop(b.ctx(), "test"))
	if left := bearing(t, mark); len(left) > 0 {
		t.Errorf("alive after Stop: %v", left)
	}
}
