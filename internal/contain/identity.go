package contain

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// changeIDs uses the raw calls: the ones of package syscall change every thread of the process.
func (p *Prepared) changeIDs() error {
	uid, gid := uintptr(p.want.UID), uintptr(p.want.GID)
	if p.want.ChangeIDs {
		const hint = "the user namespace must map this id and the thread must hold CAP_SETUID and CAP_SETGID in it"
		if _, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); e != 0 {
			return step("groups", "expected to drop all supplementary groups", hint, e)
		}
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESGID, gid, gid, gid); e != 0 {
			return step("gid", fmt.Sprintf("expected to become group %d", gid), hint, e)
		}
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid); e != 0 {
			return step("uid", fmt.Sprintf("expected to become user %d", uid), hint, e)
		}
	}
	return p.checkIDs()
}

// checkIDs looks at the result instead of trusting the calls.
func (p *Prepared) checkIDs() error {
	var id [3]uint32
	for _, k := range []struct {
		name string
		call uintptr
		want int
	}{{"uid", unix.SYS_GETRESUID, p.want.UID}, {"gid", unix.SYS_GETRESGID, p.want.GID}} {
		_, _, e := unix.RawSyscall(k.call, uintptr(unsafe.Pointer(&id[0])), uintptr(unsafe.Pointer(&id[1])), uintptr(unsafe.Pointer(&id[2])))
		if e != 0 || id != [3]uint32{uint32(k.want), uint32(k.want), uint32(k.want)} {
			return step(k.name, fmt.Sprintf("expected real, effective and saved id %d, got %v", k.want, id), "", raw(e))
		}
	}
	return nil
}

// dropBoundingSet empties what an exec could ever give, and the ambient set. Without CAP_SETPCAP that is only
// possible where it is empty already.
func dropBoundingSet() error {
	unix.RawSyscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0, 0)
	for c := uintptr(0); ; c++ {
		_, _, e := unix.RawSyscall6(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0, 0, 0, 0)
		if e == 0 {
			continue
		}
		held, _, end := unix.RawSyscall6(unix.SYS_PRCTL, unix.PR_CAPBSET_READ, c, 0, 0, 0, 0)
		if end == unix.EINVAL { // the kernel knows no such capability: that was the last
			return nil
		}
		if held != 0 {
			return step("bounding set", fmt.Sprintf("expected to drop capability %d", c), "the thread needs CAP_SETPCAP in its user namespace", e)
		}
	}
}

// dropCapabilities empties the effective, permitted and inheritable sets.
func dropCapabilities() error {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	_, _, e := unix.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&none[0])), 0)
	if e != 0 {
		return step("capabilities", "expected to give up every capability", "", e)
	}
	return nil
}

func noNewPrivileges() error {
	if _, _, e := unix.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); e != 0 {
		return step("no_new_privs", "expected the kernel to set it", "", e)
	}
	return nil
}

// leaveKeyring exchanges the user's session keyring, which no namespace hides, for an empty one. A failure
// (no keyrings in this kernel, quota met) is not fatal: the filter refuses every call that could use a key.
func leaveKeyring() error {
	unix.RawSyscall(unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0)
	return nil
}
