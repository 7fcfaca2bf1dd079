package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

func notify(c chan os.Signal) { signal.Notify(c, syscall.SIGUSR1) }

// apart starts this program again in namespaces of its own, as their first process: what it and all that it starts leave
// behind ends with it, and every address is on a loopback interface of its own.
func apart(args []string) error {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWIPC, Pdeathsig: syscall.SIGKILL}
	return cmd.Run()
}

// settle prepares those namespaces from within.
func settle() error {
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	resolv, err := os.CreateTemp("", "resolv-")
	if err != nil {
		return err
	}
	defer os.Remove(resolv.Name())
	_, err = fmt.Fprintln(resolv, "nameserver", resolver)
	if err := errors.Join(err, resolv.Chmod(0o644), resolv.Close()); err != nil {
		return err
	}
	for _, m := range []struct{ source, target, kind, data string }{
		{"proc", "/proc", "proc", ""}, {"tmpfs", "/run", "tmpfs", "mode=755"}, {"tmpfs", "/dev/shm", "tmpfs", "mode=1777"},
	} {
		if err := unix.Mount(m.source, m.target, m.kind, 0, m.data); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	if err := unix.Mount(resolv.Name(), "/etc/resolv.conf", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount /etc/resolv.conf: %w", err)
	}
	return loopback(metadata, internet, resolver)
}

// loopback brings lo up and gives it further addresses.
func loopback(addresses ...string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	up, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	up.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, up); err != nil {
		return err
	}
	for i, a := range addresses {
		r, err := unix.NewIfreq(fmt.Sprintf("lo:%d", i+1))
		if err != nil {
			return err
		}
		if err := errors.Join(r.SetInet4Addr(net.ParseIP(a).To4()), unix.IoctlIfreq(fd, unix.SIOCSIFADDR, r)); err != nil {
			return fmt.Errorf("address %s: %w", a, err)
		}
	}
	return nil
}
