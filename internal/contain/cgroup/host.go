package cgroup

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ours is the folder below every parent that holds one folder for each factory.
const ours = "sallyport"

// Host is what this process can do with cgroups here and now. The zero value can nothing.
type Host struct {
	Mode Mode
	// Controllers that were written to, by name: the parent folder below which groups go.
	Controllers map[string]string
	// Problems says, for each controller that cannot be used, what was tried and what answered.
	Problems map[string]string

	places []place // where groups are made
	known  []place // every folder below which a group of ours may lie, whoever made it from whichever session
}

// place is one hierarchy with the parent folder that can be written.
type place struct {
	hierarchy
	parent string
	use    []string // the controllers that answered there
}

// Detect looks at what is mounted and tries it: a folder is made, a limit written, and both removed again.
// Under a delegated v2 scope that holds only this process it moves the process into a leaf of its own, since
// v2 gives controllers only to groups whose parent holds no process.
func Detect() Host {
	return detect(readFile("/proc/self/mountinfo"), readFile("/proc/self/cgroup"))
}

// Look is Detect without trying anything: a Host that finds groups (Open, List) and makes none. It also finds
// those that this process could not put anybody into.
func Look() Host {
	h := Host{Mode: ModeNone}
	for _, hi := range parseLayout(readFile("/proc/self/mountinfo"), readFile("/proc/self/cgroup")) {
		h.learn(hi.withControllers())
	}
	return h
}

func detect(mountinfo, self string) Host {
	list := parseLayout(mountinfo, self)
	h := Host{Mode: modeOf(list), Controllers: map[string]string{}, Problems: map[string]string{}}
	for _, hi := range list {
		hi = hi.withControllers()
		h.learn(hi)
		hi.has = slices.DeleteFunc(slices.Clone(hi.has), func(c string) bool {
			_, taken := h.Controllers[c]
			return taken || !slices.Contains(controllers, c)
		})
		if len(hi.has) == 0 || !isCgroup(hi.mount, hi.v2) {
			continue
		}
		h.settle(hi)
	}
	for _, c := range controllers {
		if h.Controllers[c] == "" && h.Problems[c] == "" && c != cpuacct {
			h.Problems[c] = "no mounted hierarchy has this controller"
		}
	}
	return h
}

// withControllers fills in what only the kernel's own file says.
func (h hierarchy) withControllers() hierarchy {
	if h.v2 {
		h.has = words(readFile(filepath.Join(h.mount, "cgroup.controllers")))
	}
	return h
}

// learn adds the folders of hi where groups may lie.
func (h *Host) learn(hi hierarchy) {
	has := slices.DeleteFunc(slices.Clone(hi.has), func(c string) bool { return !slices.Contains(controllers, c) })
	if len(has) == 0 || !isCgroup(hi.mount, hi.v2) {
		return
	}
	uid := os.Geteuid()
	parents := hi.candidates(uid)
	if hi.v2 && uid != 0 {
		parents = append(parents, hi.scope(uid))
	}
	for _, parent := range unique(parents) {
		h.known = append(h.known, place{hierarchy: hi, parent: parent, use: has})
	}
}

// settle finds the first parent of hi where something can be used.
func (h *Host) settle(hi hierarchy) {
	var why string
	for _, parent := range hi.candidates(os.Geteuid()) {
		use, err := hi.try(parent)
		if err != nil {
			why = parent + ": " + err.Error()
		}
		if len(use) == 0 {
			continue
		}
		h.places = append(h.places, place{hierarchy: hi, parent: parent, use: use})
		for _, c := range use {
			h.Controllers[c] = parent
			delete(h.Problems, c)
		}
		break
	}
	for _, c := range hi.has {
		if h.Controllers[c] == "" && why != "" {
			h.Problems[c] = why
		}
	}
}

// candidates are the folders below which groups may go, best first. Root uses the top, which is the same from
// every session, so that a leftover is found again; a user uses what an administrator delegated to it: by the
// names below, the Scope while inside it, else the highest folder above its own cgroup that can be written (a
// subtree given by hand, of which the user's session is one leaf), and its own at last.
func (h hierarchy) candidates(uid int) []string {
	var out []string
	if uid == 0 {
		out = append(out, h.mount)
	} else {
		out = append(out, filepath.Join(h.mount, ours+"-"+strconv.Itoa(uid)))
		if h.v2 && inside(h.own(), h.scope(uid)) { // from outside it could go away under what is made in it
			out = append(out, h.scope(uid))
		}
		if h.v2 {
			out = append(out, h.manager(uid))
		}
	}
	own := h.own()
	if h.v2 && uid != 0 {
		out = append(out, h.above(own)...)
	}
	if own != "" {
		out = append(out, own)
	}
	return unique(out)
}

