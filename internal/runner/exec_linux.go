package runner

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport/internal/contain"
)

// Command is one program to start confined.
type Command struct {
	Argv     []string
	Dir      string
	Env      []string // complete
	Stdin    *os.File // nil: /dev/null
	Stdout   *os.File // nil: /dev/null
	Stderr   *os.File // nil: Stdout
	Terminal bool     // a pty made inside; Start returns its master
	// Fork starts the program; nil: syscall.ForkExec. It runs on the confined thread.
	Fork func(argv0 string, argv []string, attr *syscall.ProcAttr) (int, error)
}

// Start starts cmd as a child of this process. A thread of its own does it: it first runs before (joining
// namespaces or a cgroup; may be nil), gives up every power for good, and forks. So the child is born
// confined, no second program stands between, and the kernel tells this process how it ended.
//
// Errors name what could not be done; a program that is not there is CodeNotFound-shaped by os.ErrNotExist.
// The returned master is nil unless cmd.Terminal.
func Start(p *contain.Prepared, before func() error, cmd Command) (pid int, master *os.File, err error) {
	contain.Spend(func() { pid, master, err = startHere(p, before, cmd) })
	return pid, master, err
}

func startHere(p *contain.Prepared, before func() error, cmd Command) (int, *os.File, error) {
	if before != nil {
		if err := before(); err != nil {
			return 0, nil, err
		}
	}
	if err := p.Apply(); err != nil {
		return 0, nil, fmt.Errorf("confine: %w", err)
	}
	path, err := lookPath(cmd)
	if err != nil {
		return 0, nil, err
	}
	var close []int
	defer func() {
		for _, fd := range close {
			unix.Close(fd)
		}
	}()
	sys := &syscall.SysProcAttr{Setsid: true}
	var files [3]uintptr
	var master *os.File
	if cmd.Terminal {
		m, slave, err := openPTY()
		if err != nil {
			return 0, nil, fmt.Errorf("make a terminal: %w", err)
		}
		close = append(close, slave)
		master = m
		files = [3]uintptr{uintptr(slave), uintptr(slave), uintptr(slave)}
		sys.Setctty, sys.Ctty = true, 0
	} else {
		null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return 0, nil, fmt.Errorf("open /dev/null: %w", err)
		}
		close = append(close, null)
		files = [3]uintptr{fdOr(cmd.Stdin, null), fdOr(cmd.Stdout, null), 0}
		files[2] = files[1]
		if cmd.Stderr != nil {
			files[2] = cmd.Stderr.Fd()
		}
	}
	fork := cmd.Fork
	if fork == nil {
		fork = syscall.ForkExec
	}
	pid, err := fork(path, cmd.Argv, &syscall.ProcAttr{Dir: cmd.Dir, Env: cmd.Env, Files: files[:], Sys: sys})
	if err != nil {
		if master != nil {
			master.Close()
		}
		return 0, nil, fmt.Errorf("start %s in %s: %w", path, cmd.Dir, err)
	}
	return pid, master, nil
}

func fdOr(f *os.File, null int) uintptr {
	if f == nil {
		return uintptr(null)
	}
	return f.Fd()
}

// lookPath resolves the program by the command's own PATH, as seen from inside.
func lookPath(cmd Command) (string, error) {
	name := cmd.Argv[0]
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(cmd.Dir, name)
		}
		return name, executable(name)
	}
	for _, kv := range cmd.Env {
		dirs, ok := strings.CutPrefix(kv, "PATH=")
		if !ok {
			continue
		}
		for _, d := range strings.Split(dirs, ":") {
			if p := filepath.Join(d, name); filepath.IsAbs(p) && executable(p) == nil {
				return p, nil
			}
		}
	}
	return "", &os.PathError{Op: "find program", Path: name, Err: os.ErrNotExist}
}

func executable(p string) error {
	var st unix.Stat_t
	if err := unix.Stat(p, &st); err != nil {
		return &os.PathError{Op: "find program", Path: p, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Mode&0o111 == 0 {
		return &os.PathError{Op: "find program", Path: p, Err: os.ErrPermission}
	}
	return nil
}

// openPTY makes a pseudo-terminal in the devpts of the mount namespace this thread is in.
func openPTY() (*os.File, int, error) {
	m, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, -1, err
	}
	if err := unix.IoctlSetPointerInt(m, unix.TIOCSPTLCK, 0); err != nil {
		unix.Close(m)
		return nil, -1, err
	}
	// TIOCGPTPEER opens the other side without a path, with these flags.
	s, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(m), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if e != 0 {
		unix.Close(m)
		return nil, -1, e
	}
	return os.NewFile(uintptr(m), "terminal"), int(s), nil
}
