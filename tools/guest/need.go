package guest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

// emulator and what else is called, with the Debian package each comes from.
const emulator = "qemu-system-x86_64"

var programs = []struct{ name, pkg string }{
	{emulator, "qemu-system-x86"},
	{"mke2fs", "e2fsprogs"},
	{"dpkg", "dpkg"},
	{"tar", "tar"},
	{"apt-get", "apt"},
	{"apt-cache", "apt"},
}

// missing is an error that names a capability which this machine does not have.
type missing struct{ what string }

func (m missing) Error() string { return "missing: " + m.what }

// Need returns the base of all guests, made first if it is not in the cache (which takes the network and a
// minute). As root on Debian it installs the emulator. The test is skipped, with the name of what is missing,
// where this machine cannot run a guest; anything else that goes wrong fails it.
func Need(t testing.TB) Base {
	t.Helper()
	b, err := prepare()
	var m missing
	if errors.As(err, &m) {
		t.Skip(m.Error())
	}
	if err != nil {
		t.Fatalf("prepare the guest: %v", err)
	}
	return b
}

func prepare() (Base, error) {
	if runtime.GOARCH != "amd64" {
		return Base{}, missing{"an amd64 host (the guest's kernel and packages are amd64)"}
	}
	for _, p := range programs {
		if err := needProgram(p.name, p.pkg); err != nil {
			return Base{}, err
		}
	}
	r, err := plan()
	if err != nil {
		return Base{}, err
	}
	return r.base()
}

// needProgram installs the package where we are root on Debian.
func needProgram(name, pkg string) error {
	if _, err := find(name); err == nil {
		return nil
	}
	if os.Geteuid() == 0 {
		refreshLists()
		cmd := exec.Command("apt-get", "install", "-y", "-qq", "--no-install-recommends", pkg)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		cmd.Run() // what counts is whether the program is there afterwards
		if _, err := find(name); err == nil {
			return nil
		}
	}
	return missing{fmt.Sprintf("%s (Debian: apt-get install %s)", name, pkg)}
}

// find looks beyond an ordinary user's PATH too: mke2fs lies in sbin.
func find(name string) (string, error) {
	if p, err := exec.LookPath(name); err == nil {
		return p, nil
	}
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if p, err := exec.LookPath(dir + "/" + name); err == nil {
			return p, nil
		}
	}
	return "", exec.ErrNotFound
}

// refreshLists lets apt know its packages; only root may, and a failure shows up where they are used.
func refreshLists() {
	if os.Geteuid() == 0 {
		exec.Command("apt-get", "update", "-qq").Run()
	}
}

// output runs a program in dir and returns what it wrote, or an error with what it complained of.
func output(dir, name string, args ...string) (string, error) {
	path, err := find(name)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(errs.String()))
	}
	return string(out), nil
}
