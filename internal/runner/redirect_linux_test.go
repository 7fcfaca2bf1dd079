package runner

import (
	"encoding/binary"
	"os"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// In a namespace whose loopback was told, the kernel says of each family that it takes the large packets.
func TestLargePackets(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("missing capability: root, for a network namespace of its own")
	}
	sizes := make(chan map[uint16]uint32)
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its namespace
		defer close(sizes)
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			err = largePackets()
		}
		var got map[uint16]uint32
		if err == nil {
			got, err = linkSizes()
		}
		failed <- err
		sizes <- got
	}()
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	got := <-sizes
	for _, which := range []uint16{unix.IFLA_GSO_MAX_SIZE, unix.IFLA_GRO_MAX_SIZE, unix.IFLA_GSO_IPV4_MAX_SIZE, unix.IFLA_GRO_IPV4_MAX_SIZE} {
		if got[which] != maxPacket {
			t.Errorf("attribute %d of loopback is %d", which, got[which])
		}
	}
}

// linkSizes are the attributes of four bytes that the first link has here.
func linkSizes() (map[uint16]uint32, error) {
	b, err := syscall.NetlinkRIB(unix.RTM_GETLINK, unix.AF_UNSPEC)
	if err != nil {
		return nil, err
	}
	messages, err := syscall.ParseNetlinkMessage(b)
	if err != nil {
		return nil, err
	}
	attrs, err := syscall.ParseNetlinkRouteAttr(&messages[0])
	if err != nil {
		return nil, err
	}
	sizes := map[uint16]uint32{}
	for _, a := range attrs {
		if len(a.Value) == 4 {
			sizes[a.Attr.Type] = binary.NativeEndian.Uint32(a.Value)
		}
	}
	return sizes, nil
}
