package keeper

import (
	"fmt"
	"strings"
	"testing"
)

func TestWhatIsSaidOfAProcess(t *testing.T) {
	long := strings.Repeat("x", 200)
	for _, c := range []struct{ name, cmdline, want string }{
		{"sleep", "sleep\x001000\x00", "sleep 1000"},
		{"kthread", "", "kthread"},
		{"node", "node\x00-e\x00" + long + "\x00", "node -e …"},
		{"long", "/" + long + "\x00", "long …"},
		{"sh", "sh\x00-c\x00\x1b[31mred\nand\x7f \u202egreen\x00", "sh -c [31mredand green"},
		{"e\x1bvil", "", "evil"},
		{"title", "worker: \xff idle", "worker: ? idle"},
	} {
		got := sayArguments(c.name, []byte(c.cmdline[:min(len(c.cmdline), runningBytes+1)]))
		if got != c.want || len(got) > runningBytes {
			t.Errorf("%q %q: %q (%d bytes), want %q", c.name, c.cmdline, got, len(got), c.want)
		}
	}
}

// Half of a secret would pass the redactor: whatever the length, an argument is said whole or not at all.
func TestArgumentsAreSaidWhole(t *testing.T) {
	const secret = "s3cr3t-s3cr3t-s3cr3t"
	for pad := range 2 * runningBytes {
		cmdline := "a" + strings.Repeat("b", pad) + "\x00" + secret + "\x00c\x00"
		got := sayArguments("name", []byte(cmdline[:min(len(cmdline), runningBytes+1)]))
		if rest := strings.ReplaceAll(got, secret, ""); strings.Contains(rest, "s3") {
			t.Fatalf("pad %d: %q", pad, got)
		}
		if len(got) > runningBytes {
			t.Fatalf("pad %d: %d bytes", pad, len(got))
		}
	}
}

func TestTheDeepestAndOldestAreSaidFirst(t *testing.T) {
	var all []proc
	add := func(pid, parent int, state string, began uint64) {
		all = append(all, proc{pid: fmt.Sprint(pid), parent: fmt.Sprint(parent), state: state, began: began, text: fmt.Sprintf("p%d", pid)})
	}
	if got := sayRunning(nil); got != "" {
		t.Errorf("nothing runs: %q", got)
	}
	add(10, 1, "S", 5)
	add(11, 10, "S", 9)
	add(12, 10, "R", 7)
	add(13, 12, "Z", 8)
	if got := sayRunning(append([]proc{}, all...)); got != "it was running: p12; p11; p10" {
		t.Errorf("%q", got)
	}
	for i := range 9 {
		add(20+i, 12, "R", uint64(100-i))
	}
	if got := sayRunning(append([]proc{}, all...)); got != "it was running: p28; p27; p26; p25; p24; and 7 more" {
		t.Errorf("%q", got)
	}
	ring := []proc{{pid: "1", parent: "2", text: "a"}, {pid: "2", parent: "1", text: "b"}}
	if got := sayRunning(ring); !strings.Contains(got, "a") || !strings.Contains(got, "b") {
		t.Errorf("%q", got)
	}
}

// A name may hold what looks like the fields after it.
func TestParseStat(t *testing.T) {
	fields := "R 7 " + strings.Repeat("0 ", 17) + "4242 0 0"
	p, name, err := parseStat("9", "9 (a) S 1 (b) "+fields)
	if err != nil || name != "a) S 1 (b" || p.state != "R" || p.parent != "7" || p.began != 4242 {
		t.Errorf("%+v %q %v", p, name, err)
	}
	for _, bad := range []string{"", "9 a S", "9 (a", ")(", "9 (a) S 1"} {
		if _, _, err := parseStat("9", bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
