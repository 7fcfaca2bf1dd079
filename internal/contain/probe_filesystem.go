package contain

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

// readOnlyFolders must not take a new file.
var readOnlyFolders = []string{"/", "/usr", "/usr/bin", "/etc", "/dev", "/proc", "/sys"}

// hostControls are files through which a writer reaches the host's kernel.
var hostControls = []string{
	"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/vm/drop_caches",
	"/proc/sysrq-trigger", "/sys/kernel/uevent_helper", "/sys/fs/cgroup/cgroup.procs", "/dev/mem", "/dev/kmsg",
}

func probeFilesystem(t Targets) sallyport.LayerReport {
	p := &trials{layer: sallyport.LayerFilesystem, fix: "the provider must give the sandbox a root of its own, read-only but for the listed folders, and confine the thread"}
	for _, dir := range readOnlyFolders {
		err := createIn(dir)
		p.want("write "+dir, err, unix.EACCES, unix.EROFS, unix.EPERM, unix.ENOENT)
	}
	for _, path := range hostControls {
		err := openForWriting(path)
		if err == errMasked {
			p.add("open "+path, "masked by /dev/null", true)
			continue
		}
		p.want("open "+path, err, unix.EACCES, unix.EROFS, unix.EPERM, unix.ENOENT)
	}
	p.blockDevices()
	p.landlock()
	p.absent(t)
	p.writable(t)
	return p.report()
}

// createIn makes and removes a file of an unlikely name.
func createIn(dir string) error {
	name := filepath.Join(dir, ".sallyport-probe-"+strconv.Itoa(unix.Gettid()))
	fd, err := unix.Open(name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, []byte("probe\n")); err != nil {
		unix.Unlink(name)
		return err
	}
	return unix.Unlink(name)
}

// errMasked: what opened is the null device, bound over the file that was meant. What is written to it reaches
// nobody.
var errMasked = errors.New("masked by the null device")

// openForWriting writes nothing: the open is the answer.
func openForWriting(path string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == unix.Mkdev(1, 3) {
		return errMasked
	}
	return nil
}

// blockDevices looks for disks by type, whatever their names are.
func (p *trials) blockDevices() {
	entries, err := os.ReadDir("/dev")
	if err != nil && !os.IsNotExist(err) {
		p.add("list /dev", errName(bare(err)), false)
		return
	}
	var found []string
	for _, e := range entries {
		if m := e.Type(); m&os.ModeDevice != 0 && m&os.ModeCharDevice == 0 {
			found = append(found, e.Name())
		}
	}
	if len(found) > 0 {
		p.add("block devices", strings.Join(found, " "), false)
		return
	}
	p.add("block devices", "none", true)
}

// landlock: procfs lets every thread write its own name whatever the file's mode and owner, so only Landlock
// can refuse this open, and no other layer can be mistaken for it.
func (p *trials) landlock() {
	const name = "write own thread's name (Landlock)"
	err := openForWriting("/proc/thread-self/comm")
	switch {
	case err == unix.EACCES:
		p.add(name, errName(err), true)
	case err == unix.EROFS: // a read-only /proc answers first
		p.add(name, "EROFS", true)
		p.weak("Landlock was not seen to act: /proc is read-only")
	case landlockABI() == 0:
		p.add(name, "no Landlock in this kernel", true)
		p.weak("this kernel has no Landlock: mounts and file modes are the only file system layer")
	default:
		p.add(name, errName(err), false)
	}
}

func (p *trials) absent(t Targets) {
	if len(t.Absent) == 0 {
		p.add("host paths", "none was named, so none was looked for", false)
	}
	for _, path := range t.Absent {
		var st unix.Stat_t
		// Refused is not absent.
		p.want("find "+path, unix.Lstat(path, &st), unix.ENOENT, unix.ENOTDIR)
	}
}

func (p *trials) writable(t Targets) {
	if len(t.Writable) == 0 {
		p.add("writable folders", "none was named, so none was tried", false)
	}
	for _, dir := range t.Writable {
		err := createIn(dir)
		p.add("work in "+dir, errName(err), err == nil)
	}
}
