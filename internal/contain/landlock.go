package contain

import (
	"errors"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rulesetAttr is struct landlock_ruleset_attr as of ABI 6; older kernels take its first fields.
type rulesetAttr struct {
	handledFS  uint64
	handledNet uint64
	scoped     uint64
}

// pathBeneath is struct landlock_path_beneath_attr, 12 bytes packed.
type pathBeneath struct {
	allowed uint64
	parent  int32
}

const (
	readAndRun = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR

	// ofFiles are the rights that a rule on something other than a directory may hold.
	ofFiles = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV

	// notBelow are handled, and granted nowhere: device nodes, and ioctl on a device below a writable path.
	notBelow = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV

	ofDevices = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE |
		unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// devices may be read and written in every sandbox that has them.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts"}

// landlockABI is 0 where the kernel has no Landlock or has it switched off.
func landlockABI() int {
	v, _, e := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if e != 0 {
		return 0
	}
	return int(v)
}

// handled is every file right that a kernel of this ABI knows: what is not handled would be allowed.
func handled(abi int) uint64 {
	rights := uint64(unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1) // ABI 1
	for _, r := range []struct {
		since int
		right uint64
	}{
		{2, unix.LANDLOCK_ACCESS_FS_REFER},
		{3, unix.LANDLOCK_ACCESS_FS_TRUNCATE},
		{5, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV},
		{9, unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX},
	} {
		if abi >= r.since {
			rights |= r.right
		}
	}
	return rights
}

// attrFor asks for all file rights, and for signals and abstract sockets to end at this domain. TCP and UDP
// rights are left alone: the empty network namespace is that layer, loopback inside it is the agent's own, and
// MPTCP walks around the TCP rules (landlock-lsm/linux#54).
func attrFor(abi int) (attr rulesetAttr, size uintptr) {
	attr.handledFS = handled(abi)
	switch {
	case abi >= 6:
		attr.scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
		return attr, 24
	case abi >= 4:
		return attr, 16
	default:
		return attr, 8
	}
}

// landlock opens its paths here, on the confined thread, because that thread's root is the sandbox's.
func (p *Prepared) landlock() error {
	if p.abi == 0 {
		return nil
	}
	attr, size := attrFor(p.abi)
	fd, _, e := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if e != 0 {
		return step("landlock", "expected the kernel to make a ruleset", "", e)
	}
	defer unix.Close(int(fd))
	if err := p.landlockRules(fd, attr.handledFS); err != nil {
		return err
	}
	if _, _, e := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); e != 0 {
		return step("landlock", "expected the kernel to restrict this thread", "", e)
	}
	return nil
}

func (p *Prepared) landlockRules(ruleset uintptr, handled uint64) error {
	if err := addRule(ruleset, "/", readAndRun); err != nil {
		return err
	}
	for _, path := range p.want.Writable {
		if err := addRule(ruleset, path, handled&^notBelow); err != nil {
			return err
		}
	}
	for _, path := range devices {
		if err := addRule(ruleset, path, handled&ofDevices); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return nil
}

// addRule grants rights at path and beneath. A symbolic link is refused: the tree may have been written by an
// earlier command, which would then choose what the rule covers.
func addRule(ruleset uintptr, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return step("landlock: "+path, "expected a path that exists inside the sandbox", "", err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return step("landlock: "+path, "expected to look at it", "", err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
	case unix.S_IFLNK:
		if strings.HasPrefix(path, "/dev/") { // ptmx -> pts/ptmx, covered by the rule on /dev/pts
			return nil
		}
		return step("landlock: "+path, "expected a directory or file, not a symbolic link", "name its target", unix.ELOOP)
	default:
		rights &= ofFiles
	}
	rule := pathBeneath{allowed: rights, parent: int32(fd)}
	_, _, e := unix.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, ruleset, unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if e != 0 {
		return step("landlock: "+path, "expected the kernel to take the rule", "", e)
	}
	return nil
}
