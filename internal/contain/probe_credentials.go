package contain

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

func probeCredentials(t Targets) sallyport.LayerReport {
	p := &trials{layer: sallyport.LayerCredentials, fix: "take the variable out of the command's environment, or open the descriptor close-on-exec"}
	p.environment(t)
	open, err := Inheritable()
	switch {
	case err != nil:
		p.add("descriptors", errName(bare(err)), false)
	case len(open) > 0:
		p.add("descriptors that a command would inherit", fmt.Sprint(open), false)
	default:
		p.add("descriptors that a command would inherit", "none above 2", true)
	}
	return p.report()
}

// environment names the variable that offends, never its value.
func (p *trials) environment(t Targets) {
	if len(t.ForbidNames)+len(t.ForbidValues) == 0 {
		p.add("environment", "no pattern was given, so none was looked for", false)
		return
	}
	clean := true
	for _, entry := range t.Env {
		name, _, _ := strings.Cut(entry, "=")
		if why := t.forbids(name, entry); why != "" {
			p.add("variable "+strconv.Quote(name), why, false)
			clean = false
		}
	}
	if clean {
		p.add("environment", fmt.Sprintf("%d variables match none of %d patterns", len(t.Env), len(t.ForbidNames)+len(t.ForbidValues)), true)
	}
}

func (t Targets) forbids(name, entry string) string {
	for _, v := range t.ForbidValues {
		if v != "" && strings.Contains(entry, v) {
			return "holds what looks like a credential"
		}
	}
	if slices.Contains(t.AllowNames, name) {
		return ""
	}
	for _, g := range t.ForbidNames {
		if ok, err := path.Match(g, strings.ToUpper(name)); ok || err != nil {
			return "named like a credential (" + g + ")"
		}
	}
	return ""
}

// SealDescriptors marks every descriptor above 2 close-on-exec. Keeper and runner call it first of all: whoever
// started them may have left descriptors open (shells and service managers do), and Go passes on what it did
// not open itself.
func SealDescriptors() error {
	if err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err == nil {
		return nil
	}
	// Before Linux 5.11.
	open, err := Inheritable()
	for _, fd := range open {
		unix.CloseOnExec(fd)
	}
	return err
}

// Inheritable lists the descriptors above 2 that a child would inherit: those without close-on-exec. The
// keeper asks the same before it starts a command. It uses /proc where that shows this process, else it tries
// every number below the limit on open files.
func Inheritable() ([]int, error) {
	fds, err := openDescriptors()
	if err != nil {
		return nil, err
	}
	var open []int
	for _, fd := range fds {
		if fd <= 2 {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && flags&unix.FD_CLOEXEC == 0 {
			open = append(open, fd)
		}
	}
	return open, nil
}

func openDescriptors() ([]int, error) {
	entries, err := os.ReadDir("/proc/thread-self/fd")
	var fds []int
	if err == nil {
		for _, e := range entries {
			if n, err := strconv.Atoi(e.Name()); err == nil {
				fds = append(fds, n)
			}
		}
		return fds, nil
	}
	var lim unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &lim); err != nil {
		return nil, err
	}
	for fd := 0; fd < int(min(lim.Cur, 1<<16)); fd++ {
		fds = append(fds, fd)
	}
	return fds, nil
}
