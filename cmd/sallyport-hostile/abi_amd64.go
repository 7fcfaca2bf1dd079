package main

import (
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// int80 makes a 32-bit system call without arguments and returns the kernel's answer.
func int80(number uint32) int32

// otherABIs asks for the process's id by the two other ways of this architecture.
func otherABIs() {
	const getpid386, x32 = 20, 0x40000000
	if r := call386(int80, getpid386); r > 0 {
		won("a 32-bit call: %d", r)
	}
	if r, _, e := unix.RawSyscall(unix.SYS_GETPID|x32, 0, 0, 0); e == 0 {
		won("an x32 call: %d", r)
	}
}

// call386: a kernel without 32-bit emulation answers with a fault.
func call386(call func(uint32) int32, number uint32) (r int32) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			r = -1
		}
	}()
	return call(number)
}
