package contain

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// machine runs a compiled program in x/net's interpreter, which shares no code with the compiler.
func machine(t testing.TB, prog []unix.SockFilter) func(arch, nr uint32, args [6]uint64) verdict {
	t.Helper()
	rawProg := make([]bpf.RawInstruction, len(prog))
	for i, p := range prog {
		rawProg[i] = bpf.RawInstruction{Op: p.Code, Jt: p.Jt, Jf: p.Jf, K: p.K}
	}
	insts, ok := bpf.Disassemble(rawProg)
	if !ok {
		t.Fatal("the program has instructions that are not BPF")
	}
	vm, err := bpf.NewVM(insts)
	if err != nil {
		t.Fatal(err)
	}
	return func(arch, nr uint32, args [6]uint64) verdict {
		// The interpreter reads packets, hence big-endian words at seccomp_data's offsets.
		var data [64]byte
		binary.BigEndian.PutUint32(data[offNumber:], nr)
		binary.BigEndian.PutUint32(data[offArch:], arch)
		for i, a := range args {
			binary.BigEndian.PutUint32(data[offArgs+8*i:], uint32(a))
			binary.BigEndian.PutUint32(data[offArgs+8*i+4:], uint32(a>>32))
		}
		v, err := vm.Run(data[:])
		if err != nil {
			t.Fatal(err)
		}
		return verdict(uint32(v))
	}
}

func compiled(t testing.TB) ([]unix.SockFilter, map[uint32]rule) {
	t.Helper()
	prog, err := compile(policy())
	if err != nil {
		t.Fatal(err)
	}
	rules := map[uint32]rule{}
	for _, r := range policy() {
		rules[r.Number] = r
	}
	return prog, rules
}

// Law: for every call and arguments the program answers what the table says.
func TestProgramAgreesWithTable(t *testing.T) {
	prog, rules := compiled(t)
	run := machine(t, prog)
	interesting := []uint64{0, 1, 2, 3, 5, 10, 16, 17, 31, 38, 40, 43, 262, 0x5412, 0x541c, 0x5423, 0x541d, uint64(all32),
		unix.CLONE_NEWUSER, unix.CLONE_NEWNS, unix.SOCK_CLOEXEC | 1, unix.SOCK_CLOEXEC | 3, unix.S_IFCHR | 0o600, unix.S_IFIFO, addrNoRandomize, uname26}
	arg := rapid.Custom(func(r *rapid.T) uint64 {
		low := rapid.OneOf(rapid.SampledFrom(interesting), rapid.Map(rapid.Uint32(), func(v uint32) uint64 { return uint64(v) })).Draw(r, "low")
		return low | rapid.SampledFrom([]uint64{0, 1 << 32, 1 << 63}).Draw(r, "high")
	})
	want := func(nr uint32, args [6]uint64) verdict {
		if r, ok := rules[nr]; ok {
			return r.decide(args)
		}
		return unknown
	}
	rapid.Check(t, func(r *rapid.T) {
		args := [6]uint64{}
		for i := range args {
			args[i] = arg.Draw(r, "arg")
		}
		for nr := uint32(0); nr < 600; nr++ {
			if got := run(nativeArch, nr, args); got != want(nr, args) {
				r.Fatalf("call %d %#x: program says %#x, table %#x", nr, args, got, want(nr, args))
			}
		}
	})
}

// Law: no call of another architecture or ABI passes.
func TestForeignCallsNeverPass(t *testing.T) {
	prog, _ := compiled(t)
	run := machine(t, prog)
	for range 20_000 {
		nr, arch := rand.Uint32(), rand.Uint32()
		if rand.IntN(2) == 0 {
			nr %= 600
		}
		if arch == nativeArch {
			continue
		}
		if got := run(arch, nr, [6]uint64{}); got != refused {
			t.Fatalf("architecture %#x call %d: %#x", arch, nr, got)
		}
	}
	for _, arch := range []uint32{unix.AUDIT_ARCH_I386, unix.AUDIT_ARCH_ARM, unix.AUDIT_ARCH_X86_64 ^ unix.AUDIT_ARCH_AARCH64} {
		if got := run(arch, 20, [6]uint64{}); got != refused {
			t.Fatalf("architecture %#x: %#x", arch, got)
		}
	}
	if x32Bit == 0 {
		return
	}
	for nr := uint32(0); nr < 1024; nr++ {
		if got := run(nativeArch, nr|x32Bit, [6]uint64{}); got != refused {
			t.Fatalf("x32 call %d: %#x", nr, got)
		}
	}
	if got := run(nativeArch, all32, [6]uint64{}); got != unknown {
		t.Fatalf("call -1 of a tracer: %#x", got)
	}
}

