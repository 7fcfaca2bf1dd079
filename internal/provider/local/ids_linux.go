package local

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

// identities gives each Allocation host ids of its own. Started as root, a sandbox's command and its keeper
// run under two unprivileged host ids from a range that no distribution assigns; started by an ordinary user
// there is only that user's own id, which is reported as weaker.
type identities struct {
	folder string
	uid    int
	gid    int
}

func newIdentities(folder string) identities {
	return identities{folder: folder, uid: os.Geteuid(), gid: os.Getegid()}
}

// firstHostID begins the range: above the last id that systemd-nspawn allocates to containers (0x6FFFFFFF)
// and below 2^31, where some programs take ids for negative. Source: systemd's UIDS-GIDS.
const (
	firstHostID = 0x70000000
	hostIDs     = 0x0FFFFFF0 / 2
)

// The ids inside, where two are mapped.
const (
	insideAgent  = 1000
	insideKeeper = 999
)

// mapping is the ids of one Allocation.
type mapping struct {
	own        bool // only the user's own id
	slot       int  // of the range
	uid, gid   int  // of the command, inside
	hostAgent  int
	hostKeeper int
}

// of is what a has claimed; false: nothing.
func (i identities) of(a sallyport.AllocationID) (mapping, bool, error) {
	if i.uid != 0 {
		return mapping{}, false, nil
	}
	held, err := i.slots(a)
	if err != nil {
		return mapping{}, false, stateError("take ids", i.folder, err)
	}
	if len(held) == 0 {
		return mapping{}, false, nil
	}
	return rootMapping(held[0]), true, nil
}

// pick is a mapping that nobody is likely to have. Other state folders of this machine, and spares, count slots
// of their own: drawn from the whole range, so that theirs are others.
func (i identities) pick() mapping {
	if i.uid != 0 {
		return mapping{own: true, uid: i.uid, gid: i.gid, hostAgent: i.uid, hostKeeper: i.uid}
	}
	return rootMapping(rand.IntN(hostIDs))
}

// claim makes m's ids those of a; false: another Allocation has them. As root it is a symbolic link whose text
// is the allocation: made and marked in one step, so that a crash leaves no slot without an owner.
func (i identities) claim(m mapping, a sallyport.AllocationID) (bool, error) {
	if m.own {
		return true, nil
	}
	name := filepath.Join(i.folder, strconv.Itoa(m.slot))
	err := os.Symlink(string(a), name)
	if os.IsExist(err) {
		return false, nil
	}
	if err != nil {
		return false, stateError("take ids", name, err)
	}
	return true, nil
}

func rootMapping(slot int) mapping {
	return mapping{slot: slot, uid: insideAgent, gid: insideAgent, hostAgent: firstHostID + 2*slot, hostKeeper: firstHostID + 2*slot + 1}
}

// release frees the slot of a; none: nil.
func (i identities) release(a sallyport.AllocationID) error {
	if i.uid != 0 {
		return nil
	}
	held, err := i.slots(a)
	if err != nil {
		return err
	}
	for _, slot := range held {
		if err := os.Remove(filepath.Join(i.folder, strconv.Itoa(slot))); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

// slots are those that a has claimed.
func (i identities) slots(a sallyport.AllocationID) ([]int, error) {
	entries, err := os.ReadDir(i.folder)
	if err != nil {
		return nil, err
	}
	var held []int
	for _, e := range entries {
		if owner, err := os.Readlink(filepath.Join(i.folder, e.Name())); err != nil || owner != string(a) {
			continue
		}
		slot, err := strconv.Atoi(e.Name())
		if err != nil {
			return nil, err
		}
		held = append(held, slot)
	}
	return held, nil
}

// attributes are how a keeper is started under m: a user namespace of its own, capabilities only there.
func (m mapping) attributes(caps []uintptr) *syscall.SysProcAttr {
	s := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, Setsid: true, AmbientCaps: caps}
	if m.own {
		s.UidMappings = []syscall.SysProcIDMap{{ContainerID: m.uid, HostID: m.hostAgent, Size: 1}}
		s.GidMappings = []syscall.SysProcIDMap{{ContainerID: m.gid, HostID: m.gid, Size: 1}}
		return s
	}
	ids := []syscall.SysProcIDMap{{ContainerID: insideAgent, HostID: m.hostAgent, Size: 1}, {ContainerID: insideKeeper, HostID: m.hostKeeper, Size: 1}}
	s.UidMappings, s.GidMappings = ids, ids
	s.GidMappingsEnableSetgroups = true
	s.Credential = &syscall.Credential{Uid: insideKeeper, Gid: insideKeeper}
	return s
}

// idmap is a user namespace that shows the caller's own files as the command's: on disk from, at the mount to.
func idmap(runner string, fromUID, fromGID, to int) (*os.File, error) {
	one := func(id int) []syscall.SysProcIDMap {
		return []syscall.SysProcIDMap{{ContainerID: id, HostID: to, Size: 1}}
	}
	// The namespace exists once the process does; what the process would do does not matter, so it is
	// stopped at its exec and ended.
	p, err := os.StartProcess(runner, []string{runner}, &os.ProcAttr{Sys: &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER, UidMappings: one(fromUID), GidMappings: one(fromGID), Pdeathsig: syscall.SIGKILL}})
	if err != nil {
		return nil, fmt.Errorf("make an id mapping: %w", err)
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", p.Pid))
	_ = p.Kill()
	_, _ = p.Wait()
	return f, err
}

// users are the id mappings that one sandbox's mounts need, by owner on disk. The caller's own, which every
// sandbox needs, is made while other things are prepared.
type users struct {
	runner string
	to     int
	own    bool // nothing is mapped
	first  func() (*os.File, error)
	made   map[int]*os.File
}

func newUsers(runner string, ids mapping) *users {
	u := &users{runner: runner, to: ids.hostAgent, own: ids.own, made: map[int]*os.File{}}
	u.first = sync.OnceValues(func() (*os.File, error) { return idmap(runner, os.Geteuid(), os.Getegid(), u.to) })
	if !ids.own {
		go func() { _, _ = u.first() }()
	}
	return u
}

func (u *users) of(uid, gid int) (*os.File, error) {
	if f := u.made[uid]; f != nil {
		return f, nil
	}
	var f *os.File
	var err error
	if uid == os.Geteuid() {
		f, err = u.first()
	} else {
		f, err = idmap(u.runner, uid, gid, u.to)
	}
	if err == nil {
		u.made[uid] = f
	}
	return f, err
}

func (u *users) close() {
	if u.own {
		return
	}
	if f, err := u.first(); err == nil && u.made[os.Geteuid()] == nil {
		f.Close()
	}
	for _, f := range u.made {
		f.Close()
	}
}
