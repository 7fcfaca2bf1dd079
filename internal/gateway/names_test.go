package gateway

import (
	"bytes"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sallyport.dev/sallyport/internal/egress"
)

func named(t testing.TB, s string) egress.Name {
	t.Helper()
	n, err := egress.Host(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Whatever two drivers of one Attempt are asked and in whatever order: an address that one gave to a name is never
// another name's, and a name that the rules spell out keeps its own.
func TestSyntheticAddressesMeanOneName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		host := rapid.SampledFrom([]string{"a.test", "b.test", "c.test", "*.w.test", "198.18.0.16", "198.18.0.17", "198.19.4.0", "fd53:616c:6c79:706f:7274:0:c613:400", "*.v.test"})
		var rules []egress.Rule
		for _, h := range rapid.SliceOfN(host, 0, 9).Draw(t, "rules") {
			rules = append(rules, egress.Rule{Host: h, Port: 1, Protocol: egress.TCP})
		}
		given := map[netip.Addr]egress.Name{} // by any driver
		kept := map[egress.Name]netip.Addr{}
		for generation := range int64(3) {
			shuffled := slices.Clone(rules)
			n := newNames(shuffled, generation)
			for _, s := range rapid.SliceOfN(rapid.SampledFrom([]string{"a.test", "b.test", "c.test", "x.w.test", "y.w.test", "z.v.test"}), 0, 12).Draw(t, "asked") {
				name, _ := egress.Host(s)
				six := rapid.Bool().Draw(t, "six")
				a := n.address(name, six)
				if !a.IsValid() || a.Is6() != six {
					t.Fatalf("%s: %v", name, a)
				}
				if was, ok := given[a]; ok && was != name {
					t.Fatalf("%v was %s and is %s", a, was, name)
				}
				given[a] = name
				for _, r := range rules {
					if r.Host == a.String() {
						t.Fatalf("%s has %v, which a rule names", name, a)
					}
					if r.Host == s && !six {
						if was, ok := kept[name]; ok && was != a {
							t.Fatalf("%s was %v and is %v", name, was, a)
						}
						kept[name] = a
					}
				}
				if got, ok := n.of(a); !ok || got != name {
					t.Fatalf("%v is %v, %v; expected %s", a, got, ok, name)
				}
			}
			for a, name := range given {
				if got, ok := n.of(a); ok && got != name {
					t.Fatalf("%v, once %s, is now %s", a, name, got)
				}
			}
		}
	})
}

func TestAddressesOfHosts(t *testing.T) {
	n := newNames([]egress.Rule{{Host: "198.18.0.30", Port: 1, Protocol: egress.TCP}, {Host: "a.test", Port: 1, Protocol: egress.TCP}}, 1)
	for text, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1", "2001:db8::1": "2001:db8::1", "198.18.0.30": "198.18.0.30",
		"198.18.0.16": "a.test", "::ffff:198.18.0.16": "a.test", "fd53:616c:6c79:706f:7274:0:c612:10": "a.test",
		"198.18.0.17": "", "198.19.255.255": "", "fd53:616c:6c79:706f:7274:0:c613:1": "", "fd53::1": "fd53::1",
	} {
		got, ok := n.of(netip.MustParseAddr(text))
		if ok != (want != "") || got.String() != want {
			t.Errorf("%s is %q, %v; expected %q", text, got, ok, want)
		}
	}
}

// What has no address left is no name, instead of another's.
func TestNamesAreBounded(t *testing.T) {
	n := newNames([]egress.Rule{{Host: "*.w.test", Port: 1, Protocol: egress.TCP}}, generations-1)
	for i := range askedEach {
		if !n.address(named(t, fmt.Sprintf("h%d.w.test", i)), false).IsValid() {
			t.Fatalf("no address after %d names", i)
		}
	}
	if a := n.address(named(t, "more.w.test"), false); a.IsValid() {
		t.Errorf("one more: %v", a)
	}
	if a := newNames(nil, generations).address(named(t, "a.w.test"), false); a.IsValid() {
		t.Errorf("a driver too many: %v", a)
	}
}

// FuzzSpokenHTTP: what is taken for HTTP is never the beginning of TLS or SOCKS, nor a banner, and is whatever a client of ours sends.
func FuzzSpokenHTTP(f *testing.F) {
	for _, s := range []string{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "SSH-2.0-x y\r\n", "\x16\x03\x01 /", "OPTIONS * HTTP/1.1\r\n\r\n", "GET http://a/ HTTP/1.1\r\n\r\n", "EHLO a\r\n", "* OK /", "GET /", ""} {
		f.Add([]byte(s), "/a?b")
	}
	f.Fuzz(func(t *testing.T, b []byte, path string) {
		if spokenHTTP(b) && (b[0] < 'A' || b[0] > 'Z' || !bytes.Contains(b, []byte(" "))) {
			t.Errorf("%q was taken for a request", b)
		}
		if r, err := http.NewRequest(http.MethodPost, "http://a.test/", bytes.NewReader(b)); err == nil {
			r.URL.Path = "/" + path
			var sent bytes.Buffer
			if r.Write(&sent) == nil && !spokenHTTP(sent.Bytes()) {
				t.Errorf("%q was not taken for a request", sent.Bytes())
			}
		}
	})
}

// FuzzTableAddress: a line of the kernel's table of sockets says one address, or none.
func FuzzTableAddress(f *testing.F) {
	f.Add("0100007F:1F90")
	f.Add("0000000000000000FFFF00000100007F:1F90")
	f.Add(":")
	f.Fuzz(func(t *testing.T, s string) {
		if a, ok := tableAddress(s); ok && (!a.Addr().IsValid() || a.Addr().Is4In6()) {
			t.Errorf("%q: %v", s, a)
		}
	})
}

func TestTableAddress(t *testing.T) {
	for s, want := range map[string]string{"0100007F:1F90": "127.0.0.1:8080", "0000000000000000FFFF00000100007F:0050": "127.0.0.1:80", "00000000000000000000000001000000:0035": "[::1]:53"} {
		if a, ok := tableAddress(s); !ok || a.String() != want {
			t.Errorf("%s: %v %v, expected %s", s, a, ok, want)
		}
	}
}
