package process

import (
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const childEnv = "SALLYPORT_TEST_PROCESS"

func init() {
	if os.Getenv(childEnv) == "" {
		return
	}
	runtime.LockOSThread() // init runs on the first thread
	go func() { time.Sleep(time.Minute); os.Exit(3) }()
	time.Sleep(50 * time.Millisecond) // another thread runs by now
	unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
}

// A process whose first thread has ended looks like a zombie while its others still work.
func TestFirstThreadEnded(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()
	id, err := Of(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); letter(t, id.PID) != "Z"; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("its first thread does not end")
		}
	}
	if !id.Alive() {
		t.Error("taken for dead while a thread of it runs")
	}
	if err := id.Kill(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); id.Alive(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("taken for alive after its end, which nobody has asked for yet")
		}
	}
	if letter(t, id.PID) != "Z" {
		t.Error("its end was asked for: the test shows nothing")
	}
}

func letter(t *testing.T, pid int) string {
	t.Helper()
	stat, err := readStat(pid)
	if err != nil {
		t.Fatal(err)
	}
	return stat[0]
}