// What the table must say, written down a second time and by hand.
func TestVerdicts(t *testing.T) {
	prog, _ := compiled(t)
	run := machine(t, prog)
	const high = 1 << 32 // the kernel ignores it in an int
	for _, k := range []struct {
		name string
		nr   uint32
		args [6]uint64
		want verdict
	}{
		{"read", unix.SYS_READ, [6]uint64{}, allow},
		{"execve", unix.SYS_EXECVE, [6]uint64{}, allow},
		{"ptrace", unix.SYS_PTRACE, [6]uint64{}, allow},
		{"unshare nothing", unix.SYS_UNSHARE, [6]uint64{}, refused},
		{"setns", unix.SYS_SETNS, [6]uint64{}, refused},
		{"bpf", unix.SYS_BPF, [6]uint64{}, refused},
		{"mount", unix.SYS_MOUNT, [6]uint64{}, refused},
		{"clone3", unix.SYS_CLONE3, [6]uint64{}, unknown},
		{"io_uring_setup", unix.SYS_IO_URING_SETUP, [6]uint64{}, unknown},
		{"a call of the future", 9999, [6]uint64{}, unknown},
		{"thread", unix.SYS_CLONE, [6]uint64{0x3d0f00}, allow},
		{"fork", unix.SYS_CLONE, [6]uint64{uint64(unix.SIGCHLD)}, allow},
		{"vfork", unix.SYS_CLONE, [6]uint64{uint64(unix.CLONE_VM|unix.CLONE_VFORK) | uint64(unix.SIGCHLD)}, allow},
		{"clone user namespace", unix.SYS_CLONE, [6]uint64{unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)}, refused},
		{"clone two namespaces", unix.SYS_CLONE, [6]uint64{unix.CLONE_NEWNET | unix.CLONE_NEWPID}, refused},
		{"clone namespace, high bits", unix.SYS_CLONE, [6]uint64{high | unix.CLONE_NEWNS}, refused},
		{"tcp", unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK, 0}, allow},
		{"tcp by number", unix.SYS_SOCKET, [6]uint64{unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_TCP}, allow},
		{"udp", unix.SYS_SOCKET, [6]uint64{unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_UDP}, allow},
		{"unix seqpacket", unix.SYS_SOCKET, [6]uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET, 0}, allow},
		{"unix raw", unix.SYS_SOCKET, [6]uint64{unix.AF_UNIX, unix.SOCK_RAW, 0}, refused},
		{"route netlink as libc asks", unix.SYS_SOCKET, [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW | unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE}, allow},
		{"netfilter netlink", unix.SYS_SOCKET, [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER}, refused},
		{"audit netlink, high bits", unix.SYS_SOCKET, [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, high | unix.NETLINK_AUDIT}, refused},
		{"mptcp", unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, noProto},
		{"mptcp, high bits", unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_STREAM, high | unix.IPPROTO_MPTCP}, noProto},
		{"sctp", unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP}, noProto},
		{"sctp seqpacket", unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_SEQPACKET, unix.IPPROTO_SCTP}, refused},
		{"smc by protocol", unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_STREAM, 256}, noProto},
		{"ping socket", unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP}, noProto},
		{"raw", unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_RAW | unix.SOCK_CLOEXEC, 0}, refused},
		{"old packet type", unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_PACKET, 0}, refused},
		{"vsock", unix.SYS_SOCKET, [6]uint64{unix.AF_VSOCK, unix.SOCK_STREAM, 0}, refused},
		{"vsock, high bits", unix.SYS_SOCKET, [6]uint64{high | unix.AF_VSOCK, unix.SOCK_STREAM, 0}, refused},
		{"alg", unix.SYS_SOCKET, [6]uint64{unix.AF_ALG, unix.SOCK_SEQPACKET, 0}, refused},
		{"socketpair unix", unix.SYS_SOCKETPAIR, [6]uint64{unix.AF_UNIX, unix.SOCK_STREAM, 0}, allow},
		{"socketpair tipc", unix.SYS_SOCKETPAIR, [6]uint64{unix.AF_TIPC, unix.SOCK_STREAM, 0}, refused},
		{"nodelay", unix.SYS_SETSOCKOPT, [6]uint64{3, unix.SOL_TCP, unix.TCP_NODELAY}, allow},
		{"upper layer protocol", unix.SYS_SETSOCKOPT, [6]uint64{3, unix.SOL_TCP, unix.TCP_ULP}, noOpt},
		{"same number, other level", unix.SYS_SETSOCKOPT, [6]uint64{3, unix.SOL_SOCKET, unix.TCP_ULP}, allow},
		{"window size", unix.SYS_IOCTL, [6]uint64{0, unix.TIOCGWINSZ}, allow},
		{"controlling terminal", unix.SYS_IOCTL, [6]uint64{0, unix.TIOCSCTTY}, allow},
		{"type into terminal", unix.SYS_IOCTL, [6]uint64{0, unix.TIOCSTI}, refused},
		{"type into terminal, high bits", unix.SYS_IOCTL, [6]uint64{0, high | unix.TIOCSTI}, refused},
		{"console selection", unix.SYS_IOCTL, [6]uint64{0, unix.TIOCLINUX}, refused},
		{"ask personality", unix.SYS_PERSONALITY, [6]uint64{0xffffffff}, allow},
		{"ask personality, 64 bits", unix.SYS_PERSONALITY, [6]uint64{^uint64(0)}, allow},
		{"no randomisation", unix.SYS_PERSONALITY, [6]uint64{addrNoRandomize}, allow},
		{"read implies exec", unix.SYS_PERSONALITY, [6]uint64{0x0400000}, refused},
		{"fifo", unix.SYS_MKNODAT, [6]uint64{0, 0, unix.S_IFIFO | 0o644}, allow},
		{"plain file", unix.SYS_MKNODAT, [6]uint64{0, 0, 0o644}, allow},
		{"whiteout", unix.SYS_MKNODAT, [6]uint64{0, 0, unix.S_IFCHR | 0o644}, refused},
		{"disk", unix.SYS_MKNODAT, [6]uint64{0, 0, unix.S_IFBLK | 0o644}, refused},
	} {
		if got := run(nativeArch, k.nr, k.args); got != k.want {
			t.Errorf("%s: got %#x, want %#x", k.name, got, k.want)
		}
	}
}

