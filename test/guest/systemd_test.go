package guest_test

import (
	"context"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/tools/guest"
	"sallyport.dev/sallyport/tools/guest/talk"
)

// What systemd makes of an ordinary user: a session that root owns, and a manager with a tree of its own.
const (
	manager = userSlice + "/user@1001.service"
	scope   = manager + "/app.slice/sallyport.scope"
)

// asOfOld is a host that an administrator has done nothing for, with what systemd delegated before version 252.
const asOfOld = `set -eu
chown -R 1001:1001 /home/dev
mkdir -p /run/systemd/system/user@.service.d
printf '[Service]\nDelegate=\nDelegate=memory pids\n' > /run/systemd/system/user@.service.d/10-old.conf
systemctl daemon-reload
`

// TestSystemd runs the shipped programs where systemd is process 1 and an ordinary user has logged in, on a host
// that lacks what `doctor --fix` is for, and then no longer. Its subtests build on each other.
func TestSystemd(t *testing.T) {
	base := guest.Need(t)
	ctx, cancel := context.WithTimeout(context.Background(), wholeTest)
	defer cancel()
	local := programs(ctx, t)
	start := time.Now()
	m, err := guest.Boot(ctx, base, t.TempDir(), guest.Config{Local: local, Systemd: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		t.Logf("the emulator took %.1f s of cpu in %.1f s", m.Close().Seconds(), time.Since(start).Seconds())
	}()
	t.Logf("systemd took commands after %.1f s", time.Since(start).Seconds())
	s := session{ctx: ctx, machine: m}
	s.root(t, asOfOld)
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"session", s.testSession}, {"as found", s.testAsFound}, {"fix", s.testFix}, {"after", s.testAfter},
		{"run and adopt", s.testScopeRun}, {"AppArmor", s.testAppArmor}, {"subordinate ids", s.testSubordinateIDs},
	} {
		if !t.Run(step.name, step.run) {
			return
		}
	}
}

// login runs a shell script in a new login session of the ordinary user, which ends with it.
func (s session) login(t *testing.T, script string) talk.Answer {
	t.Helper()
	a, err := s.machine.Run(s.ctx, talk.Command{Argv: []string{"/sbin/runuser", "-l", guest.User, "-c", script}, Env: environment(0), Dir: "/", Timeout: attemptMost})
	if err != nil {
		t.Fatalf("%v; console:\n%s", err, s.machine.Console())
	}
	if a.TimedOut {
		t.Fatalf("not ended: %s\n%s%s", script, a.Stdout, a.Stderr)
	}
	return a
}

// testSession makes sure that the guest is what the other tests are for: a session that the user cannot put a
// process out of, and a manager without a message bus of the user's.
func (s session) testSession(t *testing.T) {
	a := s.login(t, `cat /proc/1/comm; cut -d: -f3 /proc/self/cgroup; test -w /sys/fs/cgroup/user.slice/user-1001.slice/cgroup.procs; echo $?
		ls /run/user/1001/systemd/private; ls /run/user/1001/bus 2>/dev/null; cat `+manager+`/cgroup.controllers; loginctl show-user dev -p Linger`)
	want := regexp.MustCompile(`^systemd\n/user\.slice/user-1001\.slice/session-c\d+\.scope\n1\n/run/user/1001/systemd/private\nmemory pids\nLinger=no\n$`)
	if !want.Match(a.Stdout) {
		t.Fatalf("%s%s\nwant %s", a.Stdout, a.Stderr, want)
	}
}

// hostSays is the part of `doctor --json` that is looked at.
type hostSays struct {
	doctorSays
	Facts []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
		OK    bool   `json:"ok"`
	} `json:"facts"`
	Fixes []struct {
		Why     string `json:"why"`
		Command string `json:"command"`
	} `json:"fixes"`
}

func (s session) doctor(t *testing.T) hostSays {
	t.Helper()
	a := s.login(t, "sallyport doctor --json")
	var d hostSays
	if err := json.Unmarshal(a.Stdout, &d); err != nil || a.Exit != 0 || !d.OK {
		t.Fatalf("exit %d, %v\n%s%s", a.Exit, err, a.Stdout, a.Stderr)
	}
	t.Logf("%v", a.Took)
	s.scopeGone(t)
	return d
}

