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
	fd, err := unix.Openat(int(k.folder.Fd()), FolderData, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return limit + 1 // what cannot be counted is not free
	}
	var used int64
	walkUsage(os.NewFile(uintptr(fd), FolderData), 0, limit, &used)
	for _, f := range k.kept {
		fd, err := unix.Openat(int(f.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return limit + 1
		}
		walkUsage(os.NewFile(uintptr(fd), f.Name()), 0, limit, &used)
	}
	if used <= limit {
		used += k.unlinkedUsed()
	}
	return used
}

// openKept opens the folders of cache layers that outlive the sandbox: what is written there counts as well.
func (k *keeper) openKept() error {
	for _, s := range k.setup.Kept {
		at, path := unix.AT_FDCWD, s.Path
		if s.Number > 0 {
			at, path = int(k.sources[s.Number-1].Fd()), "."
		}
		fd, err := unix.Openat(at, path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open %s: %w", s.Path, err)
		}
		k.kept = append(k.kept, os.NewFile(uintptr(fd), s.Path))
	}
	return nil
}

// maxUsageDepth bounds the descriptors a deep tree can make us hold. Nothing real is so deep (the result of a
// workspace may have 128 levels); what hides below counts as more than any limit.
const maxUsageDepth = 1000

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
			if st.Mode&unix.S_IFMT != unix.S_IFDIR {
				continue
			}
			if depth >= maxUsageDepth {
				*used = limit + 1
				return
			}
			fd, err := unix.Openat(int(d.Fd()), n, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
			switch err {
			case nil:
				walkUsage(os.NewFile(uintptr(fd), n), depth+1, limit, used)
			case unix.ENOENT, unix.ENOTDIR, unix.ELOOP: // it was removed or replaced meanwhile
			default:
				*used = limit + 1 // out of descriptors, say: what cannot be counted is not free
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// unlinkedUsed is the disk taken by files that have no name any more but are open in the sandbox. Memory-backed
// files are the memory limit's.
func (k *keeper) unlinkedUsed() int64 {
	type file struct{ dev, ino uint64 }
	seen := map[file]bool{}
	var used int64
	for _, pid := range k.processes() {
		// Each thread: it may have descriptors of its own, and the first one may have ended before the others.
		threads, err := os.ReadDir("/proc/" + pid + "/task")
		if err != nil {
			continue // it ended
		}
		for _, t := range threads {
			dir := "/proc/" + pid + "/task/" + t.Name() + "/fd/"
			fds, err := os.ReadDir(dir)
			if err != nil {
				continue
			}
			for _, fd := range fds {
				var st unix.Stat_t
				if unix.Stat(dir+fd.Name(), &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink > 0 || seen[file{st.Dev, st.Ino}] {
					continue
				}
				seen[file{st.Dev, st.Ino}] = true
				var fs unix.Statfs_t
				if unix.Statfs(dir+fd.Name(), &fs) == nil && fs.Type != unix.TMPFS_MAGIC && fs.Type != unix.HUGETLBFS_MAGIC {
					used += st.Blocks * 512
				}
			}
		}
	}
	return used
}

// space is a file system's size and what ordinary users can still take of it, in bytes.
type space struct{ size, free int64 }

// space is that of the file system which the sandbox writes to; the zero value: unknown.
func (k *keeper) space() space {
	var fs unix.Statfs_t
	if unix.Fstatfs(int(k.folder.Fd()), &fs) != nil {
		return space{}
	}
	return space{size: int64(fs.Blocks) * fs.Bsize, free: int64(fs.Bavail) * fs.Bsize}
}

// steadyWithin is how much less a disk may have free for its use not to be counted anew.
const steadyWithin = 1 << 20

// steady reports whether nobody can have written much since then: what is written is free no more at once, whether it has a name
// or not. It spares an idle sandbox the count, of which a thousand take more than a processor.
func steady(then, now space) bool {
	return then.size > 0 && then.size == now.size && then.free-now.free < steadyWithin
}

// crowds reports whether a file system became nearly full since before, by more than limit. Some files no count
// can find: mapped or sent over a socket, with neither a name nor a descriptor. Others write there too, so this
// speaks only where the alternative is a machine without space.
func crowds(before, now space, limit int64) bool {
	reserve := min(now.size/20, 2<<30)
	return now.free < reserve && before.free-now.free > limit
}

// memoryUsed is the resident memory of every process in the sandbox, for hosts where no cgroup holds it.
func (k *keeper) memoryUsed() int64 {
	var total int64
	for _, pid := range k.processes() {
		b, err := os.ReadFile("/proc/" + pid + "/statm")
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

// processes are the host's pids of all that the command has started. Its cgroup knows them; where there is none, each process
// of the machine is asked for its pid namespace, and our PID 1 is among them.
func (k *keeper) processes() (pids []string) {
	k.mu.Lock()
	s := k.sandbox
	k.mu.Unlock()
	if s == nil {
		return nil
	}
	if held, ok := k.cgroup.Processes(); ok {
		for _, pid := range held {
			pids = append(pids, strconv.Itoa(pid))
		}
		return pids
	}
	want, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", s.cmd.Process.Pid))
	if err != nil {
		return nil
	}
	procs, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, p := range procs {
		if _, err := strconv.Atoi(p.Name()); err != nil {
			continue
		}
		if ns, err := os.Readlink("/proc/" + p.Name() + "/ns/pid"); err == nil && ns == want {
			pids = append(pids, p.Name())
		}
	}
	return pids
}
