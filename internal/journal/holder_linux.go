package journal

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/process"
)

// BootID is the kernel's random id of this boot. CodeUnavailable without /proc.
func BootID() (string, error) {
	b, err := process.Boot()
	if err != nil {
		return "", &sallyport.Error{Op: "read boot id", Code: sallyport.CodeUnavailable, Message: "leases need the kernel's boot id", Hint: "mount /proc", Err: err}
	}
	return b, nil
}

// BootTime is the time since boot, suspend included (CLOCK_BOOTTIME): nobody can set it, and all processes
// of one boot agree on it. Leases count on it and never on wall time.
func BootTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("CLOCK_BOOTTIME: " + err.Error()) // every Linux since 2.6.39 has it: the host is not Linux
	}
	return time.Duration(ts.Nano())
}

// SelfHolder is this process.
func SelfHolder() (Holder, error) {
	boot, err := BootID()
	if err != nil {
		return Holder{}, err
	}
	host, err := os.Hostname()
	if err != nil {
		return Holder{}, &sallyport.Error{Op: "name this process", Code: sallyport.CodeUnavailable, Message: "the host has no name", Err: err}
	}
	st, err := process.Read(os.Getpid())
	if err != nil {
		return Holder{}, &sallyport.Error{Op: "name this process", Code: sallyport.CodeUnavailable, Message: "expected a readable /proc/PID/stat", Hint: "mount /proc", Err: err}
	}
	space, err := pidSpace()
	if err != nil {
		return Holder{}, &sallyport.Error{Op: "name this process", Code: sallyport.CodeUnavailable, Message: "expected a readable /proc/self/ns/pid", Hint: "mount /proc", Err: err}
	}
	return Holder{Host: host, Boot: boot, PID: os.Getpid(), StartTime: st.StartTime, PIDSpace: space}, nil
}

func pidSpace() (uint64, error) {
	var st unix.Stat_t
	err := unix.Stat("/proc/self/ns/pid", &st)
	return st.Ino, err
}

// DeadOnThisHost reports whether h is proven dead: it is of this host and of another boot, or its process
// is gone, a zombie as a whole, or another process under the same number. Of another host, of another pid namespace,
// incomplete, or whenever anything cannot be read: false, and its lease has to run out. (Sandboxes are found by
// pid as well: a state folder belongs to one pid namespace. A look from another one must only do no harm.)
func DeadOnThisHost(h Holder) bool {
	host, err := os.Hostname()
	if err != nil || h.Host == "" || h.Host != host || h.Boot == "" {
		return false
	}
	boot, err := BootID()
	if err != nil {
		return false
	}
	if h.Boot != boot {
		return true
	}
	space, err := pidSpace()
	if err != nil || h.PIDSpace != space || h.PID <= 0 || h.StartTime == 0 {
		return false
	}
	// The signal is asked first: under hidepid= another user's live process has no folder in /proc.
	if errors.Is(unix.Kill(h.PID, 0), unix.ESRCH) {
		return true
	}
	st, err := process.Read(h.PID)
	return err == nil && (st.StartTime != h.StartTime || st.Zombie && process.Ended(h.PID))
}

// Live reports whether the lease counts at now on the clock of the given boot. A lease of another boot has
// expired.
func (l Lease) Live(boot string, now time.Duration) bool {
	return l.Holder.Boot == boot && now < l.Until
}

// String is the holder as events and messages name it.
func (h Holder) String() string {
	return fmt.Sprintf("pid %d on %s (started %d, boot %s)", h.PID, h.Host, h.StartTime, h.Boot)
}
