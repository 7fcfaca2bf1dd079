package local

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/internal/provider/local/keeper"
	"sallyport.dev/sallyport/internal/runner"
)

// planner turns a Spec into the runner's plan and opens what the runner could not open itself.
type planner struct {
	spec   provider.Spec
	ids    mapping
	dir    string // the allocation's folder
	users  *users
	plan   runner.Plan
	files  []*os.File // sources; the first has number 1
	cow    int
	runner string // executable that id mappings are made with
}

// collectorSpec is what the collector's sandbox is made from: the workspace, and of the host only what git
// needs to start. Each mount takes time at every start, though most Attempts have fifty and git needs five.
func collectorSpec(s provider.Spec) provider.Spec {
	s.Command.Files, s.Caches = nil, nil // its home is empty
	s.Mounts = slices.DeleteFunc(slices.Clone(s.Mounts), func(m sallyport.Mount) bool {
		return m.Reason != "system" || strings.HasPrefix(m.Path, "/etc/") && !strings.HasPrefix(m.Path, "/etc/ld.so.")
	})
	return s
}

// maxCopied is up to which size a configuration file is copied into the sandbox and not mounted.
const maxCopied = 64 << 10

// copied adds a small system file that anybody may read to the sandbox's own; false: it must be mounted. A
// mount costs ten times as much as so small a file, and /etc has dozens.
func (b *planner) copied(m sallyport.Mount, fi os.FileInfo) bool {
	if m.Reason != "system" || !strings.HasPrefix(m.Path, "/etc/") || !fi.Mode().IsRegular() || fi.Mode().Perm()&0o004 == 0 || fi.Size() > maxCopied {
		return false
	}
	data, err := os.ReadFile(m.Path)
	if err != nil || len(data) > maxCopied {
		return false // the mount says what is wrong
	}
	b.plan.Files = append(b.plan.Files, runner.File{Name: m.Path, Data: data})
	return true
}

// closeFiles closes the opened sources.
func (b *planner) closeFiles() {
	for _, f := range b.files {
		f.Close()
	}
}

func (b *planner) build(runnerPath string) error {
	s := b.spec
	b.plan = runner.Plan{
		Hostname: "sallyport", NoAttach: s.Purpose == sallyport.PurposeValidate || s.Purpose == sallyport.PurposeBase, UID: b.ids.uid, GID: b.ids.gid, ChangeIDs: !b.ids.own,
		Writable:   []string{s.Workspace.Path, s.Home, "/tmp", "/dev/shm"},
		EgressPort: s.EgressPort, Redirect: s.Redirect, ShmBytes: max(s.Limits.Memory/2, 16<<20),
		Folders: []string{"/root", "/opt", "/home", "/mnt", "/srv"},
	}
	b.plan.Files = b.identityFiles()
	if err := b.dataFolders(); err != nil {
		return err
	}
	if err := b.mounts(); err != nil {
		return err
	}
	if err := b.workspace(); err != nil {
		return err
	}
	src, err := b.source(runnerPath, false)
	if err != nil {
		return err
	}
	b.plan.Binds = append(b.plan.Binds, runner.Bind{Source: src, Target: runner.Inside, File: true, Exec: true})
	return nil
}

// identityFiles are the few files of /etc that must speak of the sandbox and not of the host.
func (b *planner) identityFiles() []runner.File {
	id := fmt.Sprintf("%d:%d", b.ids.uid, b.ids.gid)
	files := []runner.File{
		{Name: "/etc/passwd", Data: []byte("root:x:0:0:root:/nonexistent:/usr/sbin/nologin\nagent:x:" + id + ":agent:" + b.spec.Home + ":/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n")},
		{Name: "/etc/group", Data: fmt.Appendf(nil, "root:x:0:\nagent:x:%d:\nnogroup:x:65534:\n", b.ids.gid)},
		{Name: "/etc/hosts", Data: []byte("127.0.0.1 localhost sallyport\n::1 localhost\n")},
		{Name: "/etc/hostname", Data: []byte("sallyport\n")},
		{Name: "/etc/resolv.conf", Data: []byte(resolver(b.spec.Redirect))},
	}
	for _, f := range b.spec.Command.Files {
		if !filepath.IsAbs(f.Name) {
			files = append(files, runner.File{Name: filepath.Join(provider.FilesFolder, f.Name), Data: f.Data})
		}
	}
	return files
}

// resolver is the sandbox's resolv.conf. Whatever resolver a program asks, the redirect leads it to the same socket.
func resolver(redirect bool) string {
	if !redirect {
		return "# no name resolves here: the sandbox has no network\n"
	}
	return "# answered by Sallyport from the egress rules; no question leaves this machine\nnameserver 127.0.0.53\n"
}

