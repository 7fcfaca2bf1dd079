package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// program is where this program is found after the initial file system has gone.
const program = "/run/guest-init"

// service runs the commands of the test.
const service = `[Unit]
Description=Commands of the test
DefaultDependencies=no
After=dbus.socket systemd-logind.service
[Service]
ExecStart=` + program + " " + serveArg + `
Delegate=yes
KillMode=process
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
OOMPolicy=continue
`

// masked are units that would only take time here: there is no hardware to look for, no log to keep, nobody to ask.
var masked = strings.Fields(`
	systemd-journald.service systemd-journald.socket systemd-journald-audit.socket systemd-journald-dev-log.socket systemd-journal-flush.service
	systemd-tmpfiles-setup.service systemd-tmpfiles-setup-dev.service systemd-tmpfiles-clean.timer systemd-sysusers.service systemd-firstboot.service
	systemd-random-seed.service systemd-modules-load.service systemd-binfmt.service systemd-machine-id-commit.service systemd-repart.service
	systemd-update-utmp.service systemd-update-utmp-runlevel.service systemd-pcrphase.service systemd-pcrphase-sysinit.service systemd-remount-fs.service
	systemd-ask-password-wall.path systemd-ask-password-console.path systemd-initctl.socket kmod-static-nodes.service systemd-sysctl.service apparmor.service
	dev-hugepages.mount dev-mqueue.mount proc-sys-fs-binfmt_misc.automount sys-fs-fuse-connections.mount sys-kernel-config.mount sys-kernel-debug.mount
	sys-kernel-tracing.mount getty.target getty-static.service getty@tty1.service serial-getty@ttyS0.service`)

// becomeSystemd puts the manager in this process's place; it returns only an error.
func becomeSystemd() error {
	const units = "/run/systemd/system"
	wants := filepath.Join(units, "multi-user.target.wants")
	if err := os.MkdirAll(wants, 0o755); err != nil {
		return err
	}
	for _, u := range masked {
		if err := os.Symlink("/dev/null", filepath.Join(units, u)); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(units, "guest.service"), []byte(service), 0o644); err != nil {
		return err
	}
	if err := os.Symlink("../guest.service", filepath.Join(wants, "guest.service")); err != nil {
		return err
	}
	return unix.Exec("/lib/systemd/systemd", []string{"systemd", "--unit=multi-user.target", "--log-target=console", "--log-level=notice", "--show-status=no"},
		[]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "container="})
}

func copySelf(to string) error {
	in, err := os.Open("/init") // as the kernel started it; /proc is not there yet
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	if _, err = io.Copy(out, in); err != nil {
		return err
	}
	return out.Close()
}
