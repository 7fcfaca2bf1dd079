package egress

import (
	"net/netip"

	"sallyport.dev/sallyport"
)

// SOCKSGreeting reads the first message of SOCKS 5 (RFC 1928 section 3) from b; n is how many bytes it took. The
// client must offer to go on without authentication: there is nobody here to be told a password. ErrMore: b is
// the beginning of one.
func SOCKSGreeting(b []byte) (n int, err error) {
	if len(b) > 0 && b[0] != 5 {
		return 0, badSOCKS("expected version 5")
	}
	r := reader{b: b}
	r.take(1)
	methods := r.vector(1)
	if r.bad {
		return 0, ErrMore
	}
	for _, m := range methods {
		if m == 0 {
			return len(b) - len(r.b), nil
		}
	}
	return 0, badSOCKS("expected the offer of no authentication")
}

// SOCKS reads the request of SOCKS 5 (RFC 1928 section 4) from b; n is how many bytes it took. Only CONNECT is
// served. A name and an address in text have the same meaning here as everywhere (Host). ErrMore: b is the
// beginning of one.
func SOCKS(b []byte) (name Name, port uint16, n int, err error) {
	for i, want := range []byte{5, 1, 0} {
		if i < len(b) && b[i] != want {
			return Name{}, 0, 0, badSOCKS("expected version 5, CONNECT and a zero")
		}
	}
	r := reader{b: b}
	r.take(3)
	kind := r.number(1)
	var host []byte
	switch kind {
	case 1:
		host = r.take(4)
	case 3:
		host = r.vector(1)
	case 4:
		host = r.take(16)
	default:
		if r.bad {
			return Name{}, 0, 0, ErrMore
		}
		return Name{}, 0, 0, badSOCKS("expected an address of type 1, 3 or 4")
	}
	port = uint16(r.number(2))
	switch {
	case r.bad:
		return Name{}, 0, 0, ErrMore
	case port == 0:
		return Name{}, 0, 0, badSOCKS("expected a port from 1 to 65535")
	case kind == 3:
		name, err = Host(string(host))
	default:
		a, _ := netip.AddrFromSlice(host)
		name = nameOf(a)
	}
	if err != nil {
		return Name{}, 0, 0, err
	}
	return name, port, len(b) - len(r.b), nil
}

func badSOCKS(message string) error {
	return &sallyport.Error{Op: "read a SOCKS request", Code: sallyport.CodeInvalid, Message: message}
}