// dataFolders makes everything the sandbox will write to, owned by its command.
func (b *planner) dataFolders() error {
	data := filepath.Join(b.dir, keeper.FolderData)
	if err := readableFolder(data); err != nil {
		return err
	}
	for _, d := range []struct {
		name string
		mode os.FileMode
	}{{"home", 0o755}, {"tmp", 0o777 | os.ModeSticky}} {
		if err := b.ownFolder(filepath.Join(data, d.name), d.mode); err != nil {
			return err
		}
	}
	home, err := b.home(filepath.Join(data, "home"))
	if err != nil {
		return err
	}
	tmp, err := b.source(filepath.Join(data, "tmp"), false)
	if err != nil {
		return err
	}
	b.plan.Binds = append(b.plan.Binds, runner.Bind{Source: tmp, Target: "/tmp", Writable: true})
	for _, f := range b.spec.Command.Files {
		if filepath.IsAbs(f.Name) {
			if err := b.homeFile(home, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// home shows the fresh home, over what earlier sandboxes left there where the Spec says so. It returns the host
// folder that is written to.
func (b *planner) home(fresh string) (string, error) {
	i := slices.IndexFunc(b.spec.Caches, func(c provider.Cache) bool { return c.Path == b.spec.Home })
	if i < 0 || len(b.spec.Caches[i].Layers) == 0 && b.spec.Caches[i].Keep == "" {
		src, err := b.source(fresh, false)
		b.plan.Binds = append(b.plan.Binds, runner.Bind{Source: src, Target: b.spec.Home, Writable: true})
		return fresh, err
	}
	c := b.spec.Caches[i]
	data := c.Keep
	if data == "" {
		data = filepath.Join(b.dir, keeper.FolderData, "home-cow")
	}
	// The fresh one is the lowest: an overlay needs one.
	return filepath.Join(data, "upper"), b.overlayIn(append(slices.Clone(c.Layers), fresh), b.spec.Home, data, false)
}

// homeFile lays a file of the trusted side into the fresh home, before anybody else can write there.
func (b *planner) homeFile(home string, f provider.File) error {
	rel, err := filepath.Rel(b.spec.Home, f.Name)
	if err != nil || !filepath.IsLocal(rel) {
		return &sallyport.Error{Op: "create", Code: sallyport.CodeInvalid, Subject: f.Name, Message: "expected a file below " + b.spec.Home}
	}
	r, err := os.OpenRoot(home)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := r.MkdirAll(filepath.Dir(rel), 0o755); err != nil {
		return stateError("create", f.Name, err)
	}
	if err := r.WriteFile(rel, f.Data, 0o644); err != nil {
		return stateError("create", f.Name, err)
	}
	for p := rel; p != "."; p = filepath.Dir(p) {
		if err := r.Lchown(p, b.ids.hostAgent, b.hostGID()); err != nil {
			return stateError("create", f.Name, err)
		}
	}
	return nil
}

func (b *planner) hostGID() int {
	if b.ids.own {
		return b.ids.gid
	}
	return b.ids.hostAgent
}

func (b *planner) ownFolder(path string, mode os.FileMode) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return stateError("create", path, err)
	}
	if err := os.Chmod(path, mode); err != nil {
		return stateError("create", path, err)
	}
	if err := os.Lchown(path, b.ids.hostAgent, b.hostGID()); err != nil {
		return stateError("create", path, err)
	}
	return nil
}

// readableFolder makes a folder of the caller's that the keeper, under its own uid, can list: it counts what
// lies below. Nobody else gets through the allocation's folder.
func readableFolder(path string) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return stateError("create", path, err)
	}
	if err := os.Chmod(path, 0o755); err != nil { // whatever the umask
		return stateError("create", path, err)
	}
	return nil
}

// mounts adds the host folders of the allowlist.
func (b *planner) mounts() error {
	for _, m := range b.spec.Mounts {
		fi, err := os.Lstat(m.Path)
		if os.IsNotExist(err) && m.Mode != "cow" {
			continue
		}
		if err != nil && !os.IsNotExist(err) {
			return &sallyport.Error{Op: "create", Code: sallyport.CodeUnsupported, Subject: m.Path, Message: "a folder of the allowlist cannot be read", Err: err}
		}
		if fi != nil && fi.Mode()&os.ModeSymlink != 0 {
			target, err := os.Readlink(m.Path)
			if err != nil {
				return err
			}
			b.plan.Links = append(b.plan.Links, runner.Link{Path: m.Path, Target: target})
			continue
		}
		for _, h := range m.Hide {
			b.plan.Hide = append(b.plan.Hide, filepath.Join(m.Path, h))
		}
		if m.Mode == "cow" {
			if err := b.cache(m.Path); err != nil {
				return err
			}
			b.cow++
			b.plan.Writable = append(b.plan.Writable, m.Path)
			continue
		}
		if b.copied(m, fi) {
			continue
		}
		src, err := b.source(m.Path, m.Reason != "system")
		if err != nil {
			return err
		}
		b.plan.Binds = append(b.plan.Binds, runner.Bind{Source: src, Target: m.Path, File: !fi.IsDir(), Exec: true})
	}
	return nil
}

