// Command sallyport-hostile is what `sallyport selftest` and the attack tests run inside of sandboxes: each word is
// one attempt to do more than a sandbox allows. It prints what it achieved, one line each, and "done" at the end.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
)

var attempts = map[string]func(args []string){
	"deep":      deep,
	"hide":      hide,
	"names":     names,
	"marks":     marks,
	"fileflags": fileFlags,
	"first":     first,
	"parent":    parent,
	"reach":     reach,
	"zombies":   zombies,
	"bulk":      bulk,
	"out":       out,
	"kernel":    kernel,
	"sysctl":    sysctl,
	"power":     power,
	"memfd":     inMemory,
	"dial":      dial,
	"swap":      swap,
}

func init() { runtime.LockOSThread() } // main stays on the first thread

func main() {
	if len(os.Args) < 2 || attempts[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "sallyport-hostile: expected an attempt")
		os.Exit(2)
	}
	attempts[os.Args[1]](os.Args[2:])
	fmt.Println("done")
}

// won reports what must not be possible.
func won(format string, args ...any) { fmt.Printf("WON "+format+"\n", args...) }

func number(s string) int {
	n, err := strconv.Atoi(s)
	check(err)
	return n
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(3)
	}
}
