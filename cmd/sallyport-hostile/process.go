package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// first tries everything on the sandbox's first process. A child does it: what is tried on oneself is no attack.
func first([]string) {
	runtime.LockOSThread()
	for s := syscall.Signal(1); s < 65; s++ {
		_ = syscall.Kill(1, s)
	}
	for i := range 200 {
		_ = unix.PtraceInterrupt(1)
		_ = i
	}
	if err := unix.PtraceAttach(1); err == nil {
		won("traced the first process")
	}
	if err := unix.PtraceSeize(1); err == nil {
		won("seized the first process")
	}
	for _, n := range []string{"mem", "environ", "maps", "stack", "auxv", "syscall", "fd", "fdinfo", "map_files", "root", "cwd", "exe", "ns/pid"} {
		p := "/proc/1/" + n
		if _, err := os.ReadDir(p); err == nil {
			won("listed %s", p)
		}
		if f, err := os.Open(p); err == nil {
			var b [1]byte
			if k, _ := f.Read(b[:]); k > 0 {
				won("read %s", p)
			}
		}
		if t, err := os.Readlink(p); err == nil {
			won("%s is %s", p, t)
		}
	}
	for _, n := range []string{"mem", "oom_score_adj", "comm", "autogroup", "coredump_filter", "uid_map", "setgroups", "attr/current", "sched", "clear_refs"} {
		if f, err := os.OpenFile("/proc/1/"+n, os.O_WRONLY, 0); err == nil {
			if _, err := f.Write([]byte("1000")); err == nil {
				won("wrote /proc/1/%s", n)
			}
		}
	}
	if fd, err := unix.PidfdOpen(1, 0); err == nil {
		for n := range 40 {
			if _, err := unix.PidfdGetfd(fd, n, 0); err == nil {
				won("took descriptor %d of the first process", n)
			}
		}
		if unix.PidfdSendSignal(fd, unix.SIGSTOP, nil, 0) == nil {
			time.Sleep(50 * time.Millisecond)
		}
	}
	_ = unix.Prlimit(1, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: 3}, nil)
	var old unix.Rlimit
	if unix.Prlimit(1, unix.RLIMIT_NOFILE, nil, &old) == nil && old.Max == 3 {
		won("limited the first process")
	}
	_ = syscall.Kill(-1, 0)
}

// parent has the process that started this one exit with 0, by tracing it.
func parent(args []string) {
	runtime.LockOSThread()
	pid := os.Getppid()
	if len(args) > 0 {
		pid = number(args[0])
	}
	if err := unix.PtraceAttach(pid); err != nil {
		fmt.Println("refused:", err)
		return
	}
	_, err := unix.Wait4(pid, nil, 0, nil)
	check(err)
	takeOver(pid)
}

// zombies leaves children that nobody waits for: zombies COUNT.
func zombies(args []string) {
	for range number(args[0]) {
		cmd := exec.Command("sh", "-c", "(exit 0 &) ; (setsid sleep 0.01 &) ; exit 0")
		_ = cmd.Run()
	}
}

// reach looks for what lies beyond the sandbox.
func reach(args []string) {
	hosts := args
	for _, h := range hosts {
		if fi, err := os.Lstat(h); err == nil {
			won("sees %s (%v)", h, fi.Mode())
		}
	}
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		for _, l := range []string{"root", "cwd", "exe", "fd/3", "fd/4", "fd/5"} {
			t, err := os.Readlink(p + "/" + l)
			if err == nil && (strings.Contains(t, "keeper") || strings.HasPrefix(t, "socket:") && p == "/proc/1") {
				won("%s/%s is %s", p, l, t)
			}
		}
	}
	if b, err := os.ReadFile("/proc/net/unix"); err == nil {
		for line := range strings.Lines(string(b)) {
			if strings.Contains(line, "wire") || strings.Contains(line, "egress") || strings.Contains(line, "lure") {
				won("/proc/net/unix shows %s", strings.TrimSpace(line))
			}
		}
	}
	for _, p := range []string{"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hostname", "/proc/sys/vm/drop_caches", "/proc/sysrq-trigger", "/proc/sys/fs/binfmt_misc/register", "/proc/sys/kernel/ns_last_pid", "/proc/mtrr", "/proc/scsi/scsi", "/proc/pressure/memory", "/proc/timer_stats", "/proc/irq/0/smp_affinity", "/proc/acpi/wakeup", "/sys/kernel/uevent_helper"} {
		if f, err := os.OpenFile(p, os.O_WRONLY, 0); err == nil {
			f.Close()
			if fi, _ := os.Stat(p); fi == nil || fi.Mode()&os.ModeCharDevice == 0 {
				won("opened %s to write", p)
			}
		}
	}
	for _, n := range []string{"unix", "unixpacket", "unixgram"} {
		for _, a := range []string{"/run/dbus/system_bus_socket", "/run/docker.sock", "/var/run/docker.sock", "@/tmp/.X11-unix/X0", "@dbus"} {
			if c, err := net.Dial(n, a); err == nil {
				c.Close()
				won("connected to %s", a)
			}
		}
	}
	_ = filepath.WalkDir("/", func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if p == "/proc" || p == "/usr" {
			return filepath.SkipDir
		}
		if d.Type()&(os.ModeSocket|os.ModeNamedPipe) != 0 {
			won("found %s (%v)", p, d.Type())
		}
		if d.Type()&os.ModeDevice != 0 {
			switch p {
			case "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/pts/ptmx", "/dev/ptmx":
			default:
				won("found %s (%v)", p, d.Type())
			}
		}
		return nil
	})
}
