package guest

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// makeImage makes an ext4 image of size bytes (sparse) from a folder. Inside, all files belong to root.
// It needs no rights: another user than root sees itself as root in a user namespace of its own, and mke2fs
// takes the owner from what it sees.
func makeImage(file, from string, size int64) error {
	mke2fs, err := find("mke2fs")
	if err != nil {
		return missing{"mke2fs (Debian: apt-get install e2fsprogs)"}
	}
	cmd := exec.Command(mke2fs, "-q", "-F", "-t", "ext4", "-m", "0", "-L", "guest", "-O", "^has_journal", "-E", "lazy_itable_init=1,root_owner=0:0", "-d", from, file, fmt.Sprintf("%dk", size>>10))
	if uid := os.Geteuid(); uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
		}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mke2fs of %s: %w: %s", from, err, strings.TrimSpace(string(out)))
	}
	return nil
}
