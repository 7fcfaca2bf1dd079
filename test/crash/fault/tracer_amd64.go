package fault

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Stop says what is to happen, and where: the n-th time that the party comes to the point.
type Stop struct {
	Point  Point
	Time   int
	Column Column
}

// Options are of one run.
type Options struct {
	Party   Party
	Symbols *Symbols
	Words   *Words
	Stop    *Stop // nil: nothing is disturbed
}

// Result is what a run has shown.
type Result struct {
	Seen   map[Point]*Seen
	Hit    bool     // the point was come to
	Args   []string // of the process that it happened to
	Answer int64    // what the call answered by itself
	Code   int      // the exit code of the command line; -1: a signal
}

// Run runs a command line until it and all that it has started and is ours have ended. It keeps the calling goroutine's thread.
func Run(cmd *exec.Cmd, o Options) (Result, error) {
	runtime.LockOSThread() // never unlocked: the thread ends with its goroutine, and what it still traces with it
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Ptrace = true
	if err := cmd.Start(); err != nil {
		return Result{}, err
	}
	t := &tracer{o: o, threads: map[int]*thread{}, processes: map[int]*process{}, root: cmd.Process.Pid}
	t.r.Seen = map[Point]*Seen{}
	t.passed = map[Point]int{}
	err := t.begin()
	if err == nil || errors.Is(err, unix.ESRCH) { // ESRCH: somebody has killed it already
		err = t.loop()
	}
	if t.rootLeft {
		var ws unix.WaitStatus
		_, _ = wait(t.root, &ws)
	}
	_ = cmd.Process.Release()
	return t.r, err
}

// Able says why this process cannot trace others.
func Able() error {
	done := make(chan error)
	go func() {
		_, err := Run(exec.Command("true"), Options{})
		done <- err
	}()
	return <-done
}

// tracer is for one thread of ours.
type tracer struct {
	o         Options
	r         Result
	root      int
	rootLeft  bool // it is not traced any more
	threads   map[int]*thread
	processes map[int]*process
	passed    map[Point]int
	coasting  bool // what was to happen has happened
}

type process struct {
	pid     int
	party   Party // "": it has not said who it is
	watched bool  // each of its calls is looked at
	symbols *table
	args    []string
}

// thread is one that is traced.
type thread struct {
	p     *process
	begun bool   // the stop that a new one begins with is over
	call  *doing // the one it is in, if that has an effect
}

// doing is a call under way.
type doing struct {
	point  Point
	time   int
	column Column // what happens at its end; "": nothing
	err    unix.Errno
}

const options = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEEXEC | unix.PTRACE_O_EXITKILL

// begin waits for the command line to be there.
func (t *tracer) begin() error {
	var ws unix.WaitStatus
	if _, err := wait(t.root, &ws); err != nil {
		return err
	}
	if ws.Signaled() { // killed by somebody before it was ours
		t.r.Code = ws.ExitStatus()
		return nil
	}
	if !ws.Stopped() {
		return fmt.Errorf("the program did not start: %v", ws)
	}
	if err := unix.PtraceSetOptions(t.root, options); err != nil {
		return err
	}
	p := &process{pid: t.root}
	t.processes[t.root] = p
	t.threads[t.root] = &thread{p: p, begun: true}
	return t.executed(t.root)
}

func wait(pid int, ws *unix.WaitStatus) (int, error) {
	for {
		got, err := unix.Wait4(pid, ws, unix.WALL|unix.WNOTHREAD, nil)
		if err != unix.EINTR {
			return got, err
		}
	}
}

