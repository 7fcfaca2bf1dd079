package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Base is what all guests share and none changes.
type Base struct {
	Release string // of the kernel, as uname -r says
	kernel  string // its image
	modules string // folder of the modules that init loads, named in their order
	root    string // ext4 image of the system
}

// plannedBase is a base that may not have been made yet.
type plannedBase struct {
	packages []string
	archives []archive
	key      string
}

// base finds the base in the cache, or makes it there: in a folder of its own first, renamed when complete,
// so that what bears the name is whole. Of two that make it at once, the second uses the first's.
func (p plannedBase) base() (Base, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return Base{}, missing{"a cache folder: " + err.Error()}
	}
	parent := filepath.Join(cache, "sallyport-test", "guest")
	done := filepath.Join(parent, p.key)
	if b, err := openBase(done); err == nil {
		return b, nil
	}
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return Base{}, err
	}
	work, err := os.MkdirTemp(parent, "making-")
	if err != nil {
		return Base{}, err
	}
	defer os.RemoveAll(work)
	finished := filepath.Join(work, "base")
	if err := p.make(filepath.Join(work, "parts"), finished); err != nil {
		return Base{}, err
	}
	if err := os.Rename(finished, done); err != nil {
		if b, again := openBase(done); again == nil {
			return b, nil
		}
		return Base{}, err
	}
	return openBase(done)
}

// openBase reads a finished base.
func openBase(dir string) (Base, error) {
	release, err := os.ReadFile(filepath.Join(dir, "release"))
	if err != nil {
		return Base{}, err
	}
	b := Base{Release: strings.TrimSpace(string(release)), kernel: filepath.Join(dir, "vmlinuz"), modules: filepath.Join(dir, "modules"), root: filepath.Join(dir, "root.img")}
	for _, f := range []string{b.kernel, b.modules, b.root} {
		if _, err := os.Stat(f); err != nil {
			return Base{}, err
		}
	}
	return b, nil
}

// make fetches and unpacks into parts, and leaves the result in dir.
func (p plannedBase) make(parts, dir string) error {
	packages, kernel, root := filepath.Join(parts, "packages"), filepath.Join(parts, "kernel"), filepath.Join(parts, "root")
	for _, d := range []string{packages, kernel, root, dir} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	if err := download(packages, p.packages); err != nil {
		return err
	}
	var kernelFile string
	var files []string
	for _, a := range p.archives {
		f := filepath.Join(packages, a.file)
		if strings.HasPrefix(a.file, "linux-image-") {
			kernelFile = f
		} else {
			files = append(files, f)
		}
	}
	if _, err := output("", "dpkg", "-x", kernelFile, kernel); err != nil {
		return err
	}
	release, err := installKernel(kernel, dir)
	if err != nil {
		return err
	}
	if err := unpack(root, files); err != nil {
		return err
	}
	if err := furnish(root); err != nil {
		return err
	}
	if err := makeImage(filepath.Join(dir, "root.img"), root, 1<<30); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "release"), []byte(release+"\n"), 0o644)
}

// The ordinary user of the guest: no other group, no subordinate ids, no sudo. Its home is there but belongs
// to root, like all that is in an image, until somebody gives it away.
const (
	User = "dev"
	UID  = 1001
	Home = "/home/" + User
)

// furnish adds what maintainer scripts would have made, and takes away what only people read.
func furnish(root string) error {
	for _, d := range []string{"usr/share/doc", "usr/share/man", "usr/share/info", "usr/share/locale", "usr/share/bash-completion"} {
		if err := os.RemoveAll(filepath.Join(root, d)); err != nil {
			return err
		}
	}
	// Not a folder of any package, or one whose mode depends on who unpacked.
	for _, d := range []struct {
		name string
		mode os.FileMode
	}{
		{"dev", 0o755}, {"proc", 0o555}, {"sys", 0o555}, {"run", 0o755}, {"root", 0o700}, {"usr/local", 0o755}, {"home/dev", 0o755},
		{"tmp", os.ModeSticky | 0o777}, {"var/tmp", os.ModeSticky | 0o777},
	} {
		at := filepath.Join(root, d.name)
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
		if err := os.Chmod(at, d.mode); err != nil {
			return err
		}
	}
	for name, content := range map[string]string{
		"etc/passwd": "root:x:0:0:root:/root:/bin/bash\n" + "messagebus:x:100:100::/nonexistent:/usr/sbin/nologin\n" + "dev:x:1001:1001:Developer:/home/dev:/bin/bash\n" + "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
		"etc/shadow": "root:*:1::::::\ndev:*:1::::::\n",
		"etc/group":  "root:x:0:\nadm:x:4:\ntty:x:5:\nutmp:x:43:\nmessagebus:x:100:\ndev:x:1001:\nnogroup:x:65534:\n",
		// As pam-auth-update writes them, but that the only user needs no password: root lets it in.
		"etc/pam.d/common-auth":                   "auth sufficient pam_rootok.so\nauth requisite pam_deny.so\n",
		"etc/pam.d/common-account":                "account required pam_permit.so\n",
		"etc/pam.d/common-session":                "session required pam_unix.so\nsession optional pam_systemd.so\n",
		"etc/pam.d/common-session-noninteractive": "session required pam_unix.so\n",
		"etc/pam.d/common-password":               "password requisite pam_deny.so\n",
		"etc/hosts":                               "127.0.0.1 localhost guest\n",
		"etc/hostname":                            "guest\n",
		"etc/machine-id":                          "00000000000000000000000000000001\n",
		"etc/resolv.conf":                         "nameserver 127.0.0.1\n",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o644); err != nil {
			return fmt.Errorf("furnish: %w", err)
		}
	}
	// Setuid in its package; whoever unpacks without being root loses that.
	for _, name := range []string{"usr/bin/newuidmap", "usr/bin/newgidmap"} {
		if err := os.Chmod(filepath.Join(root, name), os.ModeSetuid|0o755); err != nil {
			return err
		}
	}
	// dash's and gawk's alternatives are links that scripts make.
	for link, to := range map[string]string{"usr/bin/sh": "dash", "usr/bin/awk": "mawk"} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil && !os.IsExist(err) {
			return err
		}
	}
	return nil
}
