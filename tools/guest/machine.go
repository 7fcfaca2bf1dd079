package guest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"sallyport.dev/sallyport/tools/guest/talk"
)

// Config is what differs between guests.
type Config struct {
	Local  string // folder that the guest has read-only at /usr/local, owned by root
	Memory int    // MiB; 0: 1024
	// Systemd: process 1 is systemd, and what runs commands is a service of it. Else nothing manages cgroups or logins.
	Systemd bool
	CPUs    int // 0: 1; each more costs the emulator more than it gives, as the guest's processors wait for each other
}

// Machine is a running guest. Its methods may be called at once by several goroutines.
type Machine struct {
	console string // file with what the kernel and init said
	process *os.Process
	in      io.WriteCloser
	ended   chan struct{} // closed when the emulator has ended and has been waited for
	used    time.Duration // processor time of the emulator, once ended

	mu      sync.Mutex // guards the fields below
	next    int
	waiting map[int]chan talk.Answer
	failure error // why no more answers come
}

// Boot starts a guest with its files in dir and waits until it takes commands. The caller closes it; it ends
// as well when the thread that started it does, with this process at the latest. An error of ctx ends it and
// comes with the last lines of the console.
func Boot(ctx context.Context, b Base, dir string, c Config) (*Machine, error) {
	args, err := c.prepare(b, dir)
	if err != nil {
		return nil, err
	}
	m := &Machine{console: filepath.Join(dir, "console"), ended: make(chan struct{}), next: 1, waiting: map[int]chan talk.Answer{}}
	ready := make(chan talk.Answer, 1)
	m.waiting[talk.Ready] = ready
	if err := m.start(dir, args); err != nil {
		return nil, err
	}
	select {
	case _, ok := <-ready:
		if ok {
			return m, nil
		}
		err = m.why()
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	m.Close()
	return nil, fmt.Errorf("boot: %w; console:\n%s", err, m.Console())
}

// prepare makes the guest's own files and returns the emulator's arguments.
func (c Config) prepare(b Base, dir string) ([]string, error) {
	if c.Memory == 0 {
		c.Memory = 1024
	}
	if c.CPUs == 0 {
		c.CPUs = 1
	}
	init := filepath.Join(dir, "init")
	if err := goBuild(init, "sallyport.dev/sallyport/tools/guest/init"); err != nil {
		return nil, err
	}
	program, err := os.ReadFile(init)
	if err != nil {
		return nil, err
	}
	initial, err := initialFiles(program, b.modules)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "initial.cpio"), initial, 0o644); err != nil {
		return nil, err
	}
	size, err := sizeOf(c.Local)
	if err != nil {
		return nil, err
	}
	if err := makeImage(filepath.Join(dir, "local.img"), c.Local, size+size/4+16<<20); err != nil {
		return nil, err
	}
	kernel := "console=ttyS0 quiet loglevel=4 panic=-1 nokaslr no_timer_check tsc=reliable mitigations=off"
	if c.Systemd {
		kernel += " " + talk.Manager + "=systemd"
	}
	return []string{
		"-M", "q35", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-nic", "none",
		// All that the emulator can but a fifth level of page tables, which only makes it slower.
		"-accel", "tcg", "-cpu", "max,la57=off", "-smp", strconv.Itoa(c.CPUs), "-m", strconv.Itoa(c.Memory),
		"-kernel", b.kernel, "-initrd", filepath.Join(dir, "initial.cpio"),
		// no_timer_check: on a loaded host the emulated timer is late, which the kernel takes for broken hardware.
		// mitigations=off: there is no speculation to guard, and what guards it is slow.
		"-append", kernel,
		"-serial", "file:" + filepath.Join(dir, "console"),
		"-drive", "if=none,id=root,format=raw,snapshot=on,file=" + commas(b.root), "-device", "virtio-blk-pci,drive=root",
		"-drive", "if=none,id=local,format=raw,readonly=on,file=" + commas(filepath.Join(dir, "local.img")), "-device", "virtio-blk-pci,drive=local",
		"-device", "virtio-serial-pci", "-chardev", "stdio,id=talk,signal=off", "-device", "virtserialport,chardev=talk,name=" + talk.Port,
	}, nil
}

