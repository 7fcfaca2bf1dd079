package main

import (
	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport/internal/contain/abi"
)

// otherABI asks for the process's id by the two other ways of this architecture.
func otherABI() result {
	if _, err := abi.Call386(abi.Getpid386); err == nil {
		return result{true, "int 0x80"}
	}
	_, _, e := unix.RawSyscall(unix.SYS_GETPID|abi.X32, 0, 0, 0)
	return errno(e)
}