// fact is a fact's value.
func (d hostSays) fact(name string) string {
	for _, f := range d.Facts {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

// inScope: a layer held by a group in the user's scope.
func inScope(t *testing.T, layers []sallyport.LayerReport, want ...sallyport.Layer) {
	t.Helper()
	for _, w := range want {
		if l := find(layers, w); l.Status != sallyport.LayerHeld || !strings.HasPrefix(l.Proof, "cgroup v2 "+strings.TrimPrefix(scope, cgroups)+"/sallyport/fac_") {
			t.Errorf("layer %s: %s: %s", w, l.Status, l.Proof)
		}
	}
}

// scopeGone: once nobody is in it any more, systemd has neither the unit nor its folder, and no process of ours or
// mount is left.
func (s session) scopeGone(t *testing.T) {
	t.Helper()
	var left string
	for range 20 {
		left = s.root(t, `find /sys/fs/cgroup -path '*sallyport*'; pgrep -a -f '^(sallyport-keeper |[^ ]*sallyport drive )' || true; grep sallyport /proc/self/mounts || true`)
		if left == "" {
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
	t.Errorf("left behind:\n%s", left)
}

func (s session) testAsFound(t *testing.T) {
	d := s.doctor(t)
	inScope(t, d.Layers, sallyport.LayerMemory, sallyport.LayerPIDs)
	if l := find(d.Layers, sallyport.LayerCPU); l.Status != sallyport.LayerNotHeld || l.Fix == "" {
		t.Errorf("layer cpu: %+v", l)
	}
	for name, want := range map[string]string{"delegated to dev": "memory pids", "lingering of dev": "off", "subordinate ids of dev": "none"} {
		if got := d.fact(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	commands := 0
	for _, f := range d.Fixes {
		if f.Command != "" {
			commands++
		}
	}
	if commands != 3 {
		t.Errorf("expected three commands: %+v", d.Fixes)
	}
}

// changed is what --fix may change, as it is.
const changed = `cat /etc/systemd/system/user@.service.d/* /etc/subuid /etc/subgid 2>/dev/null || true; ls /var/lib/systemd/linger 2>/dev/null || true; cat /etc/passwd`

// testFix: root, called by the user through sudo, applies everything; a second time there is nothing to do.
func (s session) testFix(t *testing.T) {
	before := s.root(t, changed)
	fix := func() talk.Answer {
		a := s.run(t, "SUDO_UID=1001 SUDO_GID=1001 PATH=/usr/sbin:$PATH sallyport doctor --fix", 0, "/", "", attemptMost)
		if a.Exit != 0 {
			t.Fatalf("exit %d\n%s%s", a.Exit, a.Stdout, a.Stderr)
		}
		return a
	}
	a := fix()
	for _, want := range []string{"daemon-reload", "usermod --add-subuids 100000-165535 --add-subgids 100000-165535 dev", "loginctl enable-linger 1001"} {
		if !strings.Contains(string(a.Stderr), want) {
			t.Errorf("not run: %s\n%s", want, a.Stderr)
		}
	}
	after := s.root(t, changed)
	want := "[Service]\nDelegate=cpu memory pids\ndev:100000:65536\ndev:100000:65536\ndev\n" + before
	if after != want {
		t.Errorf("before:\n%s\nafter:\n%s\nwant:\n%s", before, after, want)
	}
	again := fix()
	if strings.Contains(string(again.Stderr), "\n+ ") || s.root(t, changed) != after {
		t.Errorf("the second time:\n%s", again.Stderr)
	}
}

// testAfter: a manager that was running goes on with what it had; the next one, as after the last logout or a
// reboot, has it all.
func (s session) testAfter(t *testing.T) {
	s.root(t, "systemctl restart user@1001.service")
	d := s.doctor(t)
	inScope(t, d.Layers, sallyport.LayerCPU, sallyport.LayerMemory, sallyport.LayerPIDs)
	held(t, d.Layers)
	for name, want := range map[string]string{"delegated to dev": "cpu memory pids", "lingering of dev": "on", "subordinate ids of dev": "65536 from 100000"} {
		if got := d.fact(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if len(d.Fixes) != 0 {
		t.Errorf("%+v", d.Fixes)
	}
}

// where says who is in the user's scope: the command of a run, known by what it sleeps, then driver and keeper.
const where = `p=$(pgrep -x -f "sleep 14.5"); cut -d: -f3 /proc/$p/cgroup; cd /sys/fs/cgroup$(cut -d: -f3 /proc/$p/cgroup)
cat memory.max pids.max cpu.max
for p in $(pgrep -f '^[^ ]*sallyport drive ') $(pgrep -f '^sallyport-keeper alc_'); do cut -d: -f3 /proc/$p/cgroup; done | sort | uniq -c`

// begin starts an Attempt and stops its command, so that there is time to look and to kill on a loaded host.
func (s session) begin(t *testing.T, name, options string) {
	a := s.login(t, repository+"exec sallyport run -d "+options+" --name "+name+` -- sh -c "sleep 14.5; echo better > text"`)
	if a.Exit != 0 {
		t.Fatalf("exit %d\n%s%s", a.Exit, a.Stdout, a.Stderr)
	}
	if a := s.run(t, `until pkill -STOP -x -f "sleep 14.5"; do sleep 0.2; done`, 0, "/", "", attemptMost); a.Exit != 0 {
		t.Fatalf("%s", a.Stderr)
	}
}

// goOn lets the command go on.
const goOn = `pkill -CONT -x -f "sleep 14.5"`

// finish waits for what begin has started.
func (s session) finish(t *testing.T) outcome {
	a := s.login(t, "cd repo; exec sallyport wait --json")
	var o outcome
	if err := json.Unmarshal(a.Stdout, &o); err != nil || a.Exit != 0 || o.State != "accepted" || o.Agent.By != "keeper" {
		t.Fatalf("exit %d, %v\n%s%s", a.Exit, err, a.Stdout, a.Stderr)
	}
	return o
}

// testScopeRun: every layer is required; the session that has started the run ends; its driver is killed; a driver
// started from another session joins the scope that the keeper has kept, and finishes.
func (s session) testScopeRun(t *testing.T) {
	s.begin(t, "kept", "--require all")
	group := regexp.QuoteMeta(strings.TrimPrefix(scope, cgroups))
	want := regexp.MustCompile(`^` + group + `/sallyport/fac_[a-z0-9]+/alc_[a-z0-9]+\n` + strconv.Itoa(96<<20) + `\n48\n75000 100000\n +(\d) ` + group + `/sallyport-self\n$`)
	if got := s.root(t, where); !want.MatchString(got) {
		t.Errorf("%q\nwant %s", got, want)
	}
	s.root(t, `kill -9 $(pgrep -f '^[^ ]*sallyport drive ')`)
	go func() {
		time.Sleep(4 * time.Second) // in the middle of what the next driver does
		s.machine.Run(s.ctx, talk.Command{Argv: []string{"/bin/sh", "-c", goOn}, Env: environment(0), Dir: "/", Timeout: attemptMost})
	}()
	o := s.finish(t)
	if o.Branch != "sallyport/kept" {
		t.Errorf("branch %q", o.Branch)
	}
	inScope(t, o.Layers, sallyport.LayerCPU, sallyport.LayerMemory, sallyport.LayerPIDs)
	s.scopeGone(t)
}

// testAppArmor loads the profile that `doctor --fix` writes, as far as Debian 12 knows its words: neither its parser
// nor its kernel has the permission that the profile is for. What can be seen is who it attaches to: the driver,
// and the keeper that the driver starts by a descriptor.
func (s session) testAppArmor(t *testing.T) {
	s.root(t, `printf 'profile sallyport /usr/local/bin/{sallyport,sallyport-keeper} flags=(unconfined) {\n}\n' > /etc/apparmor.d/sallyport
		/usr/sbin/apparmor_parser -r /etc/apparmor.d/sallyport; grep -x 'sallyport (unconfined)' /sys/kernel/security/apparmor/profiles`)
	s.begin(t, "profiled", "")
	got := s.root(t, `for p in $(pgrep -f '^[^ ]*sallyport drive '); do echo driver $(cat /proc/$p/attr/current); done
		for p in $(pgrep -f '^sallyport-keeper alc_'); do echo keeper $(cat /proc/$p/attr/current); done; `+goOn)
	if !regexp.MustCompile(`^driver sallyport \(unconfined\)\n(keeper sallyport \(unconfined\)\n)+$`).MatchString(got) {
		t.Errorf("%q", got)
	}
	s.finish(t)
	s.scopeGone(t)
}
