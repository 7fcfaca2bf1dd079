package keeper

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// FolderData is where all that a sandbox writes to disk lies, below the allocation's folder.
const FolderData = "data"

// diskUsed is the bytes of disk below the data folder, counted until they exceed limit. Names and depth are
// hostile: it walks by descriptor, follows nothing and stays on the file system.
func (k *keeper) diskUsed(limit int64) int64 {
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d/%s", FDFolder, FolderData), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	var used int64
	walkUsage(os.NewFile(uintptr(fd), FolderData), 0, limit, &used)
	return used
}

// maxUsageDepth bounds the descriptors a deep tree can make us hold; what lies deeper is not counted, and is
// refused when the result is collected.
const maxUsageDepth = 256

func walkUsage(d *os.File, depth int, limit int64, used *int64) {
	defer d.Close()
	for *used <= limit {
		names, err := d.Readdirnames(1024)
		for _, n := range names {
			var st unix.Stat_t
			if unix.Fstatat(int(d.Fd()), n, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
				continue
			}
			*used += st.Blocks * 512
			if st.Mode&unix.S_IFMT != unix.S_IFDIR || depth >= maxUsageDepth {
				continue
			}
			fd, err := unix.Openat(int(d.Fd()), n, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
			if err == nil {
				walkUsage(os.NewFile(uintptr(fd), n), depth+1, limit, used)
			}
		}
		if err != nil {
			return
		}
	}
}

// memoryUsed is the resident memory of every process in the sandbox's pid namespace, for hosts where no
// cgroup holds it.
func (k *keeper) memoryUsed() int64 {
	k.mu.Lock()
	s := k.sandbox
	k.mu.Unlock()
	if s == nil {
		return 0
	}
	want, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	procs, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	var total int64
	for _, p := range procs {
		if _, err := strconv.Atoi(p.Name()); err != nil {
			continue
		}
		if ns, err := os.Readlink("/proc/" + p.Name() + "/ns/pid"); err != nil || ns != want {
			continue
		}
		b, err := os.ReadFile("/proc/" + p.Name() + "/statm")
		if err != nil {
			continue
		}
		if f := strings.Fields(string(b)); len(f) > 1 {
			pages, _ := strconv.ParseInt(f[1], 10, 64)
			total += pages * int64(os.Getpagesize())
		}
	}
	return total
}
