package contain

import "golang.org/x/sys/unix"

// verdict is what the filter answers to one system call: a SECCOMP_RET_* value.
type verdict uint32

const (
	allow   verdict = unix.SECCOMP_RET_ALLOW
	refused verdict = unix.SECCOMP_RET_ERRNO | verdict(unix.EPERM)
	unknown verdict = unix.SECCOMP_RET_ERRNO | verdict(unix.ENOSYS) // "this kernel has no such call": runtimes fall back
	noProto verdict = unix.SECCOMP_RET_ERRNO | verdict(unix.EPROTONOSUPPORT)
	noOpt   verdict = unix.SECCOMP_RET_ERRNO | verdict(unix.ENOPROTOOPT)
)

// test holds when argument Arg, cut to its low 32 bits and masked, is one of Values. Only the low half
// counts, because each argument tested here is an int in the kernel, which ignores the high half: a filter
// that compared 64 bits would be passed by setting a high bit.
type test struct {
	Arg    int
	Mask   uint32
	Values []uint32
}

// clause gives Verdict when all tests hold; none at all always hold.
type clause struct {
	Tests   []test
	Verdict verdict
}

// rule is what is known about one system call: the first clause that holds decides, else Otherwise.
type rule struct {
	Number    uint32
	Clauses   []clause
	Otherwise verdict
}

// decide is the filter in words, without BPF: the tests hold the compiled program against it.
func (r rule) decide(args [6]uint64) verdict {
	for _, c := range r.Clauses {
		if c.holds(args) {
			return c.Verdict
		}
	}
	return r.Otherwise
}

func (c clause) holds(args [6]uint64) bool {
	for _, t := range c.Tests {
		if !t.holds(uint32(args[t.Arg])) {
			return false
		}
	}
	return true
}

func (t test) holds(low uint32) bool {
	for _, v := range t.Values {
		if low&t.Mask == v {
			return true
		}
	}
	return false
}
