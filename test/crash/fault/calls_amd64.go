package fault

import (
	"golang.org/x/sys/unix"
)

// target says what a call is done to.
type target int

const (
	onPath   target = iota // a path in the first argument
	onPath2                // a path in the second argument
	onAt                   // a folder and a path in the first two
	onAt2                  // a folder and a path in the third and fourth
	onFile                 // a descriptor
	onSocket               // a descriptor of a socket, or an address in the second argument
	onNone
)

// call is a system call that has an effect.
type call struct {
	name string
	on   target
	err  unix.Errno // what it answers when it is made to fail
}

// calls are those that change anything beside the caller itself. (With tgkill the runtime pokes its own threads.)
var calls = map[uint64]call{
	unix.SYS_OPENAT:            {"create", onAt, unix.ENOSPC},
	unix.SYS_OPEN:              {"create", onPath, unix.ENOSPC},
	unix.SYS_OPENAT2:           {"create", onAt, unix.ENOSPC},
	unix.SYS_WRITE:             {"write", onFile, unix.ENOSPC},
	unix.SYS_PWRITE64:          {"write", onFile, unix.ENOSPC},
	unix.SYS_WRITEV:            {"write", onFile, unix.ENOSPC},
	unix.SYS_PWRITEV2:          {"write", onFile, unix.ENOSPC},
	unix.SYS_SENDFILE:          {"write", onFile, unix.EIO},
	unix.SYS_COPY_FILE_RANGE:   {"copy", onNone, unix.EIO},
	unix.SYS_SPLICE:            {"splice", onNone, unix.EIO},
	unix.SYS_FSYNC:             {"fsync", onFile, unix.EIO},
	unix.SYS_FDATASYNC:         {"fsync", onFile, unix.EIO},
	unix.SYS_FTRUNCATE:         {"truncate", onFile, unix.EIO},
	unix.SYS_TRUNCATE:          {"truncate", onPath, unix.EIO},
	unix.SYS_FALLOCATE:         {"allocate", onFile, unix.ENOSPC},
	unix.SYS_RENAME:            {"rename", onPath2, unix.EIO},
	unix.SYS_RENAMEAT:          {"rename", onAt2, unix.EIO},
	unix.SYS_RENAMEAT2:         {"rename", onAt2, unix.EIO},
	unix.SYS_UNLINK:            {"remove", onPath, unix.EIO},
	unix.SYS_UNLINKAT:          {"remove", onAt, unix.EIO},
	unix.SYS_RMDIR:             {"remove", onPath, unix.EIO},
	unix.SYS_MKDIR:             {"mkdir", onPath, unix.ENOSPC},
	unix.SYS_MKDIRAT:           {"mkdir", onAt, unix.ENOSPC},
	unix.SYS_LINK:              {"link", onPath2, unix.EIO},
	unix.SYS_LINKAT:            {"link", onAt2, unix.EIO},
	unix.SYS_SYMLINK:           {"symlink", onPath2, unix.EIO},
	unix.SYS_SYMLINKAT:         {"symlink", onAt2, unix.EIO},
	unix.SYS_MKNODAT:           {"mknod", onAt, unix.EIO},
	unix.SYS_MKNOD:             {"mknod", onPath, unix.EIO},
	unix.SYS_CHMOD:             {"chmod", onPath, unix.EIO},
	unix.SYS_FCHMOD:            {"chmod", onFile, unix.EIO},
	unix.SYS_FCHMODAT:          {"chmod", onAt, unix.EIO},
	unix.SYS_FCHMODAT2:         {"chmod", onAt, unix.EIO},
	unix.SYS_CHOWN:             {"chown", onPath, unix.EIO},
	unix.SYS_LCHOWN:            {"chown", onPath, unix.EIO},
	unix.SYS_FCHOWN:            {"chown", onFile, unix.EIO},
	unix.SYS_FCHOWNAT:          {"chown", onAt, unix.EIO},
	unix.SYS_UTIMENSAT:         {"times", onAt, unix.EIO},
	unix.SYS_SETXATTR:          {"xattr", onPath, unix.EIO},
	unix.SYS_LSETXATTR:         {"xattr", onPath, unix.EIO},
	unix.SYS_FSETXATTR:         {"xattr", onFile, unix.EIO},
	unix.SYS_MOUNT:             {"mount", onPath2, unix.EIO},
	unix.SYS_UMOUNT2:           {"unmount", onPath, unix.EIO},
	unix.SYS_MOVE_MOUNT:        {"move mount", onAt2, unix.EIO},
	unix.SYS_OPEN_TREE:         {"clone mount", onAt, unix.EIO},
	unix.SYS_FSMOUNT:           {"fsmount", onNone, unix.EIO},
	unix.SYS_MOUNT_SETATTR:     {"mount attributes", onAt, unix.EIO},
	unix.SYS_PIVOT_ROOT:        {"pivot root", onPath, unix.EIO},
	unix.SYS_SETNS:             {"setns", onFile, unix.EPERM},
	unix.SYS_UNSHARE:           {"unshare", onNone, unix.EPERM},
	unix.SYS_SETHOSTNAME:       {"hostname", onNone, unix.EPERM},
	unix.SYS_CLONE:             {"start", onNone, unix.EAGAIN},
	unix.SYS_CLONE3:            {"start", onNone, unix.EAGAIN},
	unix.SYS_VFORK:             {"start", onNone, unix.EAGAIN},
	unix.SYS_FORK:              {"start", onNone, unix.EAGAIN},
	unix.SYS_KILL:              {"kill", onNone, unix.EPERM},
	unix.SYS_PIDFD_SEND_SIGNAL: {"kill", onNone, unix.EPERM},
	unix.SYS_BIND:              {"bind", onSocket, unix.EADDRINUSE},
	unix.SYS_LISTEN:            {"listen", onFile, unix.EADDRINUSE},
	unix.SYS_CONNECT:           {"connect", onSocket, unix.ECONNREFUSED},
	unix.SYS_SENDMSG:           {"send", onFile, unix.ECONNRESET},
	unix.SYS_SENDTO:            {"send", onFile, unix.ECONNRESET},
	unix.SYS_SENDMMSG:          {"send", onFile, unix.ECONNRESET},
	unix.SYS_IOCTL:             {"reflink", onFile, unix.EIO}, // FICLONE and FICLONERANGE only
}

const (
	ficlone      = 0x40049409
	ficlonerange = 0x4020940d
)

// changes reports whether this call of one that can change something does.
func changes(nr uint64, a [6]uint64) bool {
	switch nr {
	case unix.SYS_OPENAT:
		return a[2]&unix.O_CREAT != 0 || a[2]&unix.O_TMPFILE == unix.O_TMPFILE
	case unix.SYS_OPEN:
		return a[1]&unix.O_CREAT != 0
	case unix.SYS_CLONE:
		return a[0]&unix.CLONE_THREAD == 0
	case unix.SYS_OPEN_TREE:
		return a[2]&unix.OPEN_TREE_CLONE != 0
	case unix.SYS_IOCTL:
		return a[1] == ficlone || a[1] == ficlonerange
	}
	return true
}
