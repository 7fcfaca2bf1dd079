package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"sallyport.dev/sallyport"
)

// The hybrid fixture was recorded on a real host (mountinfo cut to its cgroup lines); the others are written
// by hand in the format of proc(5), in the shape of a systemd host, an older one, and a container.
func TestLayout(t *testing.T) {
	type want struct {
		mount, own string
		v2         bool
		has        []string
	}
	for _, k := range []struct {
		name string
		mode Mode
		want []want
	}{
		{"hybrid", ModeHybrid, []want{
			{"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu", false, []string{"cpu"}},
			{"/sys/fs/cgroup/cpuacct", "/sys/fs/cgroup/cpuacct", false, []string{"cpuacct"}},
			{"/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory/service/78f5", false, []string{"memory"}},
			{"/sys/fs/cgroup/pids", "/sys/fs/cgroup/pids", false, []string{"pids"}},
			{"/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified", true, nil},
		}},
		{"v2-systemd", ModeV2, []want{
			{"/sys/fs/cgroup", "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/run-r1.scope", true, nil},
		}},
		{"v1-comounted", ModeV1, []want{
			{"/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct/user.slice", false, []string{"cpu", "cpuacct"}},
			{"/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory/user.slice/user-1000.slice/session-2.scope", false, []string{"memory"}},
			{"/sys/fs/cgroup/pids", "/sys/fs/cgroup/pids/user.slice", false, []string{"pids"}},
		}},
		{"v1-in-container", ModeV1, []want{
			{"/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory", false, []string{"memory"}},
			{"/sys/fs/cgroup/pids dir", "/sys/fs/cgroup/pids dir/child", false, []string{"pids"}},
		}},
		{"none", ModeNone, nil},
	} {
		t.Run(k.name, func(t *testing.T) {
			list := parseLayout(fixture(t, k.name+".mountinfo"), fixture(t, k.name+".cgroup"))
			if got := modeOf(list); got != k.mode {
				t.Errorf("mode %s, want %s", got, k.mode)
			}
			if len(list) != len(k.want) {
				t.Fatalf("got %d hierarchies: %+v", len(list), list)
			}
			for i, w := range k.want {
				h := list[i]
				if h.mount != w.mount || h.own() != w.own || h.v2 != w.v2 || !slices.Equal(h.has, w.has) {
					t.Errorf("%d: %+v own %q, want %+v", i, h, h.own(), w)
				}
				// Law: the kernel's name of our own directory is what the kernel said.
				if got := h.path(h.own()); got != h.self {
					t.Errorf("%d: path of own directory %q, kernel says %q", i, got, h.self)
				}
			}
		})
	}
}

