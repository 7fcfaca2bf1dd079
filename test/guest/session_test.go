package guest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport/tools/guest"
	"sallyport.dev/sallyport/tools/guest/talk"
)

// The cgroups of the guest, laid out as systemd does: the folder given to the user, and leaves in which the
// user's commands are born. A login session lies beside what was given, in folders of root.
const (
	cgroups   = "/sys/fs/cgroup"
	userSlice = cgroups + "/user.slice/user-1001.slice"
	delegated = userSlice + "/user@1001.service"
	leaf      = delegated + "/app.slice/terminal.scope"
	login     = userSlice + "/session-1.scope"
	// Without systemd: a folder given by hand, with a leaf for the driver.
	byHand     = cgroups + "/given"
	byHandLeaf = byHand + "/driver"
)

// layOut gives the user its home, its runtime folder and its cgroups. The controllers are switched on from
// the top down to what is given and no further: the rest is the user's own to do.
const layOut = `set -eu
chown -R 1001:1001 /home/dev
mkdir -p -m 755 /run/user; mkdir -m 700 /run/user/1001; chown 1001:1001 /run/user/1001
give() { chown 1001:1001 "$1" "$1/cgroup.procs" "$1/cgroup.subtree_control" "$1/cgroup.threads"; }
cd /sys/fs/cgroup
echo "+cpu +memory +pids" > cgroup.subtree_control
for d in user.slice user.slice/user-1001.slice; do mkdir $d; echo "+cpu +memory +pids" > $d/cgroup.subtree_control; done
mkdir user.slice/user-1001.slice/session-1.scope
cd user.slice/user-1001.slice; mkdir user@1001.service; give user@1001.service
mkdir -p user@1001.service/app.slice/terminal.scope; chown -R 1001:1001 user@1001.service/app.slice
cd /sys/fs/cgroup; mkdir given given/driver; give given; chown -R 1001:1001 given/driver
`

// session runs commands in one guest.
type session struct {
	ctx     context.Context
	machine *guest.Machine
}

// root runs a shell script as root in the root cgroup; it must succeed.
func (s session) root(t *testing.T, script string) string {
	t.Helper()
	a := s.run(t, script, 0, "/", "", 30*time.Second)
	if a.Exit != 0 {
		t.Fatalf("as root: exit %d, signal %d\n%s%s", a.Exit, a.Signal, a.Stdout, a.Stderr)
	}
	return string(a.Stdout)
}

// user runs a shell script as the ordinary user in a cgroup, and returns how it ended.
func (s session) user(t *testing.T, cgroup, script string, limit time.Duration) talk.Answer {
	t.Helper()
	return s.run(t, script, guest.UID, guest.Home, cgroup, limit)
}

func (s session) run(t *testing.T, script string, uid uint32, dir, cgroup string, limit time.Duration) talk.Answer {
	t.Helper()
	a, err := s.machine.Run(s.ctx, talk.Command{Argv: []string{"/bin/sh", "-c", script}, Env: environment(uid), Dir: dir, UID: uid, GID: uid, Cgroup: cgroup, Timeout: limit})
	if err != nil {
		t.Fatalf("%v; console:\n%s", err, s.machine.Console())
	}
	if a.TimedOut {
		t.Fatalf("not ended after %v: %s\n%s%s", limit, script, a.Stdout, a.Stderr)
	}
	return a
}

func environment(uid uint32) []string {
	env := []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "TERM=dumb"}
	if uid == 0 {
		return append(env, "HOME=/root")
	}
	return append(env, "HOME="+guest.Home, "USER="+guest.User, "LOGNAME="+guest.User, fmt.Sprintf("XDG_RUNTIME_DIR=/run/user/%d", uid))
}

// belongings is what an Attempt may leave nothing of: cgroups, mounts, processes of the user, one a line.
func (s session) belongings(t *testing.T) map[string]bool {
	t.Helper()
	out := s.root(t, `find /sys/fs/cgroup -type d | sed 's/^/cgroup /'; sed 's/^/mount /' /proc/1/mounts; ps -o pid=,args= -u 1001 | sed 's/^/process /' || true; ls /tmp /var/tmp /dev/shm /run/user/1001 | sed 's/^/file /'`)
	set := map[string]bool{}
	for line := range strings.Lines(out) {
		set[strings.TrimSpace(line)] = true
	}
	return set
}

// nothingLeft waits until what is there is again what was there: the driver outlives its command line for a
// moment, and no more.
func (s session) nothingLeft(t *testing.T, before map[string]bool) {
	t.Helper()
	var more []string
	for range 20 {
		more = nil
		for b := range s.belongings(t) {
			if !before[b] {
				more = append(more, b)
			}
		}
		if len(more) == 0 {
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
	t.Errorf("left behind:\n%s", strings.Join(more, "\n"))
}
