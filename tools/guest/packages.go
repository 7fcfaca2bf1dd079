package guest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
)

// kernelPackage names the kernel by dependence on the package of its real version.
const kernelPackage = "linux-image-cloud-amd64"

// userland is all that the guest has beside the kernel: a shell, the usual tools, git, the service manager with
// logins, what doctor --fix calls, and what they load. Their maintainer scripts are not run: furnish stands in for
// the little that matters of them.
var userland = []string{
	"base-files", "ca-certificates", "coreutils", "dash", "bash", "diffutils", "findutils", "git", "grep", "gzip", "hostname",
	"libacl1", "libattr1", "libblkid1", "libc6", "libc-bin", "libcap-ng0", "libcap2", "libcrypt1", "libexpat1", "libgcc-s1", "libgmp10", "libmount1",
	"libncursesw6", "libpcre2-8-0", "libproc2-0", "libselinux1", "libsmartcols1", "libssl3", "libsystemd0", "liblz4-1", "liblzma5", "libzstd1",
	"libgcrypt20", "libgpg-error0", "libtinfo6", "libudev1", "libuuid1", "mawk", "mount", "perl-base", "procps", "sed", "tar", "util-linux", "zlib1g",
	"systemd", "libsystemd-shared", "libpam-systemd", "dbus", "dbus-bin", "dbus-daemon", "dbus-system-bus-common", "dbus-session-bus-common",
	"libpam-modules", "libpam-modules-bin", "libpam-runtime", "libpam0g", "login", "passwd", "uidmap", "libsubid4", "apparmor",
	"libapparmor1", "libargon2-1", "libaudit-common", "libaudit1", "libbz2-1.0", "libcryptsetup12", "libdb5.3", "libdbus-1-3", "libdevmapper1.02.1",
	"libfdisk1", "libffi8", "libip4tc2", "libjson-c5", "libkmod2", "libp11-kit0", "libseccomp2", "libsemanage2", "libsepol2",
}

// recipe changes when the base would be made otherwise from the same packages.
const recipe = "3"

// archive is one package file as apt names it.
type archive struct {
	file   string // as apt-get download names it
	digest string // SHA256:…
}

// plan asks apt for the versions. What it answers is the name of the base in the cache.
func plan() (plannedBase, error) {
	kernel, err := realKernel()
	if err != nil {
		refreshLists()
		if kernel, err = realKernel(); err != nil {
			return plannedBase{}, missing{"the Debian package " + kernelPackage + " in apt's lists (apt-get update): " + err.Error()}
		}
	}
	names := append([]string{kernel}, userland...)
	out, err := output("", "apt-get", append([]string{"download", "--print-uris"}, names...)...)
	if err != nil {
		return plannedBase{}, missing{"Debian packages for the guest: " + err.Error()}
	}
	list, err := parseURIs(out)
	if err != nil {
		return plannedBase{}, err
	}
	if len(list) != len(names) {
		return plannedBase{}, missing{fmt.Sprintf("Debian packages for the guest: apt names %d of %d", len(list), len(names))}
	}
	return plannedBase{packages: names, archives: list, key: keyOf(list)}, nil
}

var kernelDepends = regexp.MustCompile(`(?m)^Depends: (linux-image-[0-9][a-z0-9.-]*-cloud-amd64)\b`)

func realKernel() (string, error) {
	out, err := output("", "apt-cache", "show", "--no-all-versions", kernelPackage)
	if err != nil {
		return "", err
	}
	m := kernelDepends.FindStringSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("%s depends on no kernel", kernelPackage)
	}
	return m[1], nil
}

// parseURIs reads the lines of apt-get download --print-uris: 'uri' file size digest.
func parseURIs(out string) ([]archive, error) {
	var list []archive
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) != 4 || !strings.HasPrefix(f[0], "'") || !strings.HasPrefix(f[3], "SHA256:") || strings.Contains(f[1], "/") {
			return nil, fmt.Errorf("apt-get download --print-uris: expected 'uri' file size SHA256:…, got %q", line)
		}
		list = append(list, archive{file: f[1], digest: f[3]})
	}
	return list, nil
}

// keyOf depends on the packages' content and the recipe, not on the order or the mirror.
func keyOf(list []archive) string {
	lines := []string{"recipe " + recipe}
	for _, a := range list {
		lines = append(lines, a.file+" "+a.digest)
	}
	sort.Strings(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return hex.EncodeToString(sum[:8])
}

// download fetches packages into dir; apt checks them against its signed lists.
func download(dir string, packages []string) error {
	if _, err := output(dir, "apt-get", append([]string{"download", "-qq"}, packages...)...); err != nil {
		return missing{"the network, to fetch Debian packages: " + err.Error()}
	}
	return nil
}

// unpack extracts package files into a root of merged /usr, which the packages expect to find.
func unpack(root string, files []string) error {
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.MkdirAll(filepath.Join(root, "usr", name), 0o755); err != nil {
			return err
		}
		if err := os.Symlink("usr/"+name, filepath.Join(root, name)); err != nil {
			return err
		}
	}
	for _, f := range files {
		if err := extract(root, f); err != nil {
			return fmt.Errorf("unpack %s: %w", filepath.Base(f), err)
		}
	}
	return nil
}

// extract keeps links to folders, where dpkg -x would put folders in their place.
func extract(root, file string) error {
	dpkg, err := find("dpkg-deb")
	if err != nil {
		return err
	}
	tar, err := find("tar")
	if err != nil {
		return err
	}
	from, to := exec.Command(dpkg, "--fsys-tarfile", file), exec.Command(tar, "-x", "-C", root, "--keep-directory-symlink", "--no-same-owner")
	if to.Stdin, err = from.StdoutPipe(); err != nil {
		return err
	}
	var errs strings.Builder
	to.Stderr = &errs
	if err := from.Start(); err != nil {
		return err
	}
	if err := to.Run(); err != nil {
		from.Process.Kill()
		from.Wait()
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(errs.String()))
	}
	return from.Wait()
}
