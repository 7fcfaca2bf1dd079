package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attach is one mount of the new system, below /new.
type attach struct {
	kind, source, at, options string
	flags                     uintptr
}

// mounts are those of an ordinary system started by systemd, as far as they matter to a sandbox.
var mounts = []attach{
	{"ext4", "/dev/vda", "/new", "", 0},
	{"ext4", "/dev/vdb", "/new/usr/local", "", unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV},
	{"proc", "proc", "/new/proc", "", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
	{"sysfs", "sysfs", "/new/sys", "", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
	{"devtmpfs", "udev", "/new/dev", "mode=755", unix.MS_NOSUID | unix.MS_NOEXEC},
	{"devpts", "devpts", "/new/dev/pts", "gid=5,mode=620,ptmxmode=000", unix.MS_NOSUID | unix.MS_NOEXEC},
	{"tmpfs", "tmpfs", "/new/dev/shm", "mode=1777", unix.MS_NOSUID | unix.MS_NODEV},
	{"tmpfs", "tmpfs", "/new/run", "mode=755", unix.MS_NOSUID | unix.MS_NODEV},
	{"cgroup2", "cgroup2", "/new/sys/fs/cgroup", "nsdelegate,memory_recursiveprot", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
}

// boot turns the initial file system into the guest's.
func boot() error {
	if err := os.MkdirAll("/dev", 0o755); err != nil {
		return err
	}
	// Without /dev there is no disk to mount; it goes with the initial file system.
	if err := unix.Mount("devtmpfs", "/dev", "devtmpfs", 0, ""); err != nil {
		return fmt.Errorf("mount /dev: %w", err)
	}
	if err := loadModules(); err != nil {
		return err
	}
	if err := waitFor("/dev/vdb"); err != nil {
		return err
	}
	for _, m := range mounts {
		if err := os.MkdirAll(m.at, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.source, m.at, m.kind, m.flags, m.options); err != nil {
			return fmt.Errorf("mount %s: %w", m.at, err)
		}
	}
	// Whoever becomes process 1 later finds this program there.
	if err := copySelf("/new" + program); err != nil {
		return err
	}
	if err := changeRoot("/new"); err != nil {
		return err
	}
	// Links that the kernel leaves to whoever manages /dev.
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"} {
		if err := os.Symlink(to, "/dev/"+name); err != nil {
			return err
		}
	}
	if err := loopbackUp(); err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	return errors.Join(
		unix.Sethostname([]byte("guest")),
		unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1024, Max: 524288}),
	)
}

// loadModules loads what the test put into the initial file system, in the order of the names.
func loadModules() error {
	files, err := filepath.Glob("/modules/*.ko")
	if err != nil {
		return err
	}
	sort.Strings(files)
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		err = unix.FinitModule(int(f.Fd()), "", 0)
		f.Close()
		if err != nil {
			return fmt.Errorf("load %s: %w", name, err)
		}
	}
	return nil
}

// waitFor: the disks appear a moment after their driver.
func waitFor(name string) error {
	var err error
	for range 500 {
		if _, err = os.Stat(name); err == nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

// changeRoot puts dir in the place of the initial file system, which cannot be pivoted away, and shares all
// mounts as systemd does: what a sandbox mounts must stay in the sandbox even so.
func changeRoot(dir string) error {
	for _, step := range []func() error{
		func() error { return os.Chdir(dir) },
		func() error { return unix.Mount(".", "/", "", unix.MS_MOVE, "") },
		func() error { return unix.Chroot(".") },
		func() error { return os.Chdir("/") },
		func() error { return unix.Mount("", "/", "", unix.MS_SHARED|unix.MS_REC, "") },
	} {
		if err := step(); err != nil {
			return fmt.Errorf("change root: %w", err)
		}
	}
	return nil
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP)
	if _, _, no := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCSIFFLAGS, uintptr(unsafe.Pointer(req))); no != 0 {
		return no
	}
	return nil
}
