package cgroup

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Mode names what kind of hierarchy a host has.
type Mode string

// The modes.
const (
	ModeNone   Mode = "none"
	ModeV1     Mode = "v1"     // each controller has a hierarchy of its own
	ModeHybrid Mode = "hybrid" // v1 with a v2 hierarchy beside, which has few controllers or none
	ModeV2     Mode = "v2"     // one hierarchy
)

// The controllers that are used; cpuacct only counts, and exists on v1 only.
const (
	memory  = "memory"
	pids    = "pids"
	cpu     = "cpu"
	cpuacct = "cpuacct"
)

var controllers = []string{memory, pids, cpu, cpuacct}

// hierarchy is one mounted cgroup file system.
type hierarchy struct {
	mount string   // where it is mounted
	root  string   // which cgroup of the hierarchy lies there
	self  string   // this process's cgroup in it
	v2    bool     //
	has   []string // of controllers, what it is said to control; v2: filled from cgroup.controllers
}

// own is the directory of this process's cgroup; "" where the mount does not show it, as when the process
// lies outside its own cgroup namespace ("/../other").
func (h hierarchy) own() string {
	if slices.Contains(strings.Split(h.self, "/"), "..") {
		return ""
	}
	if h.self == h.root || h.root == "/" {
		return filepath.Join(h.mount, strings.TrimPrefix(h.self, h.root))
	}
	if rest, ok := strings.CutPrefix(h.self, h.root+"/"); ok {
		return filepath.Join(h.mount, rest)
	}
	return ""
}

// path is how /proc/<pid>/cgroup names the cgroup of a directory below the mount.
func (h hierarchy) path(dir string) string {
	return path.Join(h.root, strings.TrimPrefix(dir, h.mount))
}

// parseLayout reads /proc/self/mountinfo and /proc/self/cgroup. Pure. Of several mounts of one hierarchy the
// first counts.
func parseLayout(mountinfo, self string) []hierarchy {
	v1self, v2self := parseSelf(self)
	var out []hierarchy
	for _, line := range strings.Split(mountinfo, "\n") {
		before, after, ok := strings.Cut(line, " - ")
		fields, super := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 6 || len(super) < 3 {
			continue
		}
		h := hierarchy{root: unescape(fields[3]), mount: unescape(fields[4])}
		switch super[0] {
		case "cgroup2":
			h.v2, h.self = true, v2self
		case "cgroup":
			for _, opt := range strings.Split(super[2], ",") {
				if slices.Contains(controllers, opt) {
					h.has = append(h.has, opt)
					h.self = v1self[opt]
				}
			}
			if len(h.has) == 0 || h.self == "" {
				continue
			}
		default:
			continue
		}
		if !slices.ContainsFunc(out, func(o hierarchy) bool { return o.v2 == h.v2 && slices.Equal(o.has, h.has) }) {
			out = append(out, h)
		}
	}
	return out
}

// parseSelf reads "5:memory:/a" (v1, by controller) and "0::/b" (v2).
func parseSelf(self string) (v1 map[string]string, v2 string) {
	v1 = map[string]string{}
	for _, line := range strings.Split(self, "\n") {
		f := strings.SplitN(line, ":", 3)
		if len(f) != 3 {
			continue
		}
		if f[1] == "" {
			v2 = f[2]
			continue
		}
		for _, c := range strings.Split(f[1], ",") {
			v1[c] = f[2]
		}
	}
	return v1, v2
}

// unescape undoes the octal escapes of mountinfo.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// modeOf names a layout.
func modeOf(list []hierarchy) Mode {
	var v1, v2 bool
	for _, h := range list {
		v1 = v1 || !h.v2
		v2 = v2 || h.v2
	}
	switch {
	case v1 && v2:
		return ModeHybrid
	case v1:
		return ModeV1
	case v2:
		return ModeV2
	default:
		return ModeNone
	}
}

// commonAncestor is the deepest cgroup directory above both a and b. On v2 whoever moves a process needs
// write permission on its cgroup.procs.
func commonAncestor(a, b string) string {
	as, bs := strings.Split(filepath.Clean(a), "/"), strings.Split(filepath.Clean(b), "/")
	n := 0
	for n < len(as) && n < len(bs) && as[n] == bs[n] {
		n++
	}
	if n <= 1 {
		return "/"
	}
	return strings.Join(as[:n], "/")
}
