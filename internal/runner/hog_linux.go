package runner

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Hogs are what the provider runs, once per boot, in a trial sandbox to see each resource limit hold. The
// first argument is the kind, the second a bound beyond which the limit plainly does not.
const (
	HogMemory = "hog-memory" // bytes
	HogPIDs   = "hog-pids"   // processes
	HogDisk   = "hog-disk"   // bytes
	hogSleep  = "hog-sleep"

	// HogRefused is the exit status of a hog that was refused more before its bound.
	HogRefused = 7
)

// Hog runs one; false: args name none. It ends by itself at the bound, with status 0.
func Hog(args []string) bool {
	if len(args) != 2 {
		return false
	}
	bound, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return false
	}
	switch args[0] {
	case HogMemory:
		hogMemory(bound)
	case HogPIDs:
		hogPIDs(bound)
	case HogDisk:
		hogDisk(bound)
	case hogSleep:
		time.Sleep(time.Duration(bound) * time.Second)
	default:
		return false
	}
	return true
}

func hogMemory(bound int64) {
	const step = 4 << 20
	var kept [][]byte
	for used := int64(0); used < bound; used += step {
		b, err := unix.Mmap(-1, 0, step, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			os.Exit(HogRefused)
		}
		for i := 0; i < step; i += 4096 {
			b[i] = 1
		}
		kept = append(kept, b)
	}
	_ = kept
	time.Sleep(3 * time.Second) // for a limit that is only watched
}

func hogPIDs(bound int64) {
	for range bound {
		// Longer than any trial: on a slow machine none may end before the limit is met. They end with the sandbox.
		cmd := exec.Command("/proc/self/exe", hogSleep, "3600")
		if err := cmd.Start(); errors.Is(err, unix.EAGAIN) {
			os.Exit(HogRefused)
		} else if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func hogDisk(bound int64) {
	f, err := os.Create("hog")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	b := make([]byte, 1<<20)
	for used := int64(0); used < bound; used += int64(len(b)) {
		b[0]++
		if _, err := f.Write(b); err != nil {
			os.Exit(HogRefused)
		}
	}
	time.Sleep(5 * time.Second) // the watch comes late
}
