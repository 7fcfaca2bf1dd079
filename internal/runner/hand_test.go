package runner

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"sallyport.dev/sallyport"
)

const bearEnv = "SALLYPORT_TEST_BEAR"

func TestMain(m *testing.M) {
	if name := os.Getenv(bearEnv); name != "" {
		err := Bear(name)
		shown, rerr := os.ReadFile("/proc/self/cmdline")
		fmt.Printf("%v %v %s", err, rerr, bytes.ReplaceAll(shown, []byte{0}, []byte{' '}))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func sockets(t *testing.T) (*os.File, *os.File) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	a, b := os.NewFile(uintptr(pair[0]), "a"), os.NewFile(uintptr(pair[1]), "b")
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// What is handed comes whole and in its order, however many messages it takes; nothing of it reaches a child.
func TestHandAndTake(t *testing.T) {
	var files []*os.File
	for i := range 2*mostHanded + 1 {
		f, err := MemoryFile(i)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files = append(files, f)
	}
	for _, n := range []int{0, 1, mostHanded - 1, mostHanded, mostHanded + 1, len(files)} {
		a, b := sockets(t)
		if err := Hand(a, files[:n]); err != nil {
			t.Fatal(err)
		}
		got, err := Take(b)
		if err != nil || len(got) != n {
			t.Fatalf("%d handed, %d taken: %v", n, len(got), err)
		}
		for i, f := range got {
			text := make([]byte, 8)
			k, _ := f.ReadAt(text, 0)
			if string(text[:k]) != fmt.Sprint(i) {
				t.Errorf("of %d, number %d is %q", n, i, text[:k])
			}
			if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
				t.Errorf("a child would inherit it: %v", err)
			}
		}
		closeAll(got)
	}
}

func TestTakeRefusesWhatIsNotHanded(t *testing.T) {
	for name, say := range map[string]func(*os.File) error{
		"a word":     func(a *os.File) error { return Say(a, []byte("word"), nil) },
		"a bad mark": func(a *os.File) error { return Say(a, []byte{2}, nil) },
		"the end":    func(a *os.File) error { return a.Close() },
		"a cut-off hand": func(a *os.File) error {
			if err := Say(a, []byte{1}, os.Stdin); err != nil {
				return err
			}
			return a.Close()
		},
	} {
		a, b := sockets(t)
		if err := say(a); err != nil {
			t.Fatal(err)
		}
		if got, err := Take(b); err == nil {
			t.Errorf("%s: %d files", name, len(got))
		}
	}
}

func TestHearTakesOneFileAtMost(t *testing.T) {
	a, b := sockets(t)
	if err := Say(a, []byte("one"), os.Stdin); err != nil {
		t.Fatal(err)
	}
	if word, f, err := Hear(b); err != nil || string(word) != "one" || f == nil {
		t.Errorf("%q, %v, %v", word, f, err)
	} else {
		f.Close()
	}
	for _, files := range [][]*os.File{{os.Stdin, os.Stdin}, {os.Stdin, os.Stdin, os.Stdin}} {
		if err := Hand(a, files); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Hear(b); err == nil {
			t.Errorf("%d files were taken", len(files))
		}
	}
	if err := Say(a, make([]byte, maxMessage+1), nil); err != nil {
		t.Fatal(err)
	}
	if word, _, err := Hear(b); err == nil {
		t.Errorf("a message of %d bytes was cut to %d", maxMessage+1, len(word))
	}
}

// What a process bears is what everybody reads of it.
func TestBear(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	id := sallyport.FormatID(sallyport.AllocationPrefix, [16]byte{1})
	for _, c := range []struct{ arg, name, want string }{
		{Unnamed, id, "<nil> <nil> keeper " + id + " fac "},
		{Unnamed, id + "x", "expected an argument"},
		{"spare", id, "expected an argument"},
	} {
		cmd := exec.Command(self)
		cmd.Args = []string{"keeper", c.arg, "fac"}
		cmd.Env = append(os.Environ(), bearEnv+"="+c.name)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), c.want) {
			t.Errorf("%s over %s: %q, %v; expected %q", c.name, c.arg, out, err, c.want)
		}
	}
}

// A plan's files come back as they were, whatever is in them, and however often they are read.
func TestPlanFileIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SliceOfN(rapid.SliceOfN(rapid.SampledFrom([]byte("\n\x00\"a{}")), 0, 20), 0, 5).Draw(t, "data")
		p := Plan{Hostname: "h\n"}
		for i, d := range data {
			p.Files = append(p.Files, File{Name: fmt.Sprint("/", i), Data: d})
		}
		f, err := PlanFile(p)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for range 2 {
			got, err := ReadPlan(f)
			if err != nil || got.Hostname != p.Hostname || len(got.Files) != len(data) {
				t.Fatalf("%+v, %v", got, err)
			}
			for i, d := range data {
				if !bytes.Equal(got.Files[i].Data, d) {
					t.Fatalf("file %d is %q, was %q", i, got.Files[i].Data, d)
				}
			}
		}
	})
}

func TestCutOffPlanIsRefused(t *testing.T) {
	plan := func() *os.File {
		f, err := PlanFile(Plan{Files: []File{{Name: "/a", Data: []byte("content")}}})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	whole := plan()
	defer whole.Close()
	fi, err := whole.Stat()
	if err != nil {
		t.Fatal(err)
	}
	for n := range fi.Size() {
		f := plan()
		if err := f.Truncate(n); err != nil {
			t.Fatal(err)
		}
		if p, err := ReadPlan(f); err == nil {
			t.Errorf("the first %d of %d bytes are a plan: %+v", n, fi.Size(), p)
		}
		f.Close()
	}
}
