package contain

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

func TestPrepareRefuses(t *testing.T) {
	for _, c := range []Confinement{
		{},
		{UID: 1000},
		{GID: 1000},
		{UID: -1, GID: 1000},
		{UID: 1000, GID: 1000, Writable: []string{"work"}},
		{UID: 1000, GID: 1000, Writable: []string{"/"}},
		{UID: 1000, GID: 1000, Writable: []string{"/work/../etc"}},
		{UID: 1000, GID: 1000, Writable: []string{""}},
	} {
		if _, err := Prepare(c); sallyport.CodeOf(err) != sallyport.CodeInvalid {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A thread that cannot become what was asked is told so, before anything else is taken from it.
func TestApplyRefusesOtherIDs(t *testing.T) {
	p, err := Prepare(Confinement{UID: os.Getuid() + 4242, GID: os.Getgid() + 4242})
	if err != nil {
		t.Fatal(err)
	}
	Spend(func() { err = p.Apply() })
	if sallyport.CodeOf(err) != sallyport.CodeDenied && os.Getuid() != 0 {
		// An ordinary user fails at the bounding set already.
		t.Fatalf("got %v", err)
	}
	if err == nil {
		t.Fatal("a thread of another user passed")
	}
}

// Only the spent thread is confined; the process goes on as it was.
func TestOthersKeepTheirPower(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: an ordinary user outside a user namespace cannot empty its bounding set")
	}
	p, err := Prepare(Confinement{UID: userID, GID: userID, ChangeIDs: true, Writable: []string{"/tmp"}})
	if err != nil {
		t.Fatal(err)
	}
	var inside, outside map[string]string
	Spend(func() {
		if err = p.Apply(); err == nil {
			inside, err = threadStatus()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if outside, err = threadStatus(); err != nil {
		t.Fatal(err)
	}
	if inside["Seccomp"] != "2" || inside["NoNewPrivs"] != "1" || inside["Uid"] != "1000 1000 1000 1000" || inside["Groups"] != "" {
		t.Errorf("confined thread: %v", inside)
	}
	if outside["Seccomp"] != "0" || outside["NoNewPrivs"] != "0" || outside["Uid"] != "0 0 0 0" {
		t.Errorf("another thread was confined too: %v", outside)
	}
}

// Spend never uses the first thread: what it became would be the process's face for good.
func TestSpendLeavesTheFirstThread(t *testing.T) {
	for range 200 {
		Spend(func() {
			if unix.Gettid() == unix.Getpid() {
				t.Error("ran on the first thread")
			}
		})
	}
}

// Rights that a kernel knows and the ruleset does not handle would be free.
func TestLandlockHandlesAll(t *testing.T) {
	for _, k := range []struct {
		abi    int
		rights uint64
		size   uintptr
		scoped bool
	}{
		{1, 1<<13 - 1, 8, false}, {2, 1<<14 - 1, 8, false}, {3, 1<<15 - 1, 8, false}, {4, 1<<15 - 1, 16, false},
		{5, 1<<16 - 1, 16, false}, {6, 1<<16 - 1, 24, true}, {7, 1<<16 - 1, 24, true}, {8, 1<<16 - 1, 24, true}, {9, 1<<17 - 1, 24, true},
	} {
		attr, size := attrFor(k.abi)
		if attr.handledFS != k.rights || size != k.size || (attr.scoped != 0) != k.scoped || attr.handledNet != 0 {
			t.Errorf("ABI %d: %#x size %d scoped %#x", k.abi, attr.handledFS, size, attr.scoped)
		}
	}
	if abi := landlockABI(); abi > 0 {
		attr, size := attrFor(abi)
		t.Logf("this kernel: ABI %d, %d bytes, rights %#x", abi, size, attr.handledFS)
	}
}

func BenchmarkPrepare(b *testing.B) {
	for b.Loop() {
		if _, err := Prepare(Confinement{UID: userID, GID: userID}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSpendNothing(b *testing.B) {
	for b.Loop() {
		Spend(func() {})
	}
}

func BenchmarkSpendApply(b *testing.B) {
	if os.Getuid() != 0 {
		b.Skip("needs root, or a user namespace")
	}
	p, err := Prepare(Confinement{UID: userID, GID: userID, ChangeIDs: true, Writable: []string{"/tmp"}})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(len(p.filter)), "instructions")
	for b.Loop() {
		Spend(func() { err = p.Apply() })
		if err != nil {
			b.Fatal(err)
		}
	}
}
