package contain

import (
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Confinement says what a thread shall be left with. The zero value is refused: uid 0 is never the answer.
type Confinement struct {
	UID, GID int // as seen inside; never 0
	// ChangeIDs: switch to UID and GID and drop all supplementary groups. False where only one id is mapped;
	// then the thread must be UID and GID already, and the user's groups stay (the kernel denies setgroups).
	ChangeIDs bool
	// Writable are absolute paths inside that may be written, each with all beneath it; none: nothing but the
	// harmless devices.
	Writable []string
	// NoAttach: no process may take hold of another that it did not start itself. For checks, whose exit status
	// counts: the candidate's code runs under the test's own user, and could else make the test say 0.
	NoAttach bool
}

// Prepared is a Confinement made ready. It may be applied any number of times, by any thread, also at once.
type Prepared struct {
	want   Confinement
	filter []unix.SockFilter
	abi    int
}

// Prepare checks c, compiles the system call filter and asks the kernel for its Landlock version.
// CodeInvalid names the field.
func Prepare(c Confinement) (*Prepared, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	compiled := compiledPolicy
	if c.NoAttach {
		compiled = compiledNoAttach
	}
	filter, err := compiled()
	if err != nil {
		return nil, err
	}
	return &Prepared{want: c, filter: filter, abi: landlockABI()}, nil
}

// Warm does beforehand what Prepare would do at its first call.
func Warm() error {
	_, err := compiledPolicy()
	if err == nil {
		_, err = compiledNoAttach()
	}
	return err
}

// The two policies there are.
var (
	compiledPolicy   = sync.OnceValues(func() ([]unix.SockFilter, error) { return compile(policy()) })
	compiledNoAttach = sync.OnceValues(func() ([]unix.SockFilter, error) { return compile(withoutAttach(policy())) })
)

func (c Confinement) check() error {
	const op = "prepare confinement"
	if c.UID <= 0 {
		return invalid(op, "UID", fmt.Sprintf("expected a user id above 0, got %d", c.UID), nil)
	}
	if c.GID <= 0 {
		return invalid(op, "GID", fmt.Sprintf("expected a group id above 0, got %d", c.GID), nil)
	}
	for _, p := range c.Writable {
		if !filepath.IsAbs(p) || filepath.Clean(p) != p || p == "/" {
			return invalid(op, "Writable: "+p, "expected a clean absolute path below /", nil)
		}
	}
	return nil
}

// LandlockABI is the kernel's Landlock version; 0: there is none, and Apply leaves that layer out. Whether a
// sandbox without it may start is for the caller to decide, and Probe reports it as weaker.
func (p *Prepared) LandlockABI() int { return p.abi }

// Apply confines the calling thread for good. On error the thread is in between: throw it away and start
// nothing.
//
// Preconditions: the goroutine is locked to its thread and will never unlock it (see Spend); the thread has
// its sandbox's root; with ChangeIDs it holds CAP_SETUID and CAP_SETGID in its user namespace; CAP_SETPCAP
// unless its bounding set is empty already.
//
// Two effects reach beyond the thread, both wanted: the whole process becomes non-dumpable, and the thread no
// longer shares umask and working directory with the others.
func (p *Prepared) Apply() error {
	for _, s := range p.steps() {
		if err := s.do(); err != nil {
			return err
		}
	}
	return nil
}

// loss is one power that Apply takes away.
type loss struct {
	name string
	do   func() error
}

// steps are in this order because each needs a power that a later one takes away.
func (p *Prepared) steps() []loss {
	return []loss{
		{"umask", ownUmask},
		{"bounding", dropBoundingSet}, // CAP_SETPCAP
		{"ids", p.changeIDs},          // CAP_SETGID, CAP_SETUID
		{"keyring", leaveKeyring},     // as the new user, whose quota pays
		{"capabilities", dropCapabilities},
		{"no_new_privs", noNewPrivileges}, // lets an ordinary thread do the next two
		{"landlock", p.landlock},
		{"seccomp", p.seccomp}, // last: the steps above use calls that it refuses
	}
}

// Spend runs f on a thread of its own that ends with f, and waits. It never uses the process's first thread,
// which cannot be thrown away and whose user is the one that others see.
func Spend(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			Spend(f) // on another thread, since this goroutine holds the first one
			runtime.UnlockOSThread()
			return
		}
		f()
	}()
	<-done
}

// ownUmask: the umask is shared by the threads of a process until one asks for its own.
func ownUmask() error {
	if _, _, e := unix.RawSyscall(unix.SYS_UNSHARE, unix.CLONE_FS, 0, 0); e != 0 {
		return step("umask", "expected to part from the process's file system state", "", e)
	}
	unix.RawSyscall(unix.SYS_UMASK, 0o022, 0, 0)
	return nil
}

func (p *Prepared) seccomp() error {
	prog := unix.SockFprog{Len: uint16(len(p.filter)), Filter: &p.filter[0]}
	_, _, e := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	if e != 0 {
		return step("seccomp", "expected the kernel to take the system call filter", "the kernel needs CONFIG_SECCOMP_FILTER", e)
	}
	return nil
}