// cache shows a host folder copy-on-write, with what checks of the base have added to it.
func (b *planner) cache(path string) error {
	host, data := path, filepath.Join(b.dir, keeper.FolderData, fmt.Sprintf("cow%d", b.cow))
	if _, err := os.Lstat(path); os.IsNotExist(err) { // a cache that begins here
		host = filepath.Join(b.dir, keeper.FolderData, "nothing")
		if err := b.ownFolder(host, 0o755); err != nil {
			return err
		}
	}
	lowers := []string{host}
	for _, c := range b.spec.Caches {
		if c.Path != path {
			continue
		}
		lowers = append(slices.Clone(c.Layers), host)
		if c.Keep != "" {
			data = c.Keep
		}
	}
	return b.overlayIn(lowers, path, data, true)
}

// workspace shows the base's folders copy-on-write, and the private gitdir over them.
func (b *planner) workspace() error {
	w := b.spec.Workspace
	data := w.Keep
	if data == "" {
		data = filepath.Join(b.dir, keeper.FolderData, "workspace")
	}
	if err := b.overlayIn(append(slices.Clone(w.Layers), w.Beside...), w.Path, data, false); err != nil {
		return err
	}
	if w.GitDir == "" {
		return nil
	}
	return b.overlayIn([]string{w.GitDir}, w.Path+"/.git", filepath.Join(b.dir, keeper.FolderData, "git"), false)
}

// overlayIn keeps what is written in data's subfolder "upper".
func (b *planner) overlayIn(lowers []string, target, data string, cache bool) error {
	if err := readableFolder(data); err != nil {
		return err
	}
	for _, d := range []string{"upper", "work"} {
		if err := b.ownFolder(filepath.Join(data, d), 0o755); err != nil {
			return err
		}
	}
	o := runner.Overlay{Target: target, Cache: cache}
	var err error
	if o.Upper, err = b.source(data, false); err != nil {
		return err
	}
	for _, l := range lowers {
		src, err := b.source(l, true)
		if err != nil {
			return err
		}
		o.Lowers = append(o.Lowers, src)
	}
	b.plan.Overlays = append(b.plan.Overlays, o)
	return nil
}

// source is how the runner gets at a host path. As root it is a descriptor of a detached mount, since the
// runner's own uid may not walk there; with owned, the caller's files show as the command's. As an ordinary
// user the runner opens the path itself.
func (b *planner) source(path string, owned bool) (runner.Source, error) {
	if b.ids.own {
		return runner.Source{Path: path}, nil
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return runner.Source{}, &sallyport.Error{Op: "create", Code: sallyport.CodeUnsupported, Subject: path, Message: "cannot be mounted", Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	if owned {
		if err := b.own(f); err != nil {
			f.Close()
			return runner.Source{}, err
		}
	}
	b.files = append(b.files, f)
	return runner.Source{Number: len(b.files), Path: path}, nil
}

// What never belongs into a command's environment, for the probe. Patterns are path.Match globs on upper-case
// names.
var (
	forbiddenNames  = []string{"*TOKEN*", "*SECRET*", "*PASSWORD*", "*PASSWD*", "*CREDENTIAL*", "*_KEY", "*APIKEY*", "AWS_*", "SSH_AUTH_SOCK", "GPG_AGENT_INFO", "KUBECONFIG", "DOCKER_*"}
	forbiddenValues = []string{"ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "sk-ant-", "xoxb-", "AKIA", "-----BEGIN"}
)

// own shows the tree's owner as the command. The owner is the caller, or, for a kept cache layer, the ids of
// the sandbox that wrote it.
func (b *planner) own(tree *os.File) error {
	fail := func(err error) error {
		return &sallyport.Error{Op: "create", Code: sallyport.CodeUnsupported, Subject: tree.Name(),
			Message: "its file system cannot show files under another owner (idmapped mounts)", Hint: "keep the repository and SALLYPORT_STATE on ext4, xfs, btrfs or tmpfs, or run as an ordinary user", Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(tree.Fd()), &st); err != nil {
		return fail(err)
	}
	user, err := b.users.of(int(st.Uid), int(st.Gid))
	if err != nil {
		return fail(err)
	}
	if err := unix.MountSetattr(int(tree.Fd()), "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(user.Fd())}); err != nil {
		return fail(err)
	}
	return nil
}

// kept are the folders of layers that outlive the sandbox.
func (b *planner) kept() ([]runner.Source, error) {
	var list []runner.Source
	w := b.spec.Workspace
	for _, c := range append(slices.Clone(b.spec.Caches), provider.Cache{Path: w.Path, Keep: w.Keep}) {
		if c.Keep == "" {
			continue
		}
		i := slices.IndexFunc(b.plan.Overlays, func(o runner.Overlay) bool { return o.Upper.Path == c.Keep })
		if i < 0 {
			return nil, &sallyport.Error{Op: "create", Code: sallyport.CodeInvalid, Subject: c.Keep, Message: "expected a writable mount at " + c.Path + " to keep the writes of"}
		}
		list = append(list, b.plan.Overlays[i].Upper)
	}
	return list, nil
}