// commas: the emulator ends a value at a comma, and takes two for one.
func commas(s string) string { return strings.ReplaceAll(s, ",", ",,") }

func sizeOf(dir string) (int64, error) {
	var size int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		fi, err := d.Info()
		if err == nil {
			size += fi.Size()
		}
		return err
	})
	return size, err
}

// goBuild makes a static program of ours.
func goBuild(to string, args ...string) error {
	cmd := exec.Command("go", append([]string{"build", "-trimpath", "-o", to}, args...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %v: %w\n%s", args, err, out)
	}
	return nil
}

// start runs the emulator. Its life is bound to a thread of its own (parent-death signal), which stays for as
// long: should this process be killed, the emulator goes too.
func (m *Machine) start(dir string, args []string) error {
	path, err := find(emulator)
	if err != nil {
		return missing{emulator}
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir) // what the guest writes to its disk
	var said tail
	cmd.Stderr = &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if m.in, err = cmd.StdinPipe(); err != nil {
		return err
	}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the emulator
		err := cmd.Start()
		m.process = cmd.Process
		started <- err
		if err != nil {
			return
		}
		failure := m.listen(out)
		err = cmd.Wait()
		m.used = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		m.fail(fmt.Errorf("the guest is gone: %w (%v) %s", failure, err, said.String()))
		close(m.ended)
	}()
	return <-started
}

// listen hands the answers out until the emulator ends.
func (m *Machine) listen(r io.Reader) error {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return err
		}
		var a talk.Answer
		if err := json.Unmarshal(line, &a); err != nil {
			io.Copy(io.Discard, in) // or the emulator would wait for its reader
			return fmt.Errorf("answer: %w", err)
		}
		m.mu.Lock()
		if c, ok := m.waiting[a.ID]; ok {
			delete(m.waiting, a.ID)
			c <- a
		}
		m.mu.Unlock()
	}
}

// fail tells all who wait.
func (m *Machine) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failure = err
	for id, c := range m.waiting {
		delete(m.waiting, id)
		close(c)
	}
}

func (m *Machine) why() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failure
}

// answerGrace is what an answer may take beyond its command's own time.
const answerGrace = 20 * time.Second

// Run runs one command to its end; its ID is chosen here. The error says only that there is no answer, or that
// the program was not started; how it ended is in the answer.
func (m *Machine) Run(ctx context.Context, c talk.Command) (talk.Answer, error) {
	if c.Timeout <= 0 {
		return talk.Answer{}, errors.New("a command needs a timeout")
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout+answerGrace)
	defer cancel()
	answer := make(chan talk.Answer, 1)
	if err := m.send(&c, answer); err != nil {
		return talk.Answer{}, err
	}
	select {
	case a, ok := <-answer:
		if !ok {
			return a, m.why()
		}
		if a.Err != "" {
			return a, fmt.Errorf("%v: %s", c.Argv, a.Err)
		}
		return a, nil
	case <-ctx.Done():
		return talk.Answer{}, fmt.Errorf("%v: no answer: %w", c.Argv, ctx.Err())
	}
}

func (m *Machine) send(c *talk.Command, answer chan talk.Answer) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failure != nil {
		return m.failure
	}
	c.ID = m.next
	m.next++
	line, err := json.Marshal(c)
	if err != nil {
		return err
	}
	m.waiting[c.ID] = answer
	_, err = m.in.Write(append(line, '\n'))
	return err
}

// Console is what the kernel and init have said, the last 8 KiB.
func (m *Machine) Console() string {
	data, err := os.ReadFile(m.console)
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-8<<10):])
}

// Close ends the guest as a power cut would, waits for the emulator and returns what processor time it took:
// unlike time on the clock, that is comparable on a loaded host. It may be repeated.
func (m *Machine) Close() time.Duration {
	m.process.Kill() // through the handle that Start opened, never a reused number
	<-m.ended
	return m.used
}

// tail keeps the last 4 KiB.
type tail struct {
	mu   sync.Mutex
	data []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, p...)
	t.data = t.data[max(0, len(t.data)-4<<10):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.data)
}
