package egress

import (
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sallyport.dev/sallyport"
)

func TestAddress(t *testing.T) {
	rule := rules(t, "- a.example")[0]
	for addr, class := range map[string]string{
		"8.8.8.8": "", "1.1.1.1": "", "172.15.255.255": "", "172.32.0.0": "", "100.63.255.255": "", "100.128.0.0": "", "9.255.255.255": "",
		"11.0.0.0": "", "169.253.255.255": "", "192.0.1.0": "", "223.255.255.255": "", "198.17.255.255": "", "198.20.0.0": "", "126.255.255.255": "",
		"2606:4700::1111": "", "2a00:1450::1": "", "2001:200::1": "", "2001:4860:4860::8888": "", "2003::1": "", "::ffff:8.8.8.8": "",

		"127.0.0.1": "loopback", "127.255.255.254": "loopback", "0.0.0.0": "this network", "0.1.2.3": "this network",
		"10.0.0.1": "private", "172.16.0.1": "private", "172.31.255.255": "private", "192.168.1.1": "private",
		"169.254.1.1": "link-local", "169.254.169.254": "metadata", "169.254.170.2": "metadata", "100.100.100.200": "metadata",
		"168.63.129.16": "metadata", "192.0.0.192": "metadata", "100.64.0.1": "carrier-grade NAT", "100.127.255.255": "carrier-grade NAT",
		"192.0.0.1": "protocol assignments", "192.0.2.1": "documentation", "198.51.100.1": "documentation", "203.0.113.1": "documentation",
		"192.88.99.1": "6to4 relay", "198.18.0.1": "benchmarking", "198.19.255.255": "benchmarking",
		"224.0.0.1": "multicast", "239.255.255.255": "multicast", "240.0.0.1": "reserved", "255.255.255.255": "broadcast",
		"::": "unspecified", "::1": "loopback", "::8.8.8.8": "IPv4-compatible", "::127.0.0.1": "IPv4-compatible",
		"::ffff:127.0.0.1": "loopback", "::ffff:10.0.0.1": "private", "::ffff:169.254.169.254": "metadata", "::ffff:0:10.0.0.1": "IPv4-translated",
		"64:ff9b::8.8.8.8": "NAT64", "64:ff9b::10.0.0.1": "NAT64", "64:ff9b:1::1": "NAT64", "2002:a00:1::": "6to4", "2002:808:808::1": "6to4",
		"2001::1": "Teredo", "2001:2::1": "protocol assignments", "2001:20::1": "protocol assignments", "2001:db8::1": "documentation", "3fff::1": "documentation",
		"fc00::1": "private", "fd00:ec2::254": "metadata", "fd20:ce::254": "metadata", "fd12::1": "private",
		"fe80::1": "link-local", "fe80::1%eth0": "zone", "2606:4700::1111%x": "zone", "fec0::1": "site-local", "ff02::1": "multicast", "ff0e::1": "multicast",
		"100::1": "not assigned", "5f00::1": "not assigned", "4000::1": "not assigned",
		"2606:4700::5efe:a00:1": "ISATAP", "2606:4700::200:5efe:8.8.8.8": "ISATAP",
	} {
		err := Address(netip.MustParseAddr(addr), rule)
		switch {
		case class == "" && err != nil:
			t.Errorf("%s: %v", addr, err)
		case class != "" && (sallyport.CodeOf(err) != sallyport.CodeDenied || !strings.Contains(err.Error(), "("+class+")")):
			t.Errorf("%s: %v; want %s", addr, err, class)
		}
	}
	if Address(netip.Addr{}, Rule{}) == nil {
		t.Error("no address is allowed")
	}
}

// TestAddressNamed: only the very address that a rule names, and the hint is the rule that names it.
func TestAddressNamed(t *testing.T) {
	for _, s := range []string{"10.0.0.1", "127.0.0.1", "169.254.169.254", "::1", "fd00:ec2::254", "64:ff9b::a00:1", "2002:a00:1::"} {
		a := netip.MustParseAddr(s)
		named := rules(t, "- {host: '"+s+"'}")[0]
		if err := Address(a, named); err != nil {
			t.Errorf("%s is named: %v", s, err)
		}
		if Address(a.Next(), named) == nil {
			t.Errorf("%s is named and lets %s through", s, a.Next())
		}
		other := rules(t, "- {host: a.example, port: 8443, paths: [/x]}")[0]
		hint := sallyport.HintOf(Address(a, other))
		_, line, _ := strings.Cut(hint, "add to egress: ")
		proposed := rules(t, "- "+line)[0]
		if err := Address(a, proposed); err != nil || proposed.Port != 8443 || proposed.Paths[0] != "/x" {
			t.Errorf("%s: the hint %q: %v", s, hint, err)
		}
	}
	if err := Address(netip.MustParseAddr("::ffff:10.0.0.1"), rules(t, "- 10.0.0.1")[0]); err != nil {
		t.Errorf("mapped is the same address: %v", err)
	}
	for _, s := range []string{"224.0.0.1", "::", "fe80::1%eth0"} {
		if hint := sallyport.HintOf(Address(netip.MustParseAddr(s), rules(t, "- a.example")[0])); hint != "" {
			t.Errorf("%s: no rule can name it, and the hint is %q", s, hint)
		}
	}
}

// TestAddressAgreesWithNetip: what the standard library knows not to be public is refused, in every embedding.
func TestAddressAgreesWithNetip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b [16]byte
		copy(b[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "bytes"))
		a6, a4 := netip.AddrFrom16(b), netip.AddrFrom4([4]byte(b[12:]))
		for _, a := range []netip.Addr{a6, a4} {
			inside := !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified()
			if inside && Address(a, Rule{}) == nil {
				t.Fatalf("%s is allowed", a)
			}
		}
		mapped := netip.AddrFrom16([16]byte{10: 255, 11: 255, 12: b[12], 13: b[13], 14: b[14], 15: b[15]})
		if (Address(mapped, Rule{}) == nil) != (Address(a4, Rule{}) == nil) {
			t.Fatalf("%s and %s differ", mapped, a4)
		}
	})
}
