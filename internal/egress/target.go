package egress

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"sallyport.dev/sallyport"
)

// Target reads HOST:PORT with both required, as after CONNECT; an IPv6 address is in brackets. CodeInvalid else.
func Target(s string) (Name, uint16, error) {
	host, port, ok := splitPort(s)
	if !ok {
		return Name{}, 0, &sallyport.Error{Op: "read a target", Code: sallyport.CodeInvalid, Subject: fmt.Sprintf("%.80q", s),
			Message: "expected HOST:PORT, an IPv6 address in brackets, the port from 1 to 65535 without leading zeros"}
	}
	n, err := Host(host)
	if err != nil {
		return Name{}, 0, err
	}
	return n, port, nil
}

// Authority reads HOST or HOST:PORT, as in Host and :authority; an IPv6 address is in brackets. port is what a
// missing one means. CodeInvalid else.
func Authority(s string, port uint16) (Name, uint16, error) {
	if bare := !strings.Contains(s, ":") || strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]"); !bare {
		return Target(s)
	}
	n, err := Host(s)
	if err != nil {
		return Name{}, 0, err
	}
	return n, port, nil
}

// HostPort is the inverse of Target: what is dialled for n and port.
func HostPort(n Name, port uint16) string {
	if n.addr.IsValid() {
		return netip.AddrPortFrom(n.addr, port).String()
	}
	return n.text + ":" + strconv.Itoa(int(port))
}

func splitPort(s string) (host string, port uint16, ok bool) {
	at := strings.LastIndexByte(s, ':')
	if at < 0 {
		return "", 0, false
	}
	host, digits := s[:at], s[at+1:]
	if strings.Contains(host, ":") != strings.HasPrefix(host, "[") {
		return "", 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != digits {
		return "", 0, false
	}
	return host, uint16(n), true
}
