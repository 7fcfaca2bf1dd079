package main

import (
	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport/internal/contain/abi"
)

// otherABIs asks for the process's id by the two other ways of this architecture.
func otherABIs() {
	if r, err := abi.Call386(abi.Getpid386); err == nil {
		won("a 32-bit call: %d", r)
	}
	if r, _, e := unix.RawSyscall(unix.SYS_GETPID|abi.X32, 0, 0, 0); e == 0 {
		won("an x32 call: %d", r)
	}
}