// next waits for one that is traced. This thread may have started processes of other goroutines before it was ours: their ends
// are theirs to hear of.
func (t *tracer) next(ws *unix.WaitStatus) (int, error) {
	for {
		var info struct {
			signo, errno, code, _ int32
			pid, uid, status      int32
			_                     [100]byte
		}
		_, _, errno := unix.Syscall6(unix.SYS_WAITID, unix.P_ALL, 0, uintptr(unsafe.Pointer(&info)), unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT|unix.WALL|unix.WNOTHREAD, 0, 0)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return 0, errno
		}
		pid := int(info.pid)
		const exited, killed, dumped = 1, 2, 3
		if ended := info.code == exited || info.code == killed || info.code == dumped; ended && t.threads[pid] == nil && pid != t.root && ours(pid) {
			if len(t.threads) == 0 {
				return 0, unix.ECHILD
			}
			time.Sleep(time.Millisecond)
			continue
		}
		// What was seen may be gone: a thread that was killed since. To wait for the first thread of its process would be for
		// ever, since that one's end is told after those of the others, which are ours to take.
		switch got, err := unix.Wait4(pid, ws, unix.WALL|unix.WNOTHREAD|unix.WNOHANG, nil); {
		case got == pid:
			return pid, nil
		case err != nil && err != unix.EINTR && err != unix.ECHILD:
			return 0, err
		}
	}
}

// ours reports whether it is a process, and no thread of one, that was started by this program.
func ours(pid int) bool {
	return statusOf(pid, "Tgid") == pid && statusOf(pid, "PPid") == os.Getpid()
}

// statusOf is a number that the kernel tells of a thread; 0: it does not.
func statusOf(tid int, key string) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), "\n"+key+":\t")
	line, _, _ := strings.Cut(rest, "\n")
	n, _ := strconv.Atoi(line)
	return n
}

// loop goes from stop to stop.
func (t *tracer) loop() error {
	for {
		var ws unix.WaitStatus
		tid, err := t.next(&ws)
		if err == unix.ECHILD {
			return nil
		}
		if err != nil {
			return err
		}
		if ws.Exited() || ws.Signaled() {
			if tid == t.root {
				t.r.Code = ws.ExitStatus()
			}
			delete(t.threads, tid)
			delete(t.processes, tid)
			continue
		}
		if err := t.stopped(tid, ws); err != nil && !errors.Is(err, unix.ESRCH) { // ESRCH: killed meanwhile
			return err
		}
	}
}

func (t *tracer) stopped(tid int, ws unix.WaitStatus) error {
	th := t.threads[tid]
	if th == nil {
		th = &thread{p: t.processOf(tid)}
		t.threads[tid] = th
	}
	sig := ws.StopSignal()
	switch {
	case sig == unix.SIGTRAP|0x80:
		return t.syscall(tid, th)
	case sig == unix.SIGTRAP && ws.TrapCause() == unix.PTRACE_EVENT_EXEC:
		return t.executed(tid)
	case sig == unix.SIGTRAP && ws.TrapCause() > 0:
		return t.goOn(tid, th, 0)
	case sig == unix.SIGSTOP && !th.begun:
		th.begun = true
		if !t.follows(th.p) {
			return t.leave(tid)
		}
		return t.goOn(tid, th, 0)
	}
	return t.goOn(tid, th, sig)
}

// processOf finds out whose a new thread is.
func (t *tracer) processOf(tid int) *process {
	pid := statusOf(tid, "Tgid")
	if pid == 0 {
		pid = tid
	}
	p := t.processes[pid]
	if p == nil {
		p = &process{pid: pid}
		t.processes[pid] = p
	}
	return p
}

// leads: what such a process starts can be, or start, one of that party.
func leads(p, to Party) bool {
	switch p {
	case Command:
		return to != Command
	case Driver:
		return to == Publisher || to == Keeper || to == Runner
	case Keeper:
		return to == Runner
	}
	return false
}

// follows reports whether a process is still of interest.
func (t *tracer) follows(p *process) bool {
	if p.party == "" {
		return !t.coasting // until it says who it is
	}
	return p.party == t.o.Party || leads(p.party, t.o.Party)
}

func (t *tracer) leave(tid int) error {
	if th := t.threads[tid]; th != nil && th.p.pid == tid {
		delete(t.processes, tid)
	}
	delete(t.threads, tid)
	t.rootLeft = t.rootLeft || tid == t.root
	return unix.PtraceDetach(tid)
}

func (t *tracer) goOn(tid int, th *thread, sig syscall.Signal) error {
	if th.p.watched && (!t.coasting || th.call != nil) {
		return unix.PtraceSyscall(tid, int(sig))
	}
	return unix.PtraceCont(tid, int(sig))
}