// Every attempt of the probe is answered by the table as the probe expects, so neither can drift alone.
func TestProbeExpectsWhatTheTableSays(t *testing.T) {
	prog, _ := compiled(t)
	run := machine(t, prog)
	for _, a := range attempts {
		var args [6]uint64
		for i, v := range a.Args {
			args[i] = uint64(v)
		}
		if got, want := run(nativeArch, uint32(a.Call), args), verdict(unix.SECCOMP_RET_ERRNO|uint32(a.Want)); got != want {
			t.Errorf("%s: table says %#x, probe wants %#x", a.Name, got, want)
		}
	}
}

// Long searches need jumps that one instruction cannot make.
func TestLongJumps(t *testing.T) {
	var rules []rule
	for nr := uint32(0); nr < 1500; nr += 2 {
		rules = append(rules, rule{Number: nr, Otherwise: refused, Clauses: []clause{
			{Tests: []test{{Arg: 0, Mask: all32, Values: []uint32{nr, 7}}}, Verdict: allow}}})
	}
	// 1500 numbers with bodies exceed what the kernel takes; the compiler must say so and not cut.
	if _, err := compile(rules); err == nil {
		t.Fatal("a program above the kernel's limit was compiled")
	}
	rules = rules[:400]
	prog, err := compile(rules)
	if err != nil {
		t.Fatal(err)
	}
	run := machine(t, prog)
	for nr := uint32(0); nr < 900; nr++ {
		want, hit := unknown, unknown
		if nr%2 == 0 && nr < 800 {
			want, hit = refused, allow
		}
		if got := run(nativeArch, nr, [6]uint64{uint64(nr) + 1000}); got != want {
			t.Fatalf("call %d: %#x", nr, got)
		}
		if got := run(nativeArch, nr, [6]uint64{uint64(nr)}); got != hit {
			t.Fatalf("call %d with its value: %#x", nr, got)
		}
	}
	if _, err := compile([]rule{{Number: 3, Otherwise: allow}, {Number: 3, Otherwise: refused}}); err == nil {
		t.Fatal("two rules for one call were taken")
	}
}
