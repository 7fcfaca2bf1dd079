package egress

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sallyport.dev/sallyport"
)

var long63 = strings.Repeat("a", 63)

// hostTricks are the ways in which one host is written as another. want "" is a refusal.
var hostTricks = []struct{ in, want string }{
	// One meaning.
	{"example.com", "example.com"},
	{"EXAMPLE.com", "example.com"},
	{"example.com.", "example.com"},
	{"localhost", "localhost"},
	{"a-b.example", "a-b.example"},
	{"r3---sn-x.example.com", "r3---sn-x.example.com"},
	{"3com.example", "3com.example"},
	{"1.2.3.4.example.com", "1.2.3.4.example.com"},
	{"0x7f.1.example", "0x7f.1.example"},
	{"0xg", "0xg"},
	{"xn--bcher-kva.example", "xn--bcher-kva.example"},
	{"XN--BCHER-KVA.example", "xn--bcher-kva.example"},
	{"192.0.2.7", "192.0.2.7"},
	{"0.0.0.0", "0.0.0.0"},
	{"255.255.255.255", "255.255.255.255"},
	{"[2001:db8::1]", "2001:db8::1"},
	{"2001:DB8:0:0:0:0:0:1", "2001:db8::1"},
	{"[::]", "::"},
	{"::1", "::1"},
	{"::ffff:127.0.0.1", "127.0.0.1"},
	{"[::ffff:7f00:1]", "127.0.0.1"},
	{"::127.0.0.1", "::7f00:1"},
	{"64:ff9b::10.0.0.1", "64:ff9b::a00:1"},
	{long63 + ".example", long63 + ".example"},
	{strings.Repeat("a.", 126) + "a", strings.Repeat("a.", 126) + "a"},
	{strings.Repeat("a.", 127), strings.Repeat("a.", 126) + "a"},
	// IPv4 that some resolver reads.
	{"2130706433", ""},
	{"0x7f000001", ""},
	{"0X7F000001", ""},
	{"017700000001", ""},
	{"127.1", ""},
	{"127.0.1", ""},
	{"0177.0.0.1", ""},
	{"127.0.0.01", ""},
	{"0x7f.0.0.1", ""},
	{"127.0.0.0x1", ""},
	{"127.0.0.1.", ""},
	{"0x", ""},
	{"0", ""},
	{"1.2.3", ""},
	{"1.2.3.4.5", ""},
	{"256.0.0.1", ""},
	{"1.2.3.256", ""},
	{"999999999999999999999", ""},
	{"example.1", ""},
	{"example.0x1f", ""},
	{"example.com.1.", ""},
	{"1.2.3.4 ", ""},
	{"1..2.3.4", ""},
	{".1.2.3.4", ""},
	// IPv6 that is none.
	{"[::1", ""},
	{"::1]", ""},
	{"[]", ""},
	{"[1.2.3.4]", ""},
	{"[example.com]", ""},
	{"[[::1]]", ""},
	{"[::1].", ""},
	{"[::1]:443", ""},
	{"fe80::1%eth0", ""},
	{"[fe80::1%25eth0]", ""},
	{"::ffff:127.0.0.01", ""},
	{"::ffff:0x7f.0.0.1", ""},
	{"1:2:3:4:5:6:7:8:9", ""},
	{"1::2::3", ""},
	{":::", ""},
	{"00001::", ""},
	{"1:2:3:4:5:6:7::8", ""}, // a :: of nothing
	{"1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"},
	// Names with something in them.
	{"", ""},
	{".", ""},
	{"..", ""},
	{".example.com", ""},
	{"example..com", ""},
	{"example.com..", ""},
	{"example.com:443", ""},
	{"user@example.com", ""},
	{"example.com@evil.example", ""},
	{"example.com/evil.example", ""},
	{"example.com\\evil.example", ""},
	{"example.com?evil.example", ""},
	{"example.com#evil.example", ""},
	{"example.com%00.evil.example", ""},
	{"example.com%2eevil.example", ""},
	{"example%2ecom", ""},
	{"exa_mple.com", ""},
	{"_dmarc.example.com", ""},
	{"-example.com", ""},
	{"example-.com", ""},
	{"exa mple.com", ""},
	{" example.com", ""},
	{"example.com\t", ""},
	{"example.com\r\n", ""},
	{"example.com\x00", ""},
	{"example.com\x00.evil.example", ""},
	{"example.com\x7f", ""},
	{"*.example.com", ""},
	{"example.com,evil.example", ""},
	{"\"example.com\"", ""},
	{"$(id).example.com", ""},
	{"http://example.com", ""},
	{long63 + "a.example", ""},
	{strings.Repeat("a.", 127) + "a", ""},
	{strings.Repeat("a", 64<<10), ""},
	// Other scripts, and what looks like ASCII in them.
	{"bücher.example", ""},
	{"ｅｘａｍｐｌｅ.com", ""},
	{"example。com", ""},
	{"example．com", ""},
	{"exam\u00adple.com", ""},
	{"exam\u200bple.com", ""},
	{"\u202eexample.com", ""},
	{"\u212aernel.org", ""},
	{"１２７.0.0.1", ""},
	{"①.example", ""},
	{"аpple.com", ""},
	{"\xffexample.com", ""},
	{"xn--", ""},
	{"xn---", ""},
	{"xn--a", ""},
	{"xn--a-.example", ""},
	{"xn--example-.com", ""},
	{"xn--99999999", ""},
	{"xn--bcher-kva8.example", ""},
	{"xn--xn--bcher-kva-4kb.example", ""},
	{"xn--bcher-jva.example", "xn--bcher-jva.example"}, // another letter, so another name
	{"xn--BCHER-KVA-.example", ""},
	{"xn--zca.xn--", ""},
}

