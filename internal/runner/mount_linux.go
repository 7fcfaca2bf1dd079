package runner

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport/internal/provider"
)

// workshop is where the new root is built, in a mount namespace of our own. Every Linux host has /sys, no
// source of a plan lies below it, and the sandbox itself shows none.
const workshop = "/sys"

const (
	// staging becomes "/".
	staging = workshop + "/root"
	// layersDir holds overlay sources under short names while they are assembled, so that no path of the host
	// has to survive the comma and colon syntax of overlay's options. It goes with the host's root.
	layersDir = workshop + "/layers"
)

// root builds the new file system. Preconditions: a mount namespace of our own, CAP_SYS_ADMIN in its user
// namespace, umask 0.
type root struct {
	r       *os.Root
	plan    *Plan
	sources []*os.File
	stage   int          // overlay sources staged so far
	used    map[int]bool // sources attached, by number
	ready   *Ready
}

// newRoot makes what every root has, whatever the plan: /dev, /proc, the stubs, and the folders that no host has as a link.
func newRoot() (*root, error) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("workshop", workshop, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=64k"); err != nil {
		return nil, fmt.Errorf("mount workshop: %w", err)
	}
	for _, d := range []string{staging, layersDir} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return nil, err
		}
	}
	if err := unix.Mount("sallyport", staging, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=64m"); err != nil {
		return nil, fmt.Errorf("mount new root: %w", err)
	}
	dir, err := os.OpenRoot(staging)
	if err != nil {
		return nil, err
	}
	b := &root{r: dir, plan: &Plan{}, used: map[int]bool{}}
	for _, step := range []func() error{b.devices, b.proc, b.own} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// build makes the rest of the plan's root and pivots into it. Afterwards "/" is the sandbox and nothing of the
// host is reachable but what the plan names. It uses b up.
func (b *root) build(p *Plan, sources []*os.File, ready *Ready) error {
	defer b.r.Close()
	b.plan, b.sources, b.ready = p, sources, ready
	for _, step := range []func() error{b.skeleton, b.sharedMemory, b.mounts, b.hide, b.seal} {
		if err := step(); err != nil {
			return err
		}
	}
	return pivot()
}

func (b *root) skeleton() error {
	for _, l := range b.plan.Links {
		if depth(l.Path) == 1 { // before the folders: /home may be a link
			if err := b.link(l); err != nil {
				return err
			}
		}
	}
	for _, d := range b.plan.Folders {
		if err := b.mkdir(d, 0o755); err != nil {
			return err
		}
	}
	for _, f := range b.plan.Files {
		if err := b.mkdir(filepath.Dir(f.Name), 0o755); err != nil {
			return err
		}
		if err := b.r.WriteFile(rel(f.Name), f.Data, 0o644); err != nil {
			return fmt.Errorf("write %s: %w", f.Name, err)
		}
	}
	return nil
}

// own makes what is the sandbox's own, and no host's.
func (b *root) own() error {
	for _, d := range []string{"/tmp", "/run", "/var/tmp", "/etc", provider.FilesFolder, provider.StubFolder} {
		if err := b.mkdir(d, 0o755); err != nil {
			return err
		}
	}
	links := []Link{{Path: "/var/run", Target: "../run"}, {Path: "/etc/mtab", Target: "/proc/self/mounts"}}
	for _, n := range Stubs() {
		links = append(links, Link{Path: provider.StubFolder + "/" + n, Target: Inside})
	}
	for _, l := range links {
		if err := b.link(l); err != nil {
			return err
		}
	}
	return nil
}

// safeDevices is all of /dev that a build needs.
var safeDevices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

