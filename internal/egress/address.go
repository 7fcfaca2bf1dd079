package egress

import (
	"fmt"
	"net/netip"

	"sallyport.dev/sallyport"
)

// Address says whether the gateway may dial a, to which a name that rule allows was resolved. It must be public,
// or the very address that the rule names: so a name cannot be rebound to something inside. An IPv4-mapped address
// is the IPv4 one. CodeDenied, with the kind of address and the line that would allow it.
func Address(a netip.Addr, rule Rule) error {
	zone := a.Zone()
	a = a.WithZone("").Unmap()
	class := classOf(a)
	switch {
	case zone != "":
		class = "zone"
	case class == "" || a.IsValid() && isAddr(rule, a):
		return nil
	}
	return &sallyport.Error{Op: "check an address", Code: sallyport.CodeDenied, Subject: a.String(),
		Message: fmt.Sprintf("%q leads to an address that is not public (%s); expected a public one", rule.Host, class),
		Hint:    addressHint(a, class, rule)}
}

func addressHint(a netip.Addr, class string, rule Rule) string {
	if rule.Host = a.String(); class == "zone" || Check(rule) != nil {
		return ""
	}
	return "if this very address is meant, add to egress: " + Line(rule)
}

// special are the ranges that are not public, the narrower before the wider: the IANA special-purpose registries
// for IPv4 and IPv6 of 2025, multicast, and the addresses where clouds answer with credentials.
var special = []struct {
	prefix netip.Prefix
	class  string
}{
	{netip.MustParsePrefix("169.254.169.254/32"), "metadata"},
	{netip.MustParsePrefix("169.254.170.2/32"), "metadata"},
	{netip.MustParsePrefix("100.100.100.200/32"), "metadata"},
	{netip.MustParsePrefix("168.63.129.16/32"), "metadata"},
	{netip.MustParsePrefix("192.0.0.192/32"), "metadata"},
	{netip.MustParsePrefix("fd00:ec2::254/128"), "metadata"},
	{netip.MustParsePrefix("fd20:ce::254/128"), "metadata"},

	{netip.MustParsePrefix("0.0.0.0/8"), "this network"},
	{netip.MustParsePrefix("10.0.0.0/8"), "private"},
	{netip.MustParsePrefix("100.64.0.0/10"), "carrier-grade NAT"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local"},
	{netip.MustParsePrefix("172.16.0.0/12"), "private"},
	{netip.MustParsePrefix("192.0.0.0/24"), "protocol assignments"},
	{netip.MustParsePrefix("192.0.2.0/24"), "documentation"},
	{netip.MustParsePrefix("192.31.196.0/24"), "AS112"},
	{netip.MustParsePrefix("192.52.193.0/24"), "multicast relay"},
	{netip.MustParsePrefix("192.88.99.0/24"), "6to4 relay"},
	{netip.MustParsePrefix("192.168.0.0/16"), "private"},
	{netip.MustParsePrefix("192.175.48.0/24"), "AS112"},
	{netip.MustParsePrefix("198.18.0.0/15"), "benchmarking"},
	{netip.MustParsePrefix("198.51.100.0/24"), "documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "documentation"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("255.255.255.255/32"), "broadcast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved"},

	{netip.MustParsePrefix("::/128"), "unspecified"},
	{netip.MustParsePrefix("::1/128"), "loopback"},
	{netip.MustParsePrefix("::/96"), "IPv4-compatible"},
	{netip.MustParsePrefix("::ffff:0:0:0/96"), "IPv4-translated"},
	{netip.MustParsePrefix("64:ff9b::/96"), "NAT64"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "NAT64"},
	{netip.MustParsePrefix("2001::/32"), "Teredo"},
	{netip.MustParsePrefix("2001::/23"), "protocol assignments"},
	{netip.MustParsePrefix("2001:db8::/32"), "documentation"},
	{netip.MustParsePrefix("2002::/16"), "6to4"},
	{netip.MustParsePrefix("2620:4f:8000::/48"), "AS112"},
	{netip.MustParsePrefix("3fff::/20"), "documentation"},
	{netip.MustParsePrefix("fc00::/7"), "private"},
	{netip.MustParsePrefix("fe80::/10"), "link-local"},
	{netip.MustParsePrefix("fec0::/10"), "site-local"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
}

var globalUnicast6 = netip.MustParsePrefix("2000::/3")

// classOf is the kind of address that a is, "" for a public one. What is not known to be public is not.
func classOf(a netip.Addr) string {
	for _, s := range special {
		if s.prefix.Contains(a) {
			return s.class
		}
	}
	switch {
	case !a.IsValid():
		return "none"
	case a.Is4():
		return ""
	case !globalUnicast6.Contains(a):
		return "not assigned"
	case embedsIPv4(a):
		return "ISATAP"
	}
	return ""
}

// embedsIPv4 finds the interface identifier of ISATAP (RFC 5214 section 6.1), which any prefix may have before it.
func embedsIPv4(a netip.Addr) bool {
	b := a.As16()
	return b[8]&^0x02 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}
