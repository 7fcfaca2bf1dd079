package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

// Group is the cgroup of one Allocation: one folder for each hierarchy in use. Its methods may be called by
// any process that can write there, and repeated.
type Group struct {
	Factory    string
	Allocation string
	parts      []part
}

// part is the group's folder in one hierarchy.
type part struct {
	place
	dir string
}

// Create makes the group, or takes up the one that is there, and sets its limits: memory (swap included),
// processes and threads, cpu. The reports say of cpu, memory and pids what holds: the limits are read back
// from the kernel, grade observation. Where nothing can be written the group is nil and the reports say what
// would help; that is no error, since Policy decides whether a sandbox may do without.
//
// CodeInvalid: an id that cannot be a folder's name, or a limit that is not positive (0 cpus: no limit).
func (h Host) Create(factory, allocation string, l sallyport.Limits) (*Group, []sallyport.LayerReport, error) {
	const op = "create cgroup"
	if err := checkNames(op, factory, allocation); err != nil {
		return nil, nil, err
	}
	if err := checkLimits(op, l); err != nil {
		return nil, nil, err
	}
	g := &Group{Factory: factory, Allocation: allocation}
	problems := map[string]string{}
	for c, why := range h.Problems {
		problems[c] = why
	}
	for _, p := range h.places {
		made := part{place: p, dir: p.dirOf(factory, allocation)}
		if err := p.makeDir(made.dir); err != nil {
			for _, c := range p.use {
				problems[c] = made.dir + ": " + bare(err).Error()
			}
			continue
		}
		g.parts = append(g.parts, made)
	}
	reports := g.limit(l, problems, h.FixFor(os.Geteuid()))
	if len(g.parts) == 0 {
		return nil, reports, nil
	}
	return g, reports, nil
}

// Open finds the group of an Allocation. CodeNotFound: no hierarchy has a folder of it, which here is proof
// of absence.
func (h Host) Open(factory, allocation string) (*Group, error) {
	const op = "open cgroup"
	if err := checkNames(op, factory, allocation); err != nil {
		return nil, err
	}
	g := &Group{Factory: factory, Allocation: allocation}
	for _, p := range h.known {
		made := part{place: p, dir: p.dirOf(factory, allocation)}
		if _, err := os.Lstat(made.dir); err == nil {
			g.parts = append(g.parts, made)
		} else if !p.absent(err) {
			return nil, &sallyport.Error{Op: op, Code: sallyport.CodeUnavailable, Subject: made.dir, Message: "expected to look at it", Err: err}
		}
	}
	if len(g.parts) == 0 {
		return nil, &sallyport.Error{Op: op, Code: sallyport.CodeNotFound, Subject: allocation, Message: "no cgroup bears this id"}
	}
	return g, nil
}

// List names the Allocations of a factory that have a folder in any hierarchy, half-made ones included.
func (h Host) List(factory string) ([]string, error) {
	const op = "list cgroups"
	if err := checkNames(op, factory, "x"); err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, p := range h.known {
		entries, err := os.ReadDir(filepath.Join(p.parent, ours, factory))
		if p.absent(err) {
			continue
		}
		if err != nil {
			return nil, &sallyport.Error{Op: op, Code: sallyport.CodeUnavailable, Subject: p.parent, Message: "expected to list it", Err: err}
		}
		for _, e := range entries {
			if e.IsDir() {
				found[e.Name()] = true
			}
		}
	}
	var names []string
	for n := range found {
		names = append(names, n)
	}
	sort.Strings(names)
	return names, nil
}

// Prune removes the folders of a factory that hold nothing, wherever they lie: whoever was to make a group in
// them was ended before it did. One that makes a group meanwhile makes them again.
func (h Host) Prune(factory string) error {
	if err := checkNames("prune cgroups", factory); err != nil {
		return err
	}
	for _, p := range h.known {
		p.prune(filepath.Join(p.parent, ours, factory))
	}
	return nil
}

// absent reports whether what err tells of a folder of ours proves that there is none: it is not there, or what all
// of ours lie in belongs to somebody else, who lets nobody look into it. Nobody could have made a group in there.
func (p place) absent(err error) bool {
	if errors.Is(err, unix.ENOENT) {
		return true
	}
	var st unix.Stat_t
	return errors.Is(err, unix.EACCES) && unix.Lstat(filepath.Join(p.parent, ours), &st) == nil && int(st.Uid) != os.Geteuid()
}

func (p place) dirOf(factory, allocation string) string {
	return filepath.Join(p.parent, ours, factory, allocation)
}

// Empty reports whether no process and no thread is in the group. A group that is gone is empty; what cannot
// be read is not.
func (g *Group) Empty() bool {
	for _, p := range g.parts {
		file := "tasks"
		if p.v2 {
			file = "cgroup.procs"
		}
		data, err := os.ReadFile(filepath.Join(p.dir, file))
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
			continue
		}
		if err != nil || len(strings.TrimSpace(string(data))) > 0 {
			return false
		}
	}
	return true
}

// pollPause is how often Kill and Destroy look again.
const pollPause = 2 * time.Millisecond

// Destroy kills what is in the group, waits until it is empty, and removes its folders. nil means: every
// folder was looked for afterwards and is absent. Absent from the start: nil. CodeUnavailable when ctx ends
// before; call again.
func (g *Group) Destroy(ctx context.Context) error {
	if err := g.Kill(ctx); err != nil {
		return err
	}
	for {
		left, err := g.remove()
		if left == "" {
			return nil
		}
		if !pause(ctx) {
			return &sallyport.Error{Op: "destroy cgroup", Code: sallyport.CodeUnavailable, Subject: left,
				Message: "the folder is still there", Hint: "call again; if it stays, look at its cgroup.procs and at child groups", Err: err}
		}
	}
}

// remove makes one round and returns a folder that is still there.
func (g *Group) remove() (left string, err error) {
	for _, p := range g.parts {
		e := unix.Rmdir(p.dir)
		if _, gone := os.Lstat(p.dir); !errors.Is(gone, unix.ENOENT) {
			left, err = p.dir, e
			continue
		}
		p.prune(filepath.Dir(p.dir))
	}
	return left, err
}

// pause waits a little; false when ctx has ended.
func pause(ctx context.Context) bool {
	t := time.NewTimer(pollPause)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// find is the part that has a controller.
func (g *Group) find(controller string) (part, bool) {
	for _, p := range g.parts {
		if slices.Contains(p.use, controller) {
			return p, true
		}
	}
	return part{}, false
}

// checkNames: ids become folder names below folders that root writes.
func checkNames(op string, names ...string) error {
	for _, n := range names {
		ok := n != "" && len(n) <= 128
		for _, r := range n {
			ok = ok && (r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' || r == '-')
		}
		if !ok {
			return &sallyport.Error{Op: op, Code: sallyport.CodeInvalid, Subject: fmt.Sprintf("%q", n), Message: "expected an id of lower-case letters, digits, _ and -"}
		}
	}
	return nil
}

func checkLimits(op string, l sallyport.Limits) error {
	for _, k := range []struct {
		field string
		ok    bool
		want  string
	}{
		{"memory", l.Memory >= 1<<20, "at least 1 MiB"},
		{"pids", l.PIDs >= 1, "at least 1"},
		{"cpus", l.CPU == 0 || l.CPU >= 0.01 && l.CPU <= 1e5, "0 (no limit) or at least 0.01"},
	} {
		if !k.ok {
			return &sallyport.Error{Op: op, Code: sallyport.CodeInvalid, Subject: "limits." + k.field, Message: "expected " + k.want}
		}
	}
	return nil
}
