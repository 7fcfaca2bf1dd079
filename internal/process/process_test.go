package process

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
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
	for end := time.Now().Add(30 * time.Second); !zombie(t, id.PID); time.Sleep(5 * time.Millisecond) {
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
	if !zombie(t, id.PID) {
		t.Error("its end was asked for: the test shows nothing")
	}
}

func zombie(t *testing.T, pid int) bool {
	t.Helper()
	st, err := Read(pid)
	if err != nil {
		t.Fatal(err)
	}
	return st.Zombie
}

func TestParseWithAHostileName(t *testing.T) {
	line := "7 (a) S 1 (b c) R 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 999 23\n"
	st, err := parse([]byte(line))
	if want := (Stat{StartTime: 999}); err != nil || st != want {
		t.Errorf("%+v, %v", st, err)
	}
	if st, err := parse([]byte(strings.Replace(line, "R 4 5 6 7 8 9 ", "Z 4 5 6 7 8 4228108 ", 1))); err != nil || !st.Zombie || !st.Exiting {
		t.Errorf("%+v, %v", st, err)
	}
	for _, bad := range []string{"", "7 (a)", "7 (a) R 1 2", "7 a R"} {
		if _, err := parse([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}
