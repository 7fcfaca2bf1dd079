package contain

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data (linux/seccomp.h). Both supported architectures are little-endian, so the
// low half of argument i is at offArgs + 8*i.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

// maxJump is the reach of a conditional jump in classic BPF.
const maxJump = 255

// compile turns rules into a seccomp program: refuse foreign architectures, find the number by binary
// search, then test arguments. A library is not used: the one at hand cannot express "ENOSYS for all else",
// and answers a foreign architecture with the default.
//
// CodeInvalid when two rules name the same call, or the program would exceed the kernel's limit.
func compile(rules []rule) ([]unix.SockFilter, error) {
	rules = slices.Clone(rules)
	slices.SortFunc(rules, func(a, b rule) int { return int(int64(a.Number) - int64(b.Number)) })
	for i := 1; i < len(rules); i++ {
		if rules[i].Number == rules[i-1].Number {
			return nil, invalid("compile system call filter", fmt.Sprintf("call %d", rules[i].Number), "expected one rule for each call", nil)
		}
	}
	prog := prologue()
	prog = append(prog, search(spans(rules))...)
	if len(prog) > unix.BPF_MAXINSNS {
		return nil, invalid("compile system call filter", "program", fmt.Sprintf("expected at most %d instructions, got %d", unix.BPF_MAXINSNS, len(prog)), nil)
	}
	return prog, nil
}

// prologue refuses calls of another architecture or ABI and leaves the call's number in the accumulator. The
// answer is an error, not a kill: it is as tight, and Probe can try it.
func prologue() []unix.SockFilter {
	p := []unix.SockFilter{
		load(offArch),
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: nativeArch, Jt: 1},
		ret(refused),
		load(offNumber),
	}
	if x32Bit == 0 {
		return p
	}
	return append(p,
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: x32Bit, Jf: 3},
		// -1 is a call that a tracer has skipped, not one of x32.
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: all32, Jf: 1},
		ret(unknown),
		ret(refused),
	)
}

// span is a run of call numbers, from First up to the next span's, that share a body.
type span struct {
	First uint32
	Body  []unix.SockFilter
	plain bool
}

// spans covers every number; neighbours with the same plain answer are one.
func spans(rules []rule) []span {
	out := []span{{First: 0, Body: body(rule{Otherwise: unknown}), plain: true}}
	add := func(first uint32, r rule) {
		s := span{First: first, Body: body(r), plain: len(r.Clauses) == 0}
		last := &out[len(out)-1]
		switch {
		case last.plain && s.plain && slices.Equal(last.Body, s.Body):
		case last.First == first:
			*last = s
		default:
			out = append(out, s)
		}
	}
	for i, r := range rules {
		add(r.Number, r)
		if i+1 == len(rules) || rules[i+1].Number != r.Number+1 {
			add(r.Number+1, rule{Otherwise: unknown})
		}
	}
	return out
}

// search emits a binary search over spans; each leaf ends in a return.
func search(s []span) []unix.SockFilter {
	if len(s) == 1 {
		return s[0].Body
	}
	mid := len(s) / 2
	low, high := search(s[:mid]), search(s[mid:])
	var p []unix.SockFilter
	if len(low) <= maxJump {
		p = []unix.SockFilter{{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: s[mid].First, Jt: uint8(len(low))}}
	} else {
		p = []unix.SockFilter{
			{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: s[mid].First, Jf: 1},
			{Code: unix.BPF_JMP | unix.BPF_JA, K: uint32(len(low))},
		}
	}
	return append(append(p, low...), high...)
}

// body is the code for one rule, entered with anything in the accumulator.
func body(r rule) []unix.SockFilter {
	var p []unix.SockFilter
	for _, c := range r.Clauses {
		p = append(p, clauseCode(c)...)
	}
	return append(p, ret(r.Otherwise))
}

// clauseCode falls through past its end when a test fails. Tests are emitted last to first, so that each
// knows how far the end is.
func clauseCode(c clause) []unix.SockFilter {
	p := []unix.SockFilter{ret(c.Verdict)}
	for i := len(c.Tests) - 1; i >= 0; i-- {
		p = append(testCode(c.Tests[i], len(p)), p...)
	}
	return p
}

// testCode continues after itself when t holds and skips rest further instructions when not.
func testCode(t test, rest int) []unix.SockFilter {
	p := []unix.SockFilter{load(offArgs + 8*uint32(t.Arg))}
	if t.Mask != all32 {
		p = append(p, unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: t.Mask})
	}
	for i, v := range t.Values {
		left := len(t.Values) - 1 - i
		j := unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: v, Jt: uint8(left)}
		if left == 0 {
			j.Jf = uint8(rest)
		}
		p = append(p, j)
	}
	return p
}

func load(off uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: off}
}

func ret(v verdict) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: uint32(v)}
}
