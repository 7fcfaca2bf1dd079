package contain

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

func probeProcess(t Targets) sallyport.LayerReport {
	p := &trials{layer: sallyport.LayerProcess, fix: "the provider must confine the thread (contain.Prepared.Apply) inside a user and a pid namespace of its own"}
	status, err := threadStatus()
	if err != nil {
		p.add("read own status", errName(err), false)
		return p.report()
	}
	p.identity(t, status)
	p.powers(status)
	p.becomeRoot()
	p.visible(t)
	p.pidOne(t)
	return p.report()
}

// threadStatus is the calling thread's status file: /proc/self would be the process's first thread.
func threadStatus() (map[string]string, error) {
	f, err := os.Open("/proc/thread-self/status")
	if err != nil {
		return nil, bare(err)
	}
	defer f.Close()
	status := map[string]string{}
	for s := bufio.NewScanner(f); s.Scan(); {
		if k, v, ok := strings.Cut(s.Text(), ":"); ok {
			status[k] = strings.Join(strings.Fields(v), " ")
		}
	}
	return status, nil
}

func (p *trials) identity(t Targets, status map[string]string) {
	for _, k := range []struct {
		name string
		want int
	}{{"Uid", t.UID}, {"Gid", t.GID}} {
		n := strconv.Itoa(k.want)
		got := status[k.name]
		p.add(strings.ToLower(k.name), got, k.want > 0 && got == strings.Join([]string{n, n, n, n}, " "))
	}
	for _, file := range []string{"uid_map", "gid_map"} {
		id := t.UID
		if file == "gid_map" {
			id = t.GID
		}
		outside, ok := mappedTo(file, id)
		p.add("host id in "+file, strconv.FormatInt(outside, 10), ok && outside != 0)
	}
	switch groups := status["Groups"]; {
	case groups == "":
		p.add("supplementary groups", "none", true)
	case t.OneID:
		p.add("supplementary groups", "kept", true)
		p.weak("one id is mapped: the user's supplementary groups stay (%d of them)", len(strings.Fields(groups)))
	default:
		p.add("supplementary groups", groups, false)
	}
	if t.OneID {
		p.weak("the command runs as the user's own uid")
	}
}

// mappedTo is the id outside that id stands for. A map of all ids onto themselves is no user namespace of its
// own, and id 0 outside is the host's root.
func mappedTo(file string, id int) (outside int64, ok bool) {
	data, err := os.ReadFile("/proc/thread-self/" + file)
	if err != nil {
		return -1, false
	}
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		var in, out, n int64
		if c, _ := fmt.Sscan(line, &in, &out, &n); c != 3 {
			return -1, false
		}
		if in == 0 && out == 0 && n == 1<<32-1 {
			return 0, false
		}
		if int64(id) >= in && int64(id) < in+n {
			return out + int64(id) - in, true
		}
	}
	return -1, false
}

func (p *trials) powers(status map[string]string) {
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		v := strings.TrimLeft(status[set], "0")
		p.add(set, "0"+v, status[set] != "" && v == "")
	}
	p.add("NoNewPrivs", status["NoNewPrivs"], status["NoNewPrivs"] == "1")
}

// becomeRoot: where it succeeds, the thread is thrown away with what it became.
func (p *trials) becomeRoot() {
	for _, k := range []struct {
		name string
		call uintptr
	}{{"setgid(0)", unix.SYS_SETRESGID}, {"setuid(0)", unix.SYS_SETRESUID}} {
		_, _, e := unix.RawSyscall(k.call, 0, 0, 0)
		p.want(k.name, raw(e), unix.EPERM, unix.EINVAL) // EINVAL: 0 is not mapped
	}
}

func (p *trials) pidOne(t Targets) {
	out, err := askOutsider()
	if err != nil {
		p.add("ask from another process", errName(err), false)
		return
	}
	// EACCES comes from Landlock, which older kernels ask first.
	for _, k := range []struct {
		name string
		got  unix.Errno
	}{{"trace pid 1", out.memory}, {"open /proc/1/mem", out.procMem}, {"open /proc/1/environ", out.environ}, {"follow /proc/1/root", out.root}} {
		p.want(k.name, raw(k.got), unix.EPERM, unix.EACCES)
	}
	if t.OneID && out.signal == 0 && landlockABI() < 6 {
		p.add("signal pid 1", "allowed", true)
		p.weak("pid 1 shares the command's uid and this kernel cannot scope signals: only those pid 1 ignores or does not handle are harmless")
		return
	}
	p.want("signal pid 1", raw(out.signal), unix.EPERM)
}

func (p *trials) visible(t Targets) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		p.add("list processes", errName(bare(err)), false)
		return
	}
	n := 0
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err == nil {
			n++
		}
	}
	p.add("visible processes", strconv.Itoa(n), n >= 1 && n <= max(1, t.Processes))
}

// bare is the errno within err, if there is one: paths and calls are in the trial's name.
func bare(err error) error {
	for e := err; e != nil; {
		if no, ok := e.(unix.Errno); ok {
			return no
		}
		u, ok := e.(interface{ Unwrap() error })
		if !ok {
			break
		}
		e = u.Unwrap()
	}
	return err
}
