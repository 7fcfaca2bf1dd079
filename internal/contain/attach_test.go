package contain

import (
	"testing"

	"golang.org/x/sys/unix"
)

// In a check nobody takes hold of a process that it did not start; elsewhere debuggers may. All other answers
// are the same.
func TestWithoutAttach(t *testing.T) {
	strict, err := compile(withoutAttach(policy()))
	if err != nil {
		t.Fatal(err)
	}
	open, _ := compiled(t)
	checks, agents := machine(t, strict), machine(t, open)
	const high = 1 << 32
	for _, k := range []struct {
		name string
		nr   uint32
		arg  uint64
		want verdict
	}{
		{"attach", unix.SYS_PTRACE, unix.PTRACE_ATTACH, refused},
		{"attach with a high bit", unix.SYS_PTRACE, unix.PTRACE_ATTACH | high, refused},
		{"seize", unix.SYS_PTRACE, unix.PTRACE_SEIZE, refused},
		{"be traced by one's parent", unix.SYS_PTRACE, unix.PTRACE_TRACEME, allow},
		{"let a tracee go on", unix.SYS_PTRACE, unix.PTRACE_CONT, allow},
		{"read another's memory", unix.SYS_PROCESS_VM_READV, 0, refused},
		{"write another's memory", unix.SYS_PROCESS_VM_WRITEV, 0, refused},
		{"take another's descriptor", unix.SYS_PIDFD_GETFD, 0, refused},
	} {
		if got := checks(nativeArch, k.nr, [6]uint64{k.arg}); got != k.want {
			t.Errorf("%s: %#x, want %#x", k.name, got, k.want)
		}
		if got := agents(nativeArch, k.nr, [6]uint64{k.arg}); got != allow {
			t.Errorf("%s, in an agent's sandbox: %#x", k.name, got)
		}
	}
	for _, r := range policy() {
		switch r.Number {
		case unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD:
			continue
		}
		if a, b := checks(nativeArch, r.Number, [6]uint64{}), agents(nativeArch, r.Number, [6]uint64{}); a != b {
			t.Errorf("call %d: %#x in a check, %#x else", r.Number, a, b)
		}
	}
}
