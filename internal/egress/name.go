package egress

import "net/netip"

// Name is a host in its one canonical form: a lower-case DNS name without a trailing dot, or an address. Names
// are comparable; equal Names are the same host. The zero Name is no host and equals no listed one. Only Host
// and what is built on it make a Name.
type Name struct {
	text string
	addr netip.Addr
}

// String is the name, or the address without brackets; "" for the zero Name.
func (n Name) String() string { return n.text }

// Addr is the address that n is, if it is one; the zero Addr for a DNS name.
func (n Name) Addr() netip.Addr { return n.addr }

// IsAddr says that n is an address and needs no resolving.
func (n Name) IsAddr() bool { return n.addr.IsValid() }

// IsZero says that n is no host.
func (n Name) IsZero() bool { return n.text == "" }

// MarshalText is String, so that a Name in JSON is its text.
func (n Name) MarshalText() ([]byte, error) { return []byte(n.text), nil }

// UnmarshalText is the inverse of MarshalText: only the canonical form is read (CodeInvalid), "" is the zero Name.
func (n *Name) UnmarshalText(b []byte) error {
	if *n = (Name{}); len(b) == 0 {
		return nil
	}
	read, err := Host(string(b))
	if err == nil && read.text != string(b) {
		err = badHost(string(b), "not in its canonical form", "write "+read.text)
	}
	if err == nil {
		*n = read
	}
	return err
}