func TestHostTricks(t *testing.T) {
	if len(hostTricks) < 60 {
		t.Fatalf("%d tricks", len(hostTricks))
	}
	for _, c := range hostTricks {
		n, err := Host(c.in)
		if n.String() != c.want || (err == nil) != (c.want != "") {
			t.Errorf("Host(%.80q) = %q, %v; want %q", c.in, n, err, c.want)
		}
		if err != nil && (sallyport.CodeOf(err) != sallyport.CodeInvalid || strings.ContainsAny(err.Error(), "\x00\r\n\t\u202e")) {
			t.Errorf("%.80q: the refusal is %q", c.in, err)
		}
	}
}

func TestHostTellsThePunycode(t *testing.T) {
	_, err := Host("Bücher.example")
	if hint := sallyport.HintOf(err); !strings.Contains(hint, "xn--bcher-kva.example") {
		t.Errorf("hint %q", hint)
	}
	if n, err := Host("xn--strae-oqa.example"); err != nil {
		t.Errorf("ß is a letter of its own: %v %v", n, err)
	}
}

// agree holds Host to the laws that every input must obey.
func agree(t rapid.TB, s string) {
	n, err := Host(s)
	text, v := oracle(s)
	switch {
	case err == nil && v == no:
		t.Fatalf("Host(%q) = %q; the oracle refuses it", s, n)
	case err != nil && v == yes:
		t.Fatalf("Host(%q): %v; the oracle reads %q", s, err, text)
	case err != nil:
		if !n.IsZero() {
			t.Fatalf("Host(%q) is refused and %q", s, n)
		}
		return
	case n.String() != text:
		t.Fatalf("Host(%q) = %q; the oracle reads %q", s, n, text)
	}
	if again, err := Host(n.String()); err != nil || again != n {
		t.Fatalf("Host(%q) = %q, and that is %q, %v", s, n, again, err)
	}
	if upper, err := Host(strings.ToUpper(n.String())); err != nil || upper != n {
		t.Fatalf("%q has another meaning in upper case: %q, %v", n, upper, err)
	}
	if back, port, err := Target(HostPort(n, 8443)); err != nil || back != n || port != 8443 {
		t.Fatalf("Target(HostPort(%q)) = %q %d %v", n, back, port, err)
	}
	if addr, err := netip.ParseAddr(n.String()); (err == nil) != n.IsAddr() || addr != n.Addr() {
		t.Fatalf("%q is an address: %v; netip: %v", n, n.IsAddr(), err)
	}
}

