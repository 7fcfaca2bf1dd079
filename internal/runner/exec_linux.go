package runner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
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

// Start starts cmd as a child of this process: Stage, and at once Staged.Start.
func Start(p *contain.Prepared, before func() error, cmd Command) (pid int, master *os.File, err error) {
	return Stage(p, before, cmd).Start()
}

// Staged is a Command whose thread stands ready to fork it.
type Staged struct {
	begin   chan struct{} // closed: go on
	dropped chan struct{} // closed: it will not be started
	done    chan struct{} // closed: the fields below are set
	once    sync.Once     // of begin and dropped

	pid    int
	master *os.File
	err    error
}

// Stage makes ready what starts cmd. A thread of its own does it: it first runs before (joining namespaces or a cgroup;
// may be nil), gives up every power for good, and forks when it is told to. So the child is born confined, no second
// program stands between, and the kernel tells this process how it ended. It ends with Start or Drop; until then its
// thread holds on to what before has joined.
func Stage(p *contain.Prepared, before func() error, cmd Command) *Staged {
	s := &Staged{begin: make(chan struct{}), dropped: make(chan struct{}), done: make(chan struct{})}
	go contain.Spend(func() {
		defer close(s.done)
		s.pid, s.master, s.err = s.run(p, before, cmd)
	})
	return s
}

// Start starts what was staged, once; a repeat gives the same answer.
//
// Errors name what could not be done; a program that is not there is CodeNotFound-shaped by os.ErrNotExist.
// The returned master is nil unless Command.Terminal.
func (s *Staged) Start() (pid int, master *os.File, err error) {
	s.once.Do(func() { close(s.begin) })
	<-s.done
	return s.pid, s.master, s.err
}

// Drop gives up what was not started, and waits until nothing of it is left. After Start: nothing.
func (s *Staged) Drop() {
	s.once.Do(func() { close(s.dropped) })
	<-s.done
}

var errDropped = errors.New("it was given up before it started")

// run is the life of the thread.
func (s *Staged) run(p *contain.Prepared, before func() error, cmd Command) (int, *os.File, error) {
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
	files, master, opened, err := openFiles(cmd)
	defer func() {
		for _, fd := range opened {
			unix.Close(fd)
		}
	}()
	if err != nil {
		return 0, nil, err
	}
	fork := cmd.Fork
	if fork == nil {
		fork = syscall.ForkExec
	}
	err = errDropped
	var pid int
	select {
	case <-s.begin:
		pid, err = fork(path, cmd.Argv, &syscall.ProcAttr{Dir: cmd.Dir, Env: cmd.Env, Files: files[:], Sys: &syscall.SysProcAttr{Setsid: true, Setctty: cmd.Terminal}})
	case <-s.dropped:
	}
	if err != nil {
		if master != nil {
			master.Close()
		}
		return 0, nil, fmt.Errorf("start %s in %s: %w", path, cmd.Dir, err)
	}
	return pid, master, nil
}

// openFiles are cmd's first three descriptors, a terminal's other side, and what is to be closed once cmd has them.
func openFiles(cmd Command) (files [3]uintptr, master *os.File, opened []int, err error) {
	if cmd.Terminal {
		m, slave, err := openPTY()
		if err != nil {
			return files, nil, nil, fmt.Errorf("make a terminal: %w", err)
		}
		return [3]uintptr{uintptr(slave), uintptr(slave), uintptr(slave)}, m, []int{slave}, nil
	}
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return files, nil, nil, fmt.Errorf("open /dev/null: %w", err)
	}
	files = [3]uintptr{fdOr(cmd.Stdin, null), fdOr(cmd.Stdout, null), 0}
	files[2] = files[1]
	if cmd.Stderr != nil {
		files[2] = cmd.Stderr.Fd()
	}
	return files, nil, []int{null}, nil
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
