package egress

import (
	"sallyport.dev/sallyport"
)

// Bounds on a ClientHello: several times what clients with post-quantum keys and a session ticket send.
const (
	maxHello   = 16 << 10
	maxRecord  = 1 << 14
	maxRecords = 32
)

const (
	recordHandshake = 22
	clientHello     = 1

	extServerName = 0
	extALPN       = 16
	extECH        = 0xfe0d
	extESNI       = 0xffce
)

// ClientHello reads the first message of a TLS connection from b, which begins at the connection's first byte and may
// hold more than the message. ErrMore: b is the beginning of one. CodeInvalid: it is not one, or not one that has
// a single meaning: more than one name, an address as name, a trailing dot, an extension twice, ECH or ESNI (the
// name would be hidden), bytes left over, too large. No server name: the zero Name and no error. alpn is what the
// client offers, in its order.
func ClientHello(b []byte) (sni Name, alpn []string, err error) {
	message, err := helloMessage(b)
	if err != nil {
		return Name{}, nil, err
	}
	extensions, ok := helloExtensions(message)
	if !ok {
		return Name{}, nil, badHello("the ClientHello is malformed")
	}
	return readExtensions(extensions)
}

// helloMessage puts the handshake message together from its records.
func helloMessage(b []byte) ([]byte, error) {
	var message []byte
	for range maxRecords {
		fragment, rest, err := record(b)
		if err != nil {
			return nil, err
		}
		message, b = append(message, fragment...), rest
		if len(message) > maxHello {
			return nil, badHello("the ClientHello is too large")
		}
		r := reader{b: message}
		kind, body := r.number(1), r.vector(3)
		switch {
		case kind != clientHello:
			return nil, badHello("the first message is no ClientHello")
		case len(message) >= 4 && saidLength(message) > maxHello-4:
			return nil, badHello("the ClientHello is too large")
		case r.bad:
			continue
		case !r.done():
			return nil, badHello("bytes are left over after the ClientHello")
		}
		return body, nil
	}
	return nil, badHello("the ClientHello is in too many records")
}

// saidLength is the length that the header of a handshake message says.
func saidLength(message []byte) int {
	r := reader{b: message[1:]}
	return r.number(3)
}

// record takes one handshake record. As soon as the header's bytes are there they are judged, so that what is not
// TLS is refused at its first byte instead of waited for.
func record(b []byte) (fragment, rest []byte, err error) {
	switch {
	case len(b) > 0 && b[0] != recordHandshake:
		return nil, nil, badHello("the first byte is not that of a TLS handshake")
	case len(b) > 1 && b[1] != 3:
		return nil, nil, badHello("the record is of no TLS version")
	case len(b) < 5:
		return nil, nil, ErrMore
	}
	r := reader{b: b[3:]}
	size := r.number(2)
	if size == 0 || size > maxRecord {
		return nil, nil, badHello("a record is empty or too large")
	}
	if fragment = r.take(size); r.bad {
		return nil, nil, ErrMore
	}
	return fragment, r.b, nil
}

// helloExtensions reads what comes before the extensions (RFC 8446 section 4.1.2, RFC 5246 section 7.4.1.2).
func helloExtensions(message []byte) ([]byte, bool) {
	r := reader{b: message}
	version := r.number(2)
	r.take(32) // random
	session := r.vector(1)
	suites := r.vector(2)
	compression := r.vector(1)
	if r.bad || version>>8 != 3 || len(session) > 32 || len(suites) == 0 || len(suites)%2 != 0 || len(compression) == 0 {
		return nil, false
	}
	if r.done() {
		return nil, true
	}
	extensions := r.vector(2)
	return extensions, r.done()
}

func readExtensions(b []byte) (sni Name, alpn []string, err error) {
	seen := map[int]bool{}
	for r := (reader{b: b}); len(r.b) > 0; {
		kind, data := r.number(2), r.vector(2)
		switch {
		case r.bad:
			return Name{}, nil, badHello("the extensions are malformed")
		case seen[kind]:
			return Name{}, nil, badHello("an extension stands twice")
		}
		seen[kind] = true
		switch kind {
		case extServerName:
			sni, err = serverName(data)
		case extALPN:
			alpn, err = protocols(data)
		case extECH, extESNI:
			err = badHello("the server name is encrypted (ECH); expected it in the clear")
		}
		if err != nil {
			return Name{}, nil, err
		}
	}
	return sni, alpn, nil
}

// serverName reads a list of exactly one host name (RFC 6066 section 3).
func serverName(data []byte) (Name, error) {
	list := reader{b: data}
	one := reader{b: list.vector(2)}
	kind, name := one.number(1), one.vector(2)
	if !list.done() || !one.done() || kind != 0 {
		return Name{}, badHello("expected exactly one server name")
	}
	n, err := Host(string(name))
	switch {
	case err != nil:
		return Name{}, err
	case n.IsAddr() || name[len(name)-1] == '.':
		return Name{}, badHello("a server name is neither an address nor written with a trailing dot")
	}
	return n, nil
}

// protocols reads a list of one or more names that are not empty (RFC 7301 section 3.1).
func protocols(data []byte) ([]string, error) {
	list := reader{b: data}
	names := reader{b: list.vector(2)}
	var out []string
	for len(names.b) > 0 {
		name := names.vector(1)
		if len(name) == 0 {
			return nil, badHello("the list of protocols is malformed")
		}
		out = append(out, string(name))
	}
	if !list.done() || out == nil {
		return nil, badHello("the list of protocols is malformed")
	}
	return out, nil
}

func badHello(message string) error {
	return &sallyport.Error{Op: "read a ClientHello", Code: sallyport.CodeInvalid, Message: message}
}