func (b *root) devices() error {
	if err := b.r.Mkdir("dev", 0o755); err != nil {
		return err
	}
	if err := unix.Mount("dev", staging+"/dev", "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=0755,size=64k"); err != nil {
		return fmt.Errorf("mount /dev: %w", err)
	}
	for _, d := range []string{"dev/pts", "dev/shm"} {
		if err := b.r.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	// A devpts of its own; no gid option, since the tty group is not mapped here.
	if err := unix.Mount("devpts", staging+"/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620"); err != nil {
		return fmt.Errorf("mount /dev/pts: %w", err)
	}
	for path, target := range map[string]string{"dev/ptmx": "pts/ptmx", "dev/fd": "/proc/self/fd", "dev/stdin": "/proc/self/fd/0", "dev/stdout": "/proc/self/fd/1", "dev/stderr": "/proc/self/fd/2"} {
		if err := b.r.Symlink(target, path); err != nil {
			return err
		}
	}
	for _, d := range safeDevices {
		if err := b.attach(Source{Path: d}, d, true, unix.MOUNT_ATTR_NOSUID); err != nil {
			return fmt.Errorf("bind %s: %w", d, err)
		}
	}
	return nil
}

func (b *root) sharedMemory() error {
	if err := unix.Mount("shm", staging+"/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("mode=1777,size=%d", b.plan.ShmBytes)); err != nil {
		return fmt.Errorf("mount /dev/shm: %w", err)
	}
	return nil
}

// maskedProc is what /proc shows of the whole machine and no build needs.
var maskedProc = []string{"sysrq-trigger", "kcore", "keys", "key-users", "timer_list", "sched_debug", "kmsg", "kallsyms", "config.gz"}

func (b *root) proc() error {
	if err := b.r.Mkdir("proc", 0o755); err != nil {
		return err
	}
	if err := unix.Mount("proc", staging+"/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc (is the host's /proc partly covered?): %w", err)
	}
	for _, d := range []string{"sys", "irq", "bus", "fs", "acpi", "scsi"} {
		p := staging + "/proc/" + d
		if _, err := os.Lstat(p); err != nil {
			continue
		}
		if err := unix.Mount(p, p, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("bind /proc/%s: %w", d, err)
		}
		if err := unix.MountSetattr(unix.AT_FDCWD, p, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC}); err != nil {
			return fmt.Errorf("make /proc/%s read-only: %w", d, err)
		}
	}
	for _, f := range maskedProc {
		p := staging + "/proc/" + f
		if _, err := os.Lstat(p); err != nil {
			continue
		}
		if err := unix.Mount("/dev/null", p, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mask /proc/%s: %w", f, err)
		}
	}
	return nil
}

func (b *root) link(l Link) error {
	if err := b.mkdir(filepath.Dir(l.Path), 0o755); err != nil {
		return err
	}
	if err := b.r.Symlink(l.Target, rel(l.Path)); err != nil && !os.IsExist(err) {
		return fmt.Errorf("link %s: %w", l.Path, err)
	}
	return nil
}

