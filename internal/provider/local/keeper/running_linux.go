package keeper

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

const (
	runningMost  = 5                      // processes that are named
	runningBytes = 120                    // of each one's name and arguments
	runningWait  = 500 * time.Millisecond // for the look: it must not put off the end
)

// running says in a line what runs in the sandbox. It is seen from outside, yet each process chooses its own name
// and arguments: a claim. "": nothing was seen, or not in time, since a process can make those who read its
// arguments wait.
func (k *keeper) running() string {
	seen := make(chan string, 1)
	go func() {
		var all []proc
		first := k.firstPID()
		for _, pid := range k.processes() {
			if p, err := readProc(pid); err == nil && pid != first {
				all = append(all, p)
			}
		}
		seen <- sayRunning(all)
	}()
	select {
	case s := <-seen:
		return s
	case <-time.After(runningWait):
		return ""
	}
}

// firstPID is PID 1's, as the host numbers it.
func (k *keeper) firstPID() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.sandbox == nil {
		return ""
	}
	return strconv.Itoa(k.sandbox.cmd.Process.Pid)
}

// proc is one process of the sandbox.
type proc struct {
	pid, parent string
	state       string
	began       uint64 // clock ticks since boot
	text        string
}

// readProc reads /proc/PID; the arguments too, since a process that was chosen may have ended until they are.
func readProc(pid string) (proc, error) {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return proc{}, err
	}
	p, name, err := parseStat(pid, string(stat))
	if err != nil {
		return p, err
	}
	f, err := os.Open("/proc/" + pid + "/cmdline")
	if err != nil {
		return p, err
	}
	defer f.Close()
	b := make([]byte, runningBytes+1) // one read: what is longer is not shown whole anyway
	n, _ := f.Read(b)
	p.text = sayArguments(name, b[:n])
	return p, nil
}

// parseStat takes what is needed of proc(5)'s stat. The name stands in parentheses and may hold any.
func parseStat(pid, stat string) (p proc, name string, err error) {
	open, end := strings.IndexByte(stat, '('), strings.LastIndexByte(stat, ')')
	if open < 0 || end < open {
		return p, "", fmt.Errorf("expected a name in parentheses")
	}
	fields := strings.Fields(stat[end+1:]) // the first is field 3, state
	if len(fields) < 20 {
		return p, "", fmt.Errorf("expected 22 fields or more")
	}
	p = proc{pid: pid, state: fields[0], parent: fields[1]}
	p.began, err = strconv.ParseUint(fields[19], 10, 64)
	return p, stat[open+1 : end], err
}

// sayArguments is a command line within runningBytes. What does not fit is left out by whole arguments: of half
// a secret nobody could tell that it is one.
func sayArguments(name string, cmdline []byte) string {
	whole, args := len(cmdline) <= runningBytes, bytes.Split(bytes.TrimRight(cmdline, "\x00"), []byte{0})
	if !whole {
		args = args[:len(args)-1]
	}
	var said string
	for i, a := range args {
		next := strings.TrimLeft(said+" "+visible(string(a)), " ")
		if len(next) > runningBytes-len(" …") {
			args, whole = args[:i], false
			break
		}
		said = next
	}
	if said == "" {
		said = visible(name)
	}
	if !whole {
		said += " …"
	}
	return said
}

// visible drops what is not printed. It puts nothing in its place: a known secret is still one.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}

// sayRunning names the deepest first, and of those the oldest: what is above them waits for them.
func sayRunning(all []proc) string {
	all = slices.DeleteFunc(all, func(p proc) bool { return p.state == "Z" || p.state == "X" })
	if len(all) == 0 {
		return ""
	}
	depth := depths(all)
	slices.SortFunc(all, func(a, b proc) int {
		if d := depth[b.pid] - depth[a.pid]; d != 0 {
			return d
		}
		if a.began != b.began {
			return map[bool]int{true: -1, false: 1}[a.began < b.began]
		}
		return strings.Compare(a.pid, b.pid)
	})
	var names []string
	for _, p := range all[:min(len(all), runningMost)] {
		names = append(names, p.text)
	}
	if n := len(all) - len(names); n > 0 {
		names = append(names, fmt.Sprintf("and %d more", n))
	}
	return "it was running: " + strings.Join(names, "; ")
}

// depths are how many of all stand above each. Seen one after the other while they change, parents may form a
// ring: each counts once.
func depths(all []proc) map[string]int {
	parent := map[string]string{}
	for _, p := range all {
		parent[p.pid] = p.parent
	}
	depth := map[string]int{}
	for _, p := range all {
		at, n := p.parent, 0
		for n < len(all) {
			up, ok := parent[at]
			if !ok {
				break
			}
			at = up
			n++
		}
		depth[p.pid] = n
	}
	return depth
}
