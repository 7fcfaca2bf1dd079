package egress

import (
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/net/idna"

	"sallyport.dev/sallyport"
)

// RFC 1035 section 2.3.4, without the trailing dot.
const (
	maxName  = 253
	maxLabel = 63
)

// Host is the one meaning of s, a host without a port: from SNI, Host, :authority, CONNECT, SOCKS, a DNS question or
// a rule. What other programs read in two ways is refused (CodeInvalid), with what was expected:
//
//   - A DNS name: letters, digits and hyphens; upper case is lowered and one trailing dot removed. No underscore:
//     no host that answers HTTPS may have one in its certificate. International names only as punycode, which is how
//     they travel; it must be what the IDNA lookup profile would write.
//   - IPv4: four decimal numbers without leading zeros. Any other name whose last label is a number is refused, since
//     some resolver reads it as an address (decimal, octal, hexadecimal, short forms).
//   - IPv6: with or without brackets, no zone. IPv4-mapped is the IPv4 address.
func Host(s string) (Name, error) {
	if n, ok, err := bracketed(s); ok || err != nil {
		return n, err
	}
	if strings.Contains(s, ":") {
		return ipv6(s)
	}
	if err := characters(s); err != nil {
		return Name{}, err
	}
	text, dot := strings.CutSuffix(lower(s), ".")
	if endsInNumber(text) {
		return ipv4(s, text, dot)
	}
	if err := labels(s, text); err != nil {
		return Name{}, err
	}
	return Name{text: text}, nil
}

func bracketed(s string) (Name, bool, error) {
	inner, open := strings.CutPrefix(s, "[")
	if !open {
		return Name{}, false, nil
	}
	inner, closed := strings.CutSuffix(inner, "]")
	if !closed {
		return Name{}, false, badHost(s, "an opening bracket without its closing one at the end", "")
	}
	n, err := ipv6(inner)
	return n, err == nil, err
}

// ipv6 reads an address that has a colon. netip admits every spelling of RFC 4291 and nothing else.
func ipv6(s string) (Name, error) {
	a, err := netip.ParseAddr(s)
	switch {
	case err != nil || !a.Is6():
		return Name{}, badHost(s, "not an IPv6 address, and a host name has no colon", "")
	case a.Zone() != "":
		return Name{}, badHost(s, "an address with a zone means another host on every machine", "")
	}
	return nameOf(a), nil
}

func ipv4(s, text string, dot bool) (Name, error) {
	a, err := netip.ParseAddr(text)
	switch {
	case err != nil:
		return Name{}, badHost(s, "the last part is a number, but this is not an IPv4 address of four decimal numbers without leading zeros", "")
	case dot:
		return Name{}, badHost(s, "an address has no trailing dot", "")
	}
	return nameOf(a), nil
}

func nameOf(a netip.Addr) Name {
	a = a.Unmap()
	return Name{text: a.String(), addr: a}
}

// characters admits what a DNS name is written with and says of everything else what it is.
func characters(s string) error {
	if len(s) > maxName+1 {
		return badHost(s, fmt.Sprintf("longer than the %d bytes of a DNS name", maxName), "")
	}
	for i := range len(s) {
		switch c := s[i]; {
		case isAlnum(c), c == '-', c == '.':
		case c <= ' ' || c == 0x7f:
			return badHost(s, fmt.Sprintf("the byte 0x%02x is a space or control byte", c), "")
		case c >= 0x80:
			return badHost(s, "not ASCII", punycodeHint(s))
		case c == '@':
			return badHost(s, "user information (@) is no part of a host", "")
		case c == '%':
			return badHost(s, "a percent sign: neither escapes nor zones are read", "")
		case c == '_':
			return badHost(s, "an underscore: no host with a certificate has one", "")
		default:
			return badHost(s, fmt.Sprintf("the character %q is no part of a host name", c), "")
		}
	}
	return nil
}

func labels(s, text string) error {
	if text == "" {
		return badHost(s, "empty", "")
	}
	if len(text) > maxName {
		return badHost(s, fmt.Sprintf("longer than the %d bytes of a DNS name", maxName), "")
	}
	for label := range strings.SplitSeq(text, ".") {
		switch {
		case label == "":
			return badHost(s, "an empty label (two dots, or a dot at an end)", "")
		case len(label) > maxLabel:
			return badHost(s, fmt.Sprintf("a label of more than %d bytes", maxLabel), "")
		case label[0] == '-' || label[len(label)-1] == '-':
			return badHost(s, "a label begins or ends with a hyphen", "")
		case strings.HasPrefix(label, "xn--") && !punycode(label):
			return badHost(s, "the label "+label+" is not the punycode of anything", "")
		}
	}
	return nil
}

// punycode says that label is exactly what the lookup profile writes for the label it stands for, so that one
// international name has one spelling here; of plain ASCII it writes no punycode.
func punycode(label string) bool {
	wide, err := idna.Lookup.ToUnicode(label)
	if err != nil {
		return false
	}
	back, err := idna.Lookup.ToASCII(wide)
	return err == nil && back == label
}

func punycodeHint(s string) string {
	ascii, err := idna.Lookup.ToASCII(s)
	if err != nil {
		return ""
	}
	n, err := Host(ascii)
	if err != nil {
		return ""
	}
	return "if this is meant, write " + n.String()
}

// endsInNumber says that some program would take text for an IPv4 address (inet_aton, WHATWG URL "ends in a number").
func endsInNumber(text string) bool {
	last := text[strings.LastIndexByte(text, '.')+1:]
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}

// lower is ASCII lower case; strings.ToLower would fold letters of other scripts into ASCII (the Kelvin sign).
func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

func isAlnum(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// badHost quotes at most 80 bytes of s, which may be hostile.
func badHost(s, what, hint string) error {
	return &sallyport.Error{Op: "read a host", Code: sallyport.CodeInvalid, Subject: fmt.Sprintf("%.80q", s),
		Message: what + "; expected a DNS name or an address", Hint: hint}
}
