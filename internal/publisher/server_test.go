package publisher

import (
	"context"
	"encoding/binary"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/publication"
)

// serving has a Publisher listen, and gives the socket.
func (s *stage) serving(o Options) (*Publisher, string) {
	t := s.t
	t.Helper()
	dir, err := os.MkdirTemp("", "publisher-") // a stranger must be able to reach it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	ln, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	p := s.publisher(o)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return p, path
}

func dial(t *testing.T, path string) net.Conn {
	t.Helper()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestServe(t *testing.T) {
	s := newStage(t, "serve")
	done := make(chan struct{}, 8)
	p, path := s.serving(Options{At: func(point string) {
		if point == "after request.done" {
			done <- struct{}{}
		}
	}})
	if _, err := Listen(path); sallyport.CodeOf(err) != sallyport.CodeConflict {
		t.Errorf("a second one listens: %v", err)
	}
	o := s.accept("one\n", nil)

	t.Run("a length of 2 GiB", func(t *testing.T) {
		c := dial(t, path)
		if _, err := c.Write(binary.BigEndian.AppendUint32(nil, 2<<30)); err != nil {
			t.Fatal(err)
		}
		if _, err := publication.ReadAnswer(c); sallyport.CodeOf(err) != sallyport.CodeInvalid {
			t.Error(err)
		}
	})
	t.Run("cut in the middle", func(t *testing.T) {
		for _, n := range []int{0, 3, 100, -1} {
			var b strings.Builder
			if err := o.request.Write(&b, strings.NewReader(string(o.pack))); err != nil {
				t.Fatal(err)
			}
			c := dial(t, path)
			if n < 0 {
				n = b.Len() - 1
			}
			if _, err := c.Write([]byte(b.String()[:n])); err != nil {
				t.Fatal(err)
			}
			if err := c.(*net.UnixConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if _, err := publication.ReadAnswer(c); err == nil || sallyport.CodeOf(err) == sallyport.CodeUnknown {
				t.Errorf("%d bytes: %v", n, err)
			}
		}
	})
	if n := s.types(p); len(n) > 0 {
		t.Errorf("recorded: %v", n)
	}
	t.Run("the asker is gone before the answer", func(t *testing.T) {
		c := dial(t, path)
		if err := o.request.Write(c, strings.NewReader(string(o.pack))); err != nil {
			t.Fatal(err)
		}
		c.Close()
		<-done
		next := dial(t, path)
		if err := o.request.Write(next, strings.NewReader(string(o.pack))); err != nil {
			t.Fatal(err)
		}
		receipt, err := publication.ReadAnswer(next)
		if err != nil {
			t.Fatal(err)
		}
		s.laws(p, o, string(receipt))
	})
}

// stranger names in the environment the socket that a child asks as another user.
const stranger = "PUBLISHER_TEST_STRANGER"

// TestStranger: the kernel says who asks, and whoever is not listed is refused, even where the socket's mode lets them in.
func TestStranger(t *testing.T) {
	if path := os.Getenv(stranger); path != "" {
		_, err := publication.ReadAnswer(dial(t, path))
		if sallyport.CodeOf(err) != sallyport.CodeDenied || !strings.Contains(err.Error(), "user id 1000") {
			t.Fatal(err)
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("missing capability: root, to ask as another user")
	}
	s := newStage(t, "stranger")
	_, path := s.serving(Options{})
	program := filepath.Join(filepath.Dir(path), "asker")
	b, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(program, b, 0o755)
	}
	for _, name := range []string{filepath.Dir(path), path} {
		if err == nil {
			err = os.Chmod(name, 0o777)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-test.run=^TestStranger$", "-test.v")
	cmd.Env, cmd.Dir = []string{stranger + "=" + path}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1000}}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestStranger") {
		t.Errorf("%v\n%s", err, out)
	}
}
