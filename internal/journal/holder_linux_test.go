package journal

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport/internal/process"
)

func self(t *testing.T) Holder {
	t.Helper()
	h, err := SelfHolder()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestDeadOnThisHost(t *testing.T) {
	me := self(t)
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		change func(*Holder)
		dead   bool
	}{
		{"this process lives", func(*Holder) {}, false},
		{"another boot", func(h *Holder) { h.Boot = "00000000-0000-0000-0000-000000000000" }, true},
		{"another boot of another host", func(h *Holder) { h.Boot, h.Host = "00000000-0000-0000-0000-000000000000", "elsewhere.invalid" }, false},
		{"another host", func(h *Holder) { h.Host, h.PID = "elsewhere.invalid", ended.Process.Pid }, false},
		{"process gone", func(h *Holder) { h.PID = ended.Process.Pid }, true},
		{"number used again", func(h *Holder) { h.StartTime++ }, true},
		{"of another pid namespace, and no such process here", func(h *Holder) { h.PIDSpace, h.PID = h.PIDSpace+1, ended.Process.Pid }, false},
		{"of another pid namespace and another boot", func(h *Holder) { h.PIDSpace, h.Boot = h.PIDSpace+1, "00000000-0000-0000-0000-000000000000" }, true},
		{"process gone, no pid namespace", func(h *Holder) { h.PIDSpace, h.PID = 0, ended.Process.Pid }, false},
		{"no start time", func(h *Holder) { h.StartTime = 0 }, false},
		{"no pid", func(h *Holder) { h.PID = 0 }, false},
		{"no boot id", func(h *Holder) { h.Boot = "" }, false},
		{"no host", func(h *Holder) { h.Host = "" }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := me
			tt.change(&h)
			if got := DeadOnThisHost(h); got != tt.dead {
				t.Errorf("DeadOnThisHost(%v) = %v", h, got)
			}
		})
	}
}

func TestAZombieIsDead(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h := self(t)
	h.PID = cmd.Process.Pid
	st, err := process.Read(h.PID)
	if err != nil {
		t.Fatal(err)
	}
	h.StartTime = st.StartTime
	if DeadOnThisHost(h) {
		t.Error("a running child is called dead")
	}
	in.Close() // cat ends and is not waited for
	for deadline := time.Now().Add(10 * time.Second); !DeadOnThisHost(h); {
		if time.Now().After(deadline) {
			t.Fatal("the zombie is not called dead")
		}
		time.Sleep(5 * time.Millisecond)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

func TestLeaseLive(t *testing.T) {
	l := Lease{Holder: Holder{Boot: "b"}, Until: 10}
	for _, tt := range []struct {
		boot string
		now  time.Duration
		live bool
	}{{"b", 9, true}, {"b", 10, false}, {"c", 9, false}} {
		if l.Live(tt.boot, tt.now) != tt.live {
			t.Errorf("boot %s, now %d: live is not %v", tt.boot, tt.now, tt.live)
		}
	}
	if (Lease{}).Live("", 0) {
		t.Error("the zero lease is live")
	}
}

func TestBootTimeIsTheKernels(t *testing.T) {
	b, err := os.ReadFile("/proc/uptime")
	if err != nil {
		t.Fatal(err)
	}
	up, err := time.ParseDuration(strings.Fields(string(b))[0] + "s")
	if err != nil {
		t.Fatal(err)
	}
	if d := BootTime() - up; d < -time.Second || d > 5*time.Second {
		t.Errorf("BootTime is %v away from /proc/uptime", d)
	}
}
