// Command init is process 1 of a test's guest: it makes the system that a distribution's init would make
// (mounts shared as systemd leaves them, cgroup v2, loopback), then starts itself again to run the commands
// that come over the serial port, and reaps orphans. See tools/guest.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport/tools/guest/talk"
)

const serveArg = "serve"

func main() {
	if len(os.Args) > 1 && os.Args[1] == serveArg {
		fmt.Println("guest: serving ends:", serve())
		os.Exit(1)
	}
	if err := boot(); err != nil {
		fmt.Println("guest: boot:", err)
		halt()
	}
	if os.Getenv(talk.Manager) == "systemd" {
		fmt.Println("guest: systemd:", becomeSystemd())
		halt()
	}
	// A process of its own for the commands: process 1 waits for whoever ends, and must not take the status of
	// somebody else's child.
	server := exec.Command("/proc/self/exe", serveArg)
	server.Stdout, server.Stderr = os.Stdout, os.Stderr
	if err := server.Start(); err != nil {
		fmt.Println("guest: serve:", err)
		halt()
	}
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, 0, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || pid == server.Process.Pid {
			fmt.Println("guest: ends:", pid, ws, err)
			halt()
		}
	}
}

// halt ends the guest; the emulator ends with it.
func halt() {
	time.Sleep(200 * time.Millisecond) // let the console drain
	unix.Sync()
	unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	select {}
}