// mounts applies binds, overlays and links, parents first, so that a mount never hides a later one.
func (b *root) mounts() error {
	type item struct {
		target string
		do     func() error
	}
	var all []item
	for _, m := range b.plan.Binds {
		all = append(all, item{m.Target, func() error { return b.bind(m) }})
	}
	for _, o := range b.plan.Overlays {
		all = append(all, item{o.Target, func() error { return b.overlay(o) }})
	}
	for _, l := range b.plan.Links {
		if depth(l.Path) > 1 {
			all = append(all, item{l.Path, func() error { return b.link(l) }})
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return depth(all[i].target) < depth(all[j].target) })
	for _, m := range all {
		if err := m.do(); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	return nil
}

func depth(p string) int { return strings.Count(strings.TrimSuffix(p, "/"), "/") }

func (b *root) bind(m Bind) error {
	attr := uint64(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
	if !m.Writable {
		attr |= unix.MOUNT_ATTR_RDONLY
	}
	return b.attach(m.Source, m.Target, m.File, attr)
}

// overlay stages its sources under short names and mounts; it keeps private clones of them, so that the names
// may go.
func (b *root) overlay(o Overlay) error {
	upper, err := b.stageSource(o.Upper, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	if err != nil {
		return fmt.Errorf("upper: %w", err)
	}
	var lowers []string
	for _, l := range o.Lowers {
		s, err := b.stageSource(l, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_RDONLY)
		if err != nil {
			return fmt.Errorf("lower %s: %w", l.Path, err)
		}
		lowers = append(lowers, s)
	}
	if err := b.mkdir(o.Target, 0o755); err != nil {
		return err
	}
	target, err := b.open(o.Target)
	if err != nil {
		return err
	}
	defer target.Close()
	at := fmt.Sprintf("/proc/self/fd/%d", target.Fd())
	if o.Copied {
		return unix.Mount(upper+"/upper", at, "", unix.MS_BIND, "")
	}
	data := fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%s/work,userxattr", strings.Join(lowers, ":"), upper, upper)
	err = unix.EOPNOTSUPP
	if !b.plan.NoOverlay {
		err = unix.Mount("overlay", at, "overlay", unix.MS_NOSUID|unix.MS_NODEV, data)
	}
	if err == nil {
		return nil
	}
	b.ready.Copied, b.ready.Why = append(b.ready.Copied, o.Target), err.Error()
	if o.Cache {
		// A copy could be gigabytes: shown as it is, what is written there fails. The last lower is the host's.
		return unix.Mount(lowers[len(lowers)-1], at, "", unix.MS_BIND, "")
	}
	if err := copyLayers(upper+"/upper", lowers, b.plan.UID, b.plan.GID); err != nil {
		return fmt.Errorf("copy, since no overlay can be mounted (%s): %w", b.ready.Why, err)
	}
	return unix.Mount(upper+"/upper", at, "", unix.MS_BIND, "")
}

func (b *root) stageSource(s Source, attr uint64) (string, error) {
	tree, err := b.openSource(s, attr)
	if err != nil {
		return "", err
	}
	defer unix.Close(tree)
	b.stage++
	p := fmt.Sprintf("%s/%d", layersDir, b.stage)
	if err := os.Mkdir(p, 0o755); err != nil {
		return "", err
	}
	return p, unix.MoveMount(tree, "", unix.AT_FDCWD, p, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// attach puts a clone of the source's mount at target, with attr on all of it.
func (b *root) attach(s Source, target string, file bool, attr uint64) error {
	tree, err := b.openSource(s, attr)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	if file {
		err = b.touch(target)
	} else {
		err = b.mkdir(target, 0o755)
	}
	if err != nil {
		return err
	}
	at, err := b.open(target)
	if err != nil {
		return err
	}
	defer at.Close()
	return unix.MoveMount(tree, "", int(at.Fd()), "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// openSource is a detached mount, with attr on all of it: the one handed over, or a clone made here. One that is
// handed over can be attached once; later uses are clones of where it was attached.
func (b *root) openSource(s Source, attr uint64) (int, error) {
	tree, err := b.detached(s)
	if err != nil {
		return -1, err
	}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attr}); err != nil {
		unix.Close(tree)
		return -1, fmt.Errorf("set attributes of %s: %w", s.Path, err)
	}
	return tree, nil
}

func (b *root) detached(s Source) (int, error) {
	dir, path := s.from(b.sources)
	if s.Number > 0 && !b.used[s.Number] {
		b.used[s.Number] = true
		return unix.FcntlInt(uintptr(dir), unix.F_DUPFD_CLOEXEC, 0)
	}
	flags := uint(unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_RECURSIVE)
	if path == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	fd, err := unix.OpenTree(dir, path, flags)
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", s.Path, err)
	}
	return fd, nil
}

// mkdir makes target and what is missing above it, owned by the command's ids, resolving below the new root
// only: a link on the way that leads out is an error, never followed to the host.
func (b *root) mkdir(target string, mode os.FileMode) error {
	p := rel(target)
	if p == "." {
		return nil
	}
	parts := strings.Split(p, "/")
	for i := range parts {
		sub := strings.Join(parts[:i+1], "/")
		err := b.r.Mkdir(sub, mode)
		if os.IsExist(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("make %s: %w", "/"+sub, err)
		}
		if b.below(sub) {
			if err := b.r.Lchown(sub, b.plan.UID, b.plan.GID); err != nil {
				return fmt.Errorf("own %s: %w", "/"+sub, err)
			}
		}
	}
	return nil
}

// below says whether a path lies in what the command may write.
func (b *root) below(p string) bool {
	for _, w := range b.plan.Writable {
		if within("/"+p, w) {
			return true
		}
	}
	return false
}

func within(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

func (b *root) touch(target string) error {
	if err := b.mkdir(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	// Without O_NONBLOCK a FIFO that an agent left at this name would hold us for ever.
	f, err := b.r.OpenFile(rel(target), os.O_CREATE|os.O_RDONLY|unix.O_NONBLOCK, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// open is the mount point itself. No link is followed on the way: a tree that an agent made may hold some.
func (b *root) open(target string) (*os.File, error) {
	dir, err := unix.Open(staging, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	fd, err := unix.Openat2(dir, rel(target), &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return nil, &os.PathError{Op: "open mount point", Path: target, Err: err}
	}
	return os.NewFile(uintptr(fd), target), nil
}

// hide covers what must not be seen below a mount: credential files in a toolchain's folder.
func (b *root) hide() error {
	for _, h := range b.plan.Hide {
		fi, err := b.r.Lstat(rel(h))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("hide %s: %w", h, err)
		}
		if fi.Mode()&os.ModeSymlink != 0 {
			continue // its target is hidden, or not mounted
		}
		at, err := b.open(h)
		if err != nil {
			return fmt.Errorf("hide %s: %w", h, err)
		}
		dst := fmt.Sprintf("/proc/self/fd/%d", at.Fd())
		if fi.IsDir() {
			err = unix.Mount("hidden", dst, "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0555,size=4k")
		} else {
			err = unix.Mount("/dev/null", dst, "", unix.MS_BIND, "")
		}
		at.Close()
		if err != nil {
			return fmt.Errorf("hide %s: %w", h, err)
		}
	}
	return nil
}

// seal makes the root itself read-only; what is mounted in it has its own attributes.
func (b *root) seal() error {
	if err := unix.MountSetattr(unix.AT_FDCWD, staging, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("make the root read-only: %w", err)
	}
	return nil
}

// pivot makes the staging folder "/" and detaches the host's root.
func pivot() error {
	if err := unix.Chdir(staging); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("detach the host's root: %w", err)
	}
	return unix.Chdir("/")
}

func rel(p string) string {
	p = strings.TrimPrefix(filepath.Clean(p), "/")
	if p == "" {
		return "."
	}
	return p
}
