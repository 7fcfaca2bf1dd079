package abi

import (
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// Getpid386 is getpid's number in 32-bit calls (asm/unistd_32.h).
const Getpid386 = 20

// X32 is the bit that makes a number one of the x32 ABI (asm/unistd.h, __X32_SYSCALL_BIT).
const X32 = 0x40000000

func int80(number uint32) int32

// Call386 makes a 32-bit system call without arguments. A kernel without 32-bit emulation answers with a fault, which is as
// good as ENOSYS.
func Call386(number uint32) (r int32, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			r, err = 0, unix.ENOSYS
		}
	}()
	if r = int80(number); r < 0 {
		return 0, unix.Errno(-r)
	}
	return r, nil
}
