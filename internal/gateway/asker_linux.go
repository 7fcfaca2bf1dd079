package gateway

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Which process inside asked. The socket says in which network namespace it is; the namespace's table of sockets says
// which one has the other end; and that one's holder is looked for among the processes of the namespace. It is a claim:
// a process may hand its socket to another, or end before anybody looks, and it chooses its own file's name.

const (
	maxTable     = 1 << 20 // bytes of a table of sockets
	maxProcesses = 4096    // of the machine, looked through
	maxHolding   = 4096    // descriptors of one process
)

// askerOf is the holder of the other end of c, "" if it cannot be found.
func askerOf(c net.Conn) string {
	t, ok := can[syscall.Conn](c)
	if !ok {
		return ""
	}
	peer, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return ""
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return ""
	}
	var who string
	_ = raw.Control(func(fd uintptr) { who = holder(int(fd), []string{"tcp", "tcp6"}, peer) })
	return who
}

// asker is the same for a question that came from an address.
func (q *Questions) asker(from netip.AddrPort) string {
	return holder(q.fd, []string{"udp", "udp6"}, from)
}

// holder finds who in fd's network namespace has a socket with that address of its own.
func holder(fd int, tables []string, own netip.AddrPort) string {
	ns, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCGSKNS, 0)
	if e != 0 {
		return ""
	}
	defer unix.Close(int(ns))
	var st unix.Stat_t
	if unix.Fstat(int(ns), &st) != nil {
		return ""
	}
	pids := processesIn(fmt.Sprintf("net:[%d]", st.Ino))
	if len(pids) == 0 {
		return ""
	}
	inodes := map[string]bool{}
	for _, table := range tables {
		findSocket("/proc/"+pids[0]+"/net/"+table, own, inodes)
	}
	for _, pid := range pids {
		if holds(pid, inodes) {
			return describe(pid)
		}
	}
	return ""
}

func processesIn(namespace string) (pids []string) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	all, _ := proc.Readdirnames(maxProcesses)
	for _, pid := range all {
		if _, err := strconv.Atoi(pid); err != nil {
			continue
		}
		if ns, err := os.Readlink("/proc/" + pid + "/ns/net"); err == nil && ns == namespace {
			pids = append(pids, pid)
		}
	}
	return pids
}

// findSocket adds the inodes of the sockets whose own address that is (proc_net_tcp(5)).
func findSocket(table string, own netip.AddrPort, inodes map[string]bool) {
	f, err := os.Open(table)
	if err != nil {
		return
	}
	defer f.Close()
	lines := bufio.NewScanner(io.LimitReader(f, maxTable))
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 10 || words[9] == "0" {
			continue
		}
		a, ok := tableAddress(words[1])
		if ok && a.Port() == own.Port() && (a.Addr() == own.Addr().Unmap() || a.Addr().IsUnspecified()) {
			inodes["socket:["+words[9]+"]"] = true
		}
	}
}

// tableAddress reads HEX:PORT, where each four bytes of the address are in this machine's order.
func tableAddress(s string) (netip.AddrPort, bool) {
	host, port, _ := strings.Cut(s, ":")
	p, err := strconv.ParseUint(port, 16, 16)
	if err != nil {
		return netip.AddrPort{}, false
	}
	b, err := hex.DecodeString(host)
	if err != nil || len(b) != 4 && len(b) != 16 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(b); i += 4 {
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	a, _ := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(a.Unmap(), uint16(p)), true
}

func holds(pid string, inodes map[string]bool) bool {
	dir, err := os.Open("/proc/" + pid + "/fd")
	if err != nil {
		return false
	}
	defer dir.Close()
	fds, _ := dir.Readdirnames(maxHolding)
	for _, fd := range fds {
		if to, err := os.Readlink("/proc/" + pid + "/fd/" + fd); err == nil && inodes[to] {
			return true
		}
	}
	return false
}

// describe names a process as it is called inside: its program and its pid there.
func describe(pid string) string {
	exe, err := os.Readlink("/proc/" + pid + "/exe")
	if err != nil {
		return ""
	}
	return printable(fmt.Sprintf("%s (pid %s)", filepath.Clean(exe), insidePID(pid)), 200)
}

// insidePID is the pid in the innermost namespace.
func insidePID(pid string) string {
	b, err := os.ReadFile("/proc/" + pid + "/status")
	if err == nil {
		for line := range strings.Lines(string(b)) {
			if ids, ok := strings.CutPrefix(line, "NSpid:"); ok {
				if all := strings.Fields(ids); len(all) > 0 {
					return all[len(all)-1]
				}
			}
		}
	}
	return "?"
}
