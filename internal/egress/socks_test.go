package egress

import (
	"errors"
	"net"
	"testing"

	"golang.org/x/net/proxy"

	"sallyport.dev/sallyport"
)

func TestSOCKS(t *testing.T) {
	named := func(name string, port ...byte) []byte {
		return append(append([]byte{5, 1, 0, 3, byte(len(name))}, name...), port...)
	}
	for _, c := range []struct {
		in   []byte
		want string // "": refused
	}{
		{named("Example.com", 1, 187), "example.com:443"},
		{named("example.com.", 0, 80), "example.com:80"},
		{named("192.0.2.1", 0, 80), "192.0.2.1:80"},
		{named("2001:db8::1", 0, 80), "[2001:db8::1]:80"},
		{[]byte{5, 1, 0, 1, 192, 0, 2, 1, 0, 80}, "192.0.2.1:80"},
		{append(append([]byte{5, 1, 0, 4}, net.ParseIP("2001:db8::1")...), 0, 80), "[2001:db8::1]:80"},
		{append(append([]byte{5, 1, 0, 4}, net.ParseIP("127.0.0.1").To16()...), 0, 80), "127.0.0.1:80"},
		{[]byte{4}, ""}, {[]byte{5, 2}, ""}, {[]byte{5, 3}, ""}, {[]byte{5, 1, 1}, ""}, {[]byte{5, 1, 0, 2}, ""}, {[]byte{5, 1, 0, 0}, ""},
		{named("", 0, 80), ""}, {named("example.com", 0, 0), ""}, {named("127.1", 0, 80), ""}, {named("a@b", 0, 80), ""},
		{named("example.com\x00x", 0, 80), ""}, {named("example.com:80", 0, 80), ""},
	} {
		n, port, used, err := SOCKS(append(c.in, "later"...))
		if c.want == "" {
			if sallyport.CodeOf(err) != sallyport.CodeInvalid || used != 0 || !n.IsZero() || port != 0 {
				t.Errorf("%q: %q %d %d %v", c.in, n, port, used, err)
			}
			continue
		}
		if err != nil || HostPort(n, port) != c.want || used != len(c.in) {
			t.Errorf("%q: %q %d %d %v", c.in, n, port, used, err)
		}
		for k := range c.in {
			if _, _, _, err := SOCKS(c.in[:k]); !errors.Is(err, ErrMore) {
				t.Errorf("%q: %v", c.in[:k], err)
			}
		}
	}
}

func TestSOCKSGreeting(t *testing.T) {
	for in, want := range map[string]int{"\x05\x01\x00": 3, "\x05\x02\x02\x00later": 4, "\x05\x01\x02": -1, "\x05\x00": -1, "\x04": -1, "G": -1} {
		if n, err := SOCKSGreeting([]byte(in)); err == nil && n != want || err != nil && (want != -1 || sallyport.CodeOf(err) != sallyport.CodeInvalid) {
			t.Errorf("%q: %d %v", in, n, err)
		}
	}
	for _, in := range []string{"", "\x05", "\x05\x02", "\x05\x02\x00"} {
		if _, err := SOCKSGreeting([]byte(in)); !errors.Is(err, ErrMore) {
			t.Errorf("%q: %v", in, err)
		}
	}
}

// TestSOCKSOfARealClient reads what the client of x/net writes.
func TestSOCKSOfARealClient(t *testing.T) {
	for addr, want := range map[string]string{"example.com:443": "example.com:443", "192.0.2.1:80": "192.0.2.1:80", "[2001:db8::1]:80": "[2001:db8::1]:80"} {
		here, there := net.Pipe()
		got := make(chan string, 1)
		go func() {
			defer here.Close()
			b := make([]byte, 512)
			n, _ := here.Read(b)
			if _, err := SOCKSGreeting(b[:n]); err != nil {
				got <- err.Error()
				return
			}
			here.Write([]byte{5, 0})
			n, _ = here.Read(b)
			name, port, _, err := SOCKS(b[:n])
			if err != nil {
				got <- err.Error()
				return
			}
			here.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
			got <- HostPort(name, port)
		}()
		d, err := proxy.SOCKS5("tcp", "proxy", nil, dialer{there})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Dial("tcp", addr); err != nil {
			t.Errorf("%s: %v", addr, err)
		}
		if g := <-got; g != want {
			t.Errorf("%s is read as %s", addr, g)
		}
		there.Close()
	}
}

type dialer struct{ net.Conn }

func (d dialer) Dial(string, string) (net.Conn, error) { return d.Conn, nil }

// FuzzSOCKS: a first answer other than "more" never changes however many bytes follow, and what is read is a Target that reads the same again.
func FuzzSOCKS(f *testing.F) {
	f.Add([]byte("\x05\x01\x00\x03\x0bexample.com\x01\xbb"))
	f.Add([]byte("\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50"))
	f.Add([]byte("\x05\x01\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x7f\x00\x00\x01\x00\x50"))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, port, used, err := SOCKS(b)
		for k := range min(len(b), 300) {
			n2, port2, used2, err2 := SOCKS(b[:k])
			if !errors.Is(err2, ErrMore) && (n2 != n || port2 != port || used2 != used || (err == nil) != (err2 == nil)) {
				t.Fatalf("%x: after %d bytes %q %v, after all %q %v", b, k, n2, err2, n, err)
			}
		}
		if err != nil {
			return
		}
		if back, p, err := Target(HostPort(n, port)); err != nil || back != n || p != port {
			t.Fatalf("%x: %q is no Target: %v", b, HostPort(n, port), err)
		}
	})
}
