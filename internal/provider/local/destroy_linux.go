package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/process"
	"sallyport.dev/sallyport/internal/provider/local/keeper"
	"sallyport.dev/sallyport/internal/runner"
)

// destroyPatience bounds how long one Destroy waits for killed processes to be gone; a process in an
// uninterruptible wait can take longer, and the call is then repeated.
const destroyPatience = 10 * time.Second

// Destroy implements provider.Provider: processes first, by pid, start time and boot; then the cgroup, the
// folder and the ids.
func (p *Provider) Destroy(ctx context.Context, id sallyport.ResourceID) error {
	a, err := p.allocation("destroy", id)
	if err != nil {
		return err
	}
	dir := p.folder(a)
	lock, err := lockFolder(ctx, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	defer lock.Close() // of none: nothing
	return p.remove(ctx, dir, a)
}

// remove is Destroy under the folder's lock.
func (p *Provider) remove(ctx context.Context, dir string, a sallyport.AllocationID) error {
	if err := endProcesses(ctx, dir, a); err != nil {
		return err
	}
	if err := p.dropGroup(ctx, a); err != nil {
		return err
	}
	if err := p.ids.release(a); err != nil {
		return stateError("destroy", dir, err)
	}
	// The folder goes last: until then List finds what is left, and after it what made a trial of it.
	if err := removeFolder(dir); err != nil {
		return err
	}
	return removeFolder(p.trialFolder(a))
}

// endProcesses kills the keeper, the sandboxes it made and whatever else bears the allocation's id in its arguments, and waits
// until none is left.
func endProcesses(ctx context.Context, dir string, a sallyport.AllocationID) error {
	deadline := time.Now().Add(destroyPatience)
	for {
		left := running(dir, a)
		if len(left) == 0 {
			return nil
		}
		for _, s := range left {
			if err := s.Kill(); err != nil {
				return &sallyport.Error{Op: "destroy", Code: sallyport.CodeUnavailable, Subject: string(a), Err: err}
			}
		}
		if ctx.Err() != nil {
			return &sallyport.Error{Op: "destroy", Code: sallyport.CodeUnknown, Subject: string(a), Message: "the caller stopped waiting; call again", Err: ctx.Err()}
		}
		if time.Now().After(deadline) {
			return &sallyport.Error{Op: "destroy", Code: sallyport.CodeUnavailable, Subject: string(a), Message: "killed processes are not gone yet; call again"}
		}
		// All processes of the machine are looked through again only when these are on their way out.
		time.Sleep(2 * time.Millisecond)
		for slices.ContainsFunc(left, stays) && ctx.Err() == nil && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond)
		}
	}
}

func stays(id process.ID) bool { return !id.Ending() }

// running are the processes of an Allocation that are not dead yet: those that bear its id, and of those that its keeper
// recorded the ones on their way out, which bear it no longer. A sandbox's PID 1 stands for all of its namespace. What is
// recorded and lives without the id is none of ours: a keeper's word ends nobody.
func running(dir string, a sallyport.AllocationID) []process.ID {
	left := strays(a)
	self, err := readSelf(dir)
	if err != nil {
		return left
	}
	if self.Ending() && self.Alive() {
		left = append(left, self.ID)
	}
	for _, first := range self.Sandboxes {
		if first.Ending() && first.NamespaceRuns() {
			left = append(left, first)
		}
	}
	return left
}

// strays are the processes whose arguments mark them as this allocation's keeper or PID 1. An agent cannot
// pass for one: its processes are in another pid namespace and carry the ids of the sandbox, and a look-alike
// would only get itself killed.
func strays(a sallyport.AllocationID) []process.ID {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var found []process.ID
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if err != nil {
			continue
		}
		args := bytes.Split(b, []byte{0})
		if len(args) < 3 || string(args[1]) != string(a) || (string(args[0]) != keeperName && string(args[0]) != runner.Name) {
			continue
		}
		if id, err := process.Of(pid); err == nil && ours(pid) {
			found = append(found, id)
		}
	}
	return found
}

