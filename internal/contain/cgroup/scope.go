package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Scope and ScopeSlice name the one unit in which a user's drivers and keepers live under systemd. It is shared by
// all of a user's factories: its folder, and so every group below it, is found by name from any session after
// everybody has lost their memory. Being a scope, it goes by itself with its last process.
const (
	Scope      = ours + ".scope"
	ScopeSlice = "app.slice"
)

// ScopeLeaf is the folder in a Scope for the processes: v2 gives controllers only to the children of a group that
// holds none itself.
const ScopeLeaf = ours + "-self"

// WantsScope reports whether a scope of the user's service manager would do better than what Detect found: on
// pure v2, for a user who misses a controller, or could only use one by making folders in the middle of the
// manager's own tree.
func (h Host) WantsScope() bool {
	uid := os.Geteuid()
	if h.Mode != ModeV2 || uid == 0 {
		return false
	}
	for _, c := range []string{cpu, memory, pids} {
		if h.Controllers[c] == "" {
			return true
		}
	}
	return slices.ContainsFunc(h.places, func(p place) bool {
		return inside(p.parent, p.manager(uid)) && !inside(p.parent, p.scope(uid))
	})
}

// ScopeFolder is where the user's Scope lies on this host, whether or not it is there; "" where there is no v2.
func ScopeFolder() string {
	h, ok := unifiedHierarchy()
	if !ok {
		return ""
	}
	return h.scope(os.Geteuid())
}

// InScope reports whether this process is in the user's Scope, and nobody else still stands at the top of it, where
// who starts it is for a moment. What this process has started goes with it.
func InScope() bool {
	h, ok := unifiedHierarchy()
	if !ok {
		return false
	}
	scope := h.scope(os.Geteuid())
	return inside(h.own(), scope) && !slices.ContainsFunc(words(readFile(filepath.Join(scope, "cgroup.procs"))), isForeign)
}

// unifiedHierarchy is the mounted v2 hierarchy.
func unifiedHierarchy() (hierarchy, bool) {
	for _, h := range parseLayout(readFile("/proc/self/mountinfo"), readFile("/proc/self/cgroup")) {
		if h.v2 {
			return h, true
		}
	}
	return hierarchy{}, false
}

// manager is the folder of the user's service manager, as systemd lays it out.
func (h hierarchy) manager(uid int) string {
	u := strconv.Itoa(uid)
	return filepath.Join(h.mount, "user.slice", "user-"+u+".slice", "user@"+u+".service")
}

func (h hierarchy) scope(uid int) string {
	return filepath.Join(h.manager(uid), ScopeSlice, Scope)
}

func inside(dir, top string) bool { return dir == top || strings.HasPrefix(dir, top+"/") }