// executed: the process has become another program, and says who it is.
func (t *tracer) executed(pid int) error {
	th := t.threads[pid]
	if th == nil {
		th = &thread{p: t.processOf(pid), begun: true}
		t.threads[pid] = th
	}
	th.call = nil
	p := th.p
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return t.leave(pid)
	}
	p.args = strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return t.leave(pid)
	}
	p.party, p.watched = partyOf(exe, p.args), false
	if p.party == "" || !t.follows(p) {
		return t.leave(pid)
	}
	if p.party == t.o.Party {
		p.watched = true
		if p.symbols, err = t.o.Symbols.program(exe); err != nil {
			return err
		}
		if err := p.symbols.same(exe); err != nil {
			return err
		}
	}
	return t.goOn(pid, th, 0)
}

// partyOf tells one of ours by its program and arguments.
func partyOf(exe string, args []string) Party {
	switch filepath.Base(exe) {
	case "sallyport":
		if len(args) == 3 && args[1] == "drive" {
			return Driver
		}
		return Command
	case "sallyport-keeper":
		return Keeper
	case "sallyport-publisher":
		return Publisher
	case "sallyport-runner":
		if args[0] == "sallyport-runner" {
			return Runner
		}
	}
	return ""
}

// syscallInfo is what PTRACE_GET_SYSCALL_INFO gives, as far as it is needed.
type syscallInfo struct {
	op   uint8
	_    [3]uint8
	arch uint32
	ip   uint64
	sp   uint64
	nr   uint64 // at the end of a call: its answer
	args [6]uint64
}

const (
	getSyscallInfo = 0x420e
	atEntry        = 1
	atExit         = 2
)

func (t *tracer) syscall(tid int, th *thread) error {
	var info syscallInfo
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, getSyscallInfo, uintptr(tid), unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0); errno != 0 {
		return errno
	}
	var err error
	switch {
	case info.op == atEntry && th.p.watched && !t.coasting:
		err = t.entered(tid, th, info)
	case info.op == atExit && th.call != nil:
		err = t.left(tid, th, int64(info.nr))
	}
	if err != nil {
		return err
	}
	return t.goOn(tid, th, 0)
}

func (t *tracer) entered(tid int, th *thread, info syscallInfo) error {
	c, ok := calls[info.nr]
	if !ok || !changes(info.nr, info.args) {
		return nil
	}
	on := t.on(tid, th.p, c, info)
	if on == "" {
		return nil
	}
	by := t.by(tid, th.p)
	if by == "" || ofDatabase(c.name, on, by) {
		return nil
	}
	point := Point{th.p.party, by, c.name, on}
	t.passed[point]++
	d := &doing{point: point, time: t.passed[point], err: c.err}
	th.call = d
	s := t.o.Stop
	if s == nil || s.Point != point || s.Time != d.time {
		return nil
	}
	t.r.Hit, t.r.Args, t.coasting, d.column = true, th.p.args, true, s.Column
	switch s.Column {
	case Before:
		if err := t.skip(tid); err != nil {
			return err
		}
		return unix.Kill(th.p.pid, unix.SIGKILL)
	case Refused:
		return t.skip(tid)
	}
	return nil
}

// skip has the kernel make no call at all.
func (t *tracer) skip(tid int) error {
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(tid, &regs); err != nil {
		return err
	}
	regs.Orig_rax = ^uint64(0)
	return unix.PtraceSetRegs(tid, &regs)
}

// left: a call that has an effect is over.
func (t *tracer) left(tid int, th *thread, answer int64) error {
	d := th.call
	th.call = nil
	switch d.column {
	case After:
		t.r.Answer = answer
		return unix.Kill(th.p.pid, unix.SIGKILL)
	case Lost, Refused:
		t.r.Answer = answer
		var regs unix.PtraceRegs
		if err := unix.PtraceGetRegs(tid, &regs); err != nil {
			return err
		}
		regs.Rax = uint64(-int64(d.err))
		return unix.PtraceSetRegs(tid, &regs)
	}
	s := t.r.Seen[d.point]
	if s == nil {
		s = &Seen{}
		t.r.Seen[d.point] = s
	}
	s.Times++
	if answer >= 0 || -answer == int64(unix.EINPROGRESS) {
		if s.First == 0 || d.time < s.First {
			s.First = d.time
		}
		s.Last = max(s.Last, d.time)
	}
	return nil
}