// ours: a process of another user is not ours, whatever it says of itself; waiting for its end would be for
// that user to decide. Root's own processes have the ids of their sandboxes, and none can withstand it.
func ours(pid int) bool {
	if os.Geteuid() == 0 {
		return true
	}
	// Not the owner of the folder: that is root where a process is not dumpable.
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err == nil && bytes.Contains(b, fmt.Appendf(nil, "\nUid:\t%d\t", os.Geteuid()))
}

// removeData removes what a keeper that never started its command left, so that it can be made anew.
func removeData(dir string) error {
	for _, n := range []string{keeper.FileSelf, keeper.FileLayers, keeper.FileOutput, keeper.FileExit} {
		if err := os.Remove(filepath.Join(dir, n)); err != nil && !os.IsNotExist(err) {
			return stateError("create", dir, err)
		}
	}
	return removeFolder(filepath.Join(dir, keeper.FolderData))
}

// removeFolder removes a tree that hostile code wrote: links are never followed, folders without permissions
// are opened up (overlay's own work folder has mode 0), and no depth is too great.
func removeFolder(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	// It needs rights on every folder, and an open descriptor for each level.
	if d, err := openFolder(unix.AT_FDCWD, dir); err == nil {
		raze(d)
		d.Close()
	}
	return removed(dir, os.RemoveAll(dir))
}

func removed(dir string, err error) error {
	if err != nil {
		return &sallyport.Error{Op: "destroy", Code: sallyport.CodeUnavailable, Subject: dir, Message: "not everything could be removed; call again", Err: err}
	}
	return nil
}

// openFolder opens a folder of a hostile tree by one name, giving us the rights on it first.
func openFolder(parent int, name string) (*os.File, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(parent, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil, unix.ENOTDIR
	}
	// A folder cannot become a link between the calls: every process that could do it is dead.
	if st.Mode&0o700 != 0o700 {
		_ = unix.Fchmodat(parent, name, 0o700, 0)
	}
	fd, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// raze empties top with two descriptors, however deep it is: what a folder in it holds is moved up into top,
// until all are empty. It ends when a round removes nothing.
func raze(top *os.File) {
	moved := 0
	for progress := true; progress; {
		progress = false
		if _, err := top.Seek(0, io.SeekStart); err != nil {
			return
		}
		for {
			names, err := top.Readdirnames(1024)
			for _, n := range names {
				if razeOne(int(top.Fd()), n, &moved) {
					progress = true
				}
			}
			if err != nil {
				break
			}
		}
	}
}

// razeOne removes one entry of top, or moves up what it holds; false: nothing could be done.
func razeOne(top int, name string, moved *int) bool {
	if unix.Unlinkat(top, name, 0) == nil {
		return true
	}
	d, err := openFolder(top, name)
	if err != nil {
		return false
	}
	defer d.Close()
	progress := false
	for {
		names, err := d.Readdirnames(1024)
		for _, n := range names {
			if unix.Unlinkat(int(d.Fd()), n, 0) == nil || moveUp(int(d.Fd()), n, top, moved) {
				progress = true
			}
		}
		if err != nil {
			break
		}
	}
	return unix.Unlinkat(top, name, unix.AT_REMOVEDIR) == nil || progress
}

// moveUp gives a folder a new name in top.
func moveUp(from int, name string, top int, moved *int) bool {
	// Moving a folder writes to it: its ".." changes.
	if f, err := openFolder(from, name); err == nil {
		f.Close()
	}
	for range 1000 { // a hostile tree may have such names
		*moved++
		err := unix.Renameat2(from, name, top, fmt.Sprintf(".sallyport-%d", *moved), unix.RENAME_NOREPLACE)
		if err != unix.EEXIST {
			return err == nil
		}
	}
	return false
}