// FuzzHost: a host has one meaning or none, the same as in a second reading that shares no code (oracle): its form is a fixed
// point, also in upper case, and an address exactly where net/netip says so.
func FuzzHost(f *testing.F) {
	for _, c := range hostTricks {
		f.Add(c.in)
	}
	f.Fuzz(func(t *testing.T, s string) { agree(t, s) })
}

// TestHostAgrees puts names together from the pieces that tricks are made of.
func TestHostAgrees(t *testing.T) {
	pieces := []string{"0", "1", "127", "255", "256", "0x7f", "0177", "0x", "x", "a", "com", "EXAMPLE", ".", ".", ".", "-", "_", ":", "::", "[", "]",
		"ffff", "7f00", "%", "@", "xn--", "bcher-kva", "80ak6aa92e", "ü", "а", "。", "\x00", " ", "/", long63}
	rapid.Check(t, func(t *rapid.T) {
		agree(t, strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 9).Draw(t, "pieces"), ""))
	})
}

func TestTarget(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"example.com:443", "example.com:443"},
		{"EXAMPLE.com.:80", "example.com:80"},
		{"[2001:db8::1]:8443", "[2001:db8::1]:8443"},
		{"[::ffff:192.0.2.1]:1", "192.0.2.1:1"},
		{"192.0.2.1:65535", "192.0.2.1:65535"},
		{"example.com", ""}, {"example.com:", ""}, {":443", ""}, {"", ""}, {":", ""},
		{"example.com:0", ""}, {"example.com:65536", ""}, {"example.com:0443", ""}, {"example.com:+443", ""},
		{"example.com:-1", ""}, {"example.com: 443", ""}, {"example.com:443 ", ""}, {"example.com:https", ""},
		{"example.com:٤٤٣", ""}, {"example.com:443:443", ""}, {"2001:db8::1:443", ""}, {"[2001:db8::1]", ""},
		{"[2001:db8::1]443", ""}, {"[192.0.2.1]:443", ""}, {"[example.com]:443", ""}, {"u:p@example.com:443", ""},
		{"http://example.com:80", ""}, {"example.com:443/", ""}, {"[fe80::1%lo]:443", ""},
	} {
		n, port, err := Target(c.in)
		got := ""
		if err == nil {
			got = HostPort(n, port)
		}
		if got != c.want {
			t.Errorf("Target(%q) = %q, %v; want %q", c.in, got, err, c.want)
		}
	}
}

func TestAuthority(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"example.com", "example.com:443"}, {"example.com:80", "example.com:80"},
		{"[2001:db8::1]", "[2001:db8::1]:443"}, {"[2001:db8::1]:80", "[2001:db8::1]:80"},
		{"2001:db8::1", ""}, {"example.com:", ""}, {"", ""}, {"[::1", ""}, {"a@b", ""}, {"[::1]]", ""},
	} {
		n, port, err := Authority(c.in, 443)
		got := ""
		if err == nil {
			got = HostPort(n, port)
		}
		if got != c.want {
			t.Errorf("Authority(%q) = %q, %v; want %q", c.in, got, err, c.want)
		}
	}
}

func TestNameInJSON(t *testing.T) {
	for _, s := range []string{"", "example.com", "192.0.2.1", "2001:db8::1"} {
		var want Refusal
		if s != "" {
			want.Name = host(t, s)
		}
		b, err := json.Marshal(want)
		var got Refusal
		if err != nil || json.Unmarshal(b, &got) != nil || got != want {
			t.Errorf("%s is read back as %+v (%v)", b, got, err)
		}
	}
	for _, s := range []string{"Example.com", "example.com.", "[::1]", "127.1"} {
		var n Name
		if err := n.UnmarshalText([]byte(s)); sallyport.CodeOf(err) != sallyport.CodeInvalid || !n.IsZero() {
			t.Errorf("%q is read as %q (%v)", s, n, err)
		}
	}
}