// above are the folders between the mount and a cgroup, without either, highest first.
func (h hierarchy) above(own string) []string {
	var out []string
	for dir := filepath.Dir(own); strings.HasPrefix(dir, h.mount+"/"); dir = filepath.Dir(dir) {
		out = append(out, dir)
	}
	slices.Reverse(out)
	return out
}

// unique drops repeats and keeps the order.
func unique(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// try makes a group below parent, writes to each controller, and removes it again.
func (h hierarchy) try(parent string) ([]string, error) {
	if fi, err := os.Stat(parent); err != nil || !fi.IsDir() {
		return nil, unix.ENOENT
	}
	var id [6]byte
	rand.Read(id[:])
	sweepProbes(filepath.Join(parent, ours))
	dir := filepath.Join(parent, ours, probePrefix+hex.EncodeToString(id[:]))
	pl := place{hierarchy: h, parent: parent, use: h.has}
	err := pl.makeDir(dir)
	defer pl.prune(filepath.Dir(dir))
	if err != nil {
		return nil, bare(err)
	}
	defer os.Remove(dir)
	if h.v2 {
		if err := h.canEnter(dir); err != nil {
			return nil, err
		}
	}
	var use, refused []string
	for _, c := range h.has {
		file, value := trialOf(c, h.v2)
		if e := write(filepath.Join(dir, file), value); e != nil {
			refused = append(refused, file+": "+bare(e).Error())
			continue
		}
		use = append(use, c)
	}
	if len(refused) > 0 {
		return use, errors.New(strings.Join(refused, ", "))
	}
	return use, nil
}

// What a try makes is there for milliseconds; longer, its maker was ended meanwhile.
const (
	probePrefix = "probe-"
	probeMost   = time.Minute
)

// sweepProbes removes what tries that were ended have left.
func sweepProbes(dir string) {
	left, _ := filepath.Glob(filepath.Join(dir, probePrefix+"*"))
	for _, p := range left {
		if fi, err := os.Lstat(p); err == nil && time.Since(fi.ModTime()) > probeMost {
			_ = unix.Rmdir(p)
		}
	}
}

// trialOf is a harmless write to a controller of a group that holds nothing.
func trialOf(controller string, v2 bool) (file, value string) {
	switch {
	case controller == pids:
		return "pids.max", "64"
	case controller == memory && v2:
		return "memory.max", "67108864"
	case controller == memory:
		return "memory.limit_in_bytes", "67108864"
	case controller == cpu && v2:
		return "cpu.max", "50000 100000"
	case controller == cpu:
		return "cpu.cfs_period_us", "100000"
	default: // cpuacct
		return "cpuacct.usage", "0"
	}
}

// canEnter: on v2 a mover needs to write the cgroup.procs of the common ancestor too.
func (h hierarchy) canEnter(dir string) error {
	own := h.own()
	if own == "" {
		return errors.New("this process's own cgroup is not visible")
	}
	at := commonAncestor(own, dir)
	if err := unix.Access(filepath.Join(at, "cgroup.procs"), unix.W_OK); err != nil {
		return errors.New("no process can be moved here from " + own + ": " + at + "/cgroup.procs: " + err.Error())
	}
	return nil
}

// isCgroup asks the file system itself: a mount table can be read through a bind mount of anything.
func isCgroup(dir string, v2 bool) bool {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return false
	}
	if v2 {
		return int64(st.Type) == unix.CGROUP2_SUPER_MAGIC
	}
	return int64(st.Type) == unix.CGROUP_SUPER_MAGIC
}

// FixFor is what would give a user the controllers, as text for a person.
func (h Host) FixFor(uid int) string {
	u := strconv.Itoa(uid)
	if h.Mode == ModeV2 {
		return "a systemd manager of user " + u + " is needed (one runs while somebody is logged in, or lingers) that cpu, memory and pids are delegated to"
	}
	if h.Mode == ModeNone {
		return "mount a cgroup hierarchy with the controllers memory, pids and cpu"
	}
	return "as root: for c in memory pids cpu cpuacct; do mkdir -p /sys/fs/cgroup/$c/" + ours + "-" + u + " && chown -R " + u + " /sys/fs/cgroup/$c/" + ours + "-" + u + "; done"
}

func words(s string) []string { return strings.Fields(s) }