// on says what a call is done to; "": to nothing that lasts or that anybody else sees.
func (t *tracer) on(tid int, p *process, c call, info syscallInfo) string {
	a := info.args
	at := func(dir, path uint64) string {
		name := cstring(tid, path)
		if strings.HasPrefix(name, "/") {
			return t.o.Words.path(name)
		}
		base := "cwd"
		if int32(dir) != unix.AT_FDCWD {
			base = fmt.Sprintf("fd/%d", int32(dir))
		}
		folder, _ := os.Readlink(fmt.Sprintf("/proc/%d/%s", tid, base))
		return t.o.Words.path(filepath.Join(folder, name))
	}
	const cwd = uint64(0xffffff9c)
	switch c.on {
	case onPath:
		return at(cwd, a[0])
	case onPath2:
		return at(cwd, a[1])
	case onAt:
		if info.nr == unix.SYS_OPENAT2 {
			if how := memory(tid, a[2], 8); len(how) < 8 || binary.NativeEndian.Uint64(how)&unix.O_CREAT == 0 {
				return ""
			}
		}
		return at(a[0], a[1])
	case onAt2:
		dir, path := a[2], a[3]
		if info.nr == unix.SYS_SYMLINKAT {
			dir, path = a[1], a[2]
		}
		return at(dir, path)
	case onSocket:
		return t.o.Words.address(memory(tid, a[1], int(min(a[2], 128))))
	case onFile:
		to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", tid, int32(a[0])))
		if err != nil {
			return ""
		}
		return t.o.Words.open(to)
	}
	if (info.nr == unix.SYS_KILL || info.nr == unix.SYS_PIDFD_SEND_SIGNAL) && a[1] == 0 {
		return "" // only asks whether it is there
	}
	return "-"
}

// by is who makes the call.
func (t *tracer) by(tid int, p *process) string {
	var regs unix.PtraceRegs
	if unix.PtraceGetRegs(tid, &regs) != nil {
		return ""
	}
	var names, others []string
	add := func(pc uint64) {
		for _, n := range p.symbols.at(pc - 1) {
			if isServant(n) {
				others = append(others, n)
			} else if strings.Contains(n, ".") && (len(names) == 0 || names[len(names)-1] != n) {
				names = append(names, n)
			}
		}
	}
	if top := memory(tid, regs.Rsp, 8); len(top) == 8 {
		add(binary.NativeEndian.Uint64(top))
	}
	// The whole of most stacks in one read.
	low := regs.Rbp
	stack := memory(tid, low, 16<<10)
	for fp := regs.Rbp; fp != 0 && len(stack) >= 16; {
		if fp < low || fp+16 > low+uint64(len(stack)) {
			low, stack = fp, memory(tid, fp, 4<<10)
			if len(stack) < 16 {
				break
			}
		}
		add(binary.NativeEndian.Uint64(stack[fp-low+8:]))
		next := binary.NativeEndian.Uint64(stack[fp-low:])
		if next <= fp {
			break
		}
		fp = next
	}
	if len(names) == 0 && len(others) > 0 {
		return others[len(others)-1]
	}
	return who(names)
}

// memory reads as much as is there of n bytes.
func memory(tid int, at uint64, n int) []byte {
	b := make([]byte, n)
	for done := 0; done < n; {
		// To the end of a page at most: the next one may not be there.
		step := min(n-done, int(4096-(at+uint64(done))%4096))
		got, err := unix.ProcessVMReadv(tid, []unix.Iovec{{Base: &b[done], Len: uint64(step)}}, []unix.RemoteIovec{{Base: uintptr(at) + uintptr(done), Len: step}}, 0)
		if err != nil || got <= 0 {
			return b[:done]
		}
		done += got
	}
	return b
}

func cstring(tid int, at uint64) string {
	b := memory(tid, at, 512)
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return string(b[:i])
	}
	return string(slices.Concat(b, []byte("…")))
}
