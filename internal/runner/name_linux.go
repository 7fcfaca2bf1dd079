package runner

import (
	"fmt"
	"os"
	"strings"
	"unsafe"

	"sallyport.dev/sallyport"
)

// Unnamed stands in the arguments of a keeper or runner that has no Allocation yet, as long as an allocation id.
var Unnamed = "spare" + strings.Repeat("-", len(sallyport.FormatID(sallyport.AllocationPrefix, [16]byte{}))-len("spare"))

// Bear puts an allocation id in the place of Unnamed in this process's arguments, where everybody on this
// machine can read it (/proc/PID/cmdline): from here on the process is found as one of that Allocation.
func Bear(allocation string) error {
	if len(os.Args) < 2 || len(os.Args[1]) != len(allocation) {
		return fmt.Errorf("expected an argument of %d bytes to write the allocation's id over", len(allocation))
	}
	// Go's arguments are the very bytes that the kernel shows; nothing else may hold on to this string.
	copy(unsafe.Slice(unsafe.StringData(os.Args[1]), len(allocation)), allocation)
	return nil
}
