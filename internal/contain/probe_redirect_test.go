package contain

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

// Where nothing is led anywhere, or what leads it could be undone, the probes say so: every trial gets through.
func TestProbeSeesAMissingRedirect(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("missing capability: only root makes a network namespace for one thread")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends with us
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Error(err)
			return
		}
		var files [2]*os.File
		for i, kind := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM} {
			s, err := unix.Socket(unix.AF_INET6, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
			if err == nil {
				err = unix.Bind(s, &unix.SockaddrInet6{Port: 18790})
			}
			if err == nil && kind == unix.SOCK_STREAM {
				err = unix.Listen(s, 8)
			}
			if err != nil {
				t.Error(err)
				return
			}
			files[i] = os.NewFile(uintptr(s), "way out")
			defer files[i].Close()
		}
		p := &trials{layer: sallyport.LayerNetwork}
		p.redirected(&Redirect{TCP: files[0], UDP: files[1]})
		for _, k := range p.made {
			if k.Refused {
				t.Errorf("%s: %s, and was taken for proof", k.Name, k.Answer)
			}
		}
		if r := p.report(); r.Status != sallyport.LayerNotHeld || len(p.made) < 12 || !strings.Contains(r.Proof, "TCP to 192.0.2.1:443") {
			t.Errorf("%d trials, %+v", len(p.made), r)
		}
	}()
	<-done
}