func fixture(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// FuzzLayout: a directory of ours lies at or below its mount, and a hierarchy of version 1 has a controller.
func FuzzLayout(f *testing.F) {
	for _, n := range []string{"hybrid", "v2-systemd", "v1-comounted", "v1-in-container", "none"} {
		a, _ := os.ReadFile("testdata/" + n + ".mountinfo")
		b, _ := os.ReadFile("testdata/" + n + ".cgroup")
		f.Add(string(a), string(b))
	}
	f.Fuzz(func(t *testing.T, mountinfo, self string) {
		for _, h := range parseLayout(mountinfo, self) {
			// Law: a directory of ours lies at or below its mount.
			if own := h.own(); own != "" && filepath.IsAbs(h.mount) && !within(own, h.mount) {
				t.Fatalf("%+v: own %q", h, own)
			}
			if !h.v2 && len(h.has) == 0 {
				t.Fatalf("%+v has no controller", h)
			}
		}
	})
}

func within(p, dir string) bool {
	rel, err := filepath.Rel(dir, p)
	return err == nil && rel != ".." && !(len(rel) > 2 && rel[:3] == "../")
}

func TestCommonAncestor(t *testing.T) {
	for _, k := range [][3]string{
		{"/sys/fs/cgroup/user.slice/a", "/sys/fs/cgroup/user.slice/b/c", "/sys/fs/cgroup/user.slice"},
		{"/sys/fs/cgroup/a", "/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a"},
		{"/sys/fs/cgroup/ab", "/sys/fs/cgroup/a", "/sys/fs/cgroup"},
		{"/sys/fs/cgroup", "/sys/fs/cgroup", "/sys/fs/cgroup"},
		{"/a", "/b", "/"},
	} {
		if got := commonAncestor(k[0], k[1]); got != k[2] {
			t.Errorf("%s and %s: %s, want %s", k[0], k[1], got, k[2])
		}
		if got := commonAncestor(k[1], k[0]); got != k[2] {
			t.Errorf("not symmetric: %s", got)
		}
	}
}

func TestCandidates(t *testing.T) {
	v2 := hierarchy{mount: "/sys/fs/cgroup", root: "/", self: "/user.slice/user-1000.slice/session-3.scope", v2: true}
	v1 := hierarchy{mount: "/sys/fs/cgroup/memory", root: "/", self: "/"}
	for _, k := range []struct {
		h    hierarchy
		uid  int
		want []string
	}{
		{v1, 0, []string{"/sys/fs/cgroup/memory"}},
		{v1, 1000, []string{"/sys/fs/cgroup/memory/sallyport-1000", "/sys/fs/cgroup/memory"}},
		{v2, 0, []string{"/sys/fs/cgroup", "/sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope"}},
		{v2, 1000, []string{"/sys/fs/cgroup/sallyport-1000", "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service",
			"/sys/fs/cgroup/user.slice", "/sys/fs/cgroup/user.slice/user-1000.slice", "/sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope"}},
		// A folder given by hand comes before the leaf in it; outside of one's own cgroup namespace nothing does.
		{hierarchy{mount: "/sys/fs/cgroup", root: "/", self: "/given/driver", v2: true}, 7,
			[]string{"/sys/fs/cgroup/sallyport-7", "/sys/fs/cgroup/user.slice/user-7.slice/user@7.service", "/sys/fs/cgroup/given", "/sys/fs/cgroup/given/driver"}},
		// The manager's scope counts for whoever is in it, and comes before folders in the middle of the manager's tree.
		{hierarchy{mount: "/sys/fs/cgroup", root: "/", self: "/user.slice/user-7.slice/user@7.service/app.slice/sallyport.scope/sallyport-self", v2: true}, 7,
			[]string{"/sys/fs/cgroup/sallyport-7", "/sys/fs/cgroup/user.slice/user-7.slice/user@7.service/app.slice/sallyport.scope", "/sys/fs/cgroup/user.slice/user-7.slice/user@7.service",
				"/sys/fs/cgroup/user.slice", "/sys/fs/cgroup/user.slice/user-7.slice", "/sys/fs/cgroup/user.slice/user-7.slice/user@7.service/app.slice",
				"/sys/fs/cgroup/user.slice/user-7.slice/user@7.service/app.slice/sallyport.scope/sallyport-self"}},
		{hierarchy{mount: "/sys/fs/cgroup", root: "/", self: "/../other", v2: true}, 7,
			[]string{"/sys/fs/cgroup/sallyport-7", "/sys/fs/cgroup/user.slice/user-7.slice/user@7.service"}},
		{hierarchy{mount: "/sys/fs/cgroup", root: "/", self: "/", v2: true}, 0, []string{"/sys/fs/cgroup"}},
	} {
		if got := k.h.candidates(k.uid); !slices.Equal(got, k.want) {
			t.Errorf("uid %d: %q, want %q", k.uid, got, k.want)
		}
	}
}

func TestSettings(t *testing.T) {
	l := sallyport.Limits{Memory: 64 << 20, PIDs: 100, CPU: 1.5}
	for _, k := range []struct {
		controller string
		v2         bool
		want       []string
	}{
		{memory, false, []string{"memory.limit_in_bytes=67108864", "memory.memsw.limit_in_bytes=67108864"}},
		{memory, true, []string{"memory.max=67108864", "memory.swap.max=0"}},
		{pids, false, []string{"pids.max=100"}},
		{pids, true, []string{"pids.max=100"}},
		{cpu, false, []string{"cpu.cfs_period_us=100000", "cpu.cfs_quota_us=150000"}},
		{cpu, true, []string{"cpu.max=150000 100000"}},
	} {
		var got []string
		for _, s := range settingsFor(k.controller, k.v2, l) {
			got = append(got, s.file+"="+s.value)
		}
		if !slices.Equal(got, k.want) {
			t.Errorf("%s v2 %v: %q, want %q", k.controller, k.v2, got, k.want)
		}
	}
	if quota(0.001) != 1000 {
		t.Error("quota below the kernel's least")
	}
	for content, ok := range map[string]bool{"67108864": true, "67106816": true, "67104768": false, "67108865": false, "max": false, "9223372036854771712": false, "": false, "0": false} {
		if pages(64<<20)(content) != ok {
			t.Errorf("%q read back as 64 MiB: %v", content, !ok)
		}
	}
}

// What cannot be written is not held, whatever the reason, and the report says what would help.
func TestUnwritableIsNotHeld(t *testing.T) {
	for _, mode := range []Mode{ModeNone, ModeHybrid, ModeV2} {
		h := Host{Mode: mode, Problems: map[string]string{memory: "tried: EACCES"}}
		g, reports, err := h.Create("fac_1", "alc_1", sallyport.Limits{Memory: 1 << 30, PIDs: 10, CPU: 1})
		if g != nil || err != nil || len(reports) != 3 {
			t.Fatalf("%v %v %v", g, reports, err)
		}
		for _, r := range reports {
			if r.Status != sallyport.LayerNotHeld || r.Fix == "" {
				t.Errorf("%s: %+v", mode, r)
			}
		}
	}
	// A plain folder in place of a cgroup takes nothing.
	dir := t.TempDir()
	h := Host{Mode: ModeV2, places: []place{{hierarchy: hierarchy{mount: dir, root: "/", v2: true}, parent: dir, use: []string{memory, pids, cpu}}}}
	g, reports, err := h.Create("fac_1", "alc_1", sallyport.Limits{Memory: 1 << 30, PIDs: 10, CPU: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range reports {
		if r.Status == sallyport.LayerHeld {
			t.Errorf("a plain folder holds %s: %s", r.Layer, r.Proof)
		}
	}
	if g == nil {
		t.Fatal("the folder was not made")
	}
}

func TestCreateRefuses(t *testing.T) {
	ok := sallyport.Limits{Memory: 1 << 30, PIDs: 10}
	for _, k := range []struct {
		factory, allocation string
		l                   sallyport.Limits
	}{
		{"..", "alc_1", ok}, {"fac_1", "../x", ok}, {"fac_1", "a/b", ok}, {"", "alc_1", ok}, {"fac_1", "", ok}, {"fac_1", ".", ok}, {"fac_1", "A", ok},
		{"fac_1", "alc_1", sallyport.Limits{PIDs: 10}}, {"fac_1", "alc_1", sallyport.Limits{Memory: 1 << 30}},
		{"fac_1", "alc_1", sallyport.Limits{Memory: 1 << 30, PIDs: 10, CPU: -1}},
	} {
		if _, _, err := (Host{}).Create(k.factory, k.allocation, k.l); sallyport.CodeOf(err) != sallyport.CodeInvalid {
			t.Errorf("%+v: %v", k, err)
		}
	}
}
