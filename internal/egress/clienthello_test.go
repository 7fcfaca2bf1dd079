package egress

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sallyport.dev/sallyport"
)

// pipe is a connection that reads from in and keeps what is written.
type pipe struct {
	in  io.Reader
	out bytes.Buffer
}

func (p *pipe) Read(b []byte) (int, error)       { return p.in.Read(b) }
func (p *pipe) Write(b []byte) (int, error)      { return p.out.Write(b) }
func (p *pipe) Close() error                     { return nil }
func (p *pipe) LocalAddr() net.Addr              { return nil }
func (p *pipe) RemoteAddr() net.Addr             { return nil }
func (p *pipe) SetDeadline(time.Time) error      { return nil }
func (p *pipe) SetReadDeadline(time.Time) error  { return nil }
func (p *pipe) SetWriteDeadline(time.Time) error { return nil }

// hello is what crypto/tls sends first.
func hello(cfg *tls.Config) []byte {
	p := &pipe{in: strings.NewReader("")}
	_ = tls.Client(p, cfg).Handshake() // it ends with io.EOF, after the ClientHello
	return p.out.Bytes()
}

// served is what crypto/tls reads; nil where it refuses.
func served(b []byte) *tls.ClientHelloInfo {
	var seen *tls.ClientHelloInfo
	cfg := &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		seen = h
		return nil, errors.New("that is all")
	}}
	_ = tls.Server(&pipe{in: bytes.NewReader(b)}, cfg).Handshake()
	return seen
}

// records cuts one handshake message into records of the given sizes, the rest into the last.
func records(message []byte, sizes ...int) []byte {
	var out []byte
	put := func(b []byte) {
		out = append(out, 22, 3, 1, byte(len(b)>>8), byte(len(b)))
		out = append(out, b...)
	}
	for _, n := range sizes {
		if n = min(n, len(message)-1); n == 0 {
			break
		}
		put(message[:n])
		message = message[n:]
	}
	put(message)
	return out
}

// message makes a ClientHello of extensions.
func message(extensions ...[]byte) []byte {
	body := append([]byte{3, 3}, make([]byte, 32)...)
	body = append(body, 0, 0, 2, 0x13, 0x01, 1, 0)
	all := bytes.Join(extensions, nil)
	body = binary.BigEndian.AppendUint16(body, uint16(len(all)))
	body = append(body, all...)
	return append([]byte{1, byte(len(body) >> 16), byte(len(body) >> 8), byte(len(body))}, body...)
}

func extension(kind int, data []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(kind))
	b = binary.BigEndian.AppendUint16(b, uint16(len(data)))
	return append(b, data...)
}

// sniOf is a server_name extension with these names.
func sniOf(names ...string) []byte {
	var list []byte
	for _, n := range names {
		list = append(list, 0)
		list = binary.BigEndian.AppendUint16(list, uint16(len(n)))
		list = append(list, n...)
	}
	return extension(extServerName, append(binary.BigEndian.AppendUint16(nil, uint16(len(list))), list...))
}

func TestClientHelloOfCryptoTLS(t *testing.T) {
	for _, cfg := range []*tls.Config{
		{ServerName: "Example.com", NextProtos: []string{"h2", "http/1.1"}},
		{ServerName: "example.com", MaxVersion: tls.VersionTLS12},
		{ServerName: "192.0.2.1"},
		{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}},
		{ServerName: "xn--bcher-kva.example", ClientSessionCache: tls.NewLRUClientSessionCache(1)},
	} {
		b := hello(cfg)
		sni, alpn, err := ClientHello(b)
		want := strings.ToLower(cfg.ServerName)
		if cfg.ServerName == "192.0.2.1" {
			want = "" // crypto/tls sends no address
		}
		if err != nil || sni.String() != want || !slices.Equal(alpn, cfg.NextProtos) {
			t.Errorf("%q: %q %q %v", cfg.ServerName, sni, alpn, err)
		}
		for k := range len(b) {
			if _, _, err := ClientHello(b[:k]); !errors.Is(err, ErrMore) {
				t.Fatalf("%d of %d bytes: %v", k, len(b), err)
			}
		}
		if again, _, err := ClientHello(append(bytes.Clone(b), "more bytes"...)); err != nil || again != sni {
			t.Errorf("with bytes after it: %q %v", again, err)
		}
	}
}

func TestClientHelloFragments(t *testing.T) {
	whole := hello(&tls.Config{ServerName: "example.com", NextProtos: []string{"h2"}})
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(1, 300), 0, maxRecords-1).Draw(t, "sizes")
		b := records(whole[5:], sizes...)
		sni, alpn, err := ClientHello(b)
		if err != nil || sni.String() != "example.com" || !slices.Equal(alpn, []string{"h2"}) {
			t.Fatalf("%v: %q %q %v", sizes, sni, alpn, err)
		}
		if cut := rapid.IntRange(0, len(b)-1).Draw(t, "cut"); true {
			if _, _, err := ClientHello(b[:cut]); !errors.Is(err, ErrMore) {
				t.Fatalf("%d bytes: %v", cut, err)
			}
		}
	})
}

func TestClientHelloRefuses(t *testing.T) {
	good := message(sniOf("example.com"), extension(extALPN, []byte{0, 3, 2, 'h', '2'}))
	if n, alpn, err := ClientHello(records(good)); err != nil || n.String() != "example.com" || len(alpn) != 1 {
		t.Fatalf("the good one: %q %q %v", n, alpn, err)
	}
	if n, _, err := ClientHello(records(message())); err != nil || !n.IsZero() {
		t.Fatalf("without a name: %q %v", n, err)
	}
	edited := func(at int, v byte) []byte { b := bytes.Clone(good); b[at] = v; return records(b) }
	many := make([]int, maxRecords)
	for i := range many {
		many[i] = 1
	}
	for name, b := range map[string][]byte{
		"HTTP":                     []byte("G"),
		"SSH":                      []byte("SSH-2.0"),
		"an alert":                 {21, 3, 1, 0, 2, 2, 40},
		"SSL 2":                    {0x80, 0x2e, 1},
		"no TLS version":           {22, 2},
		"an empty record":          {22, 3, 1, 0, 0},
		"a record too large":       {22, 3, 1, 0x40, 1},
		"a ServerHello":            edited(0, 2),
		"a huge message":           records([]byte{1, 0xff, 0xff, 0xff}),
		"a message just too large": records([]byte{1, 0, 0x3f, 0xfd}),
		"too many records":         records(good, many...),
		"version 2":                edited(4, 2),
		"bytes after the message":  records(append(bytes.Clone(good), 0)),
		"bytes after extensions":   edited(3, good[3]-1),
		"a session id too long":    edited(38, 33),
		"no suites":                edited(40, 0),
		"an odd suite":             edited(40, 1),
		"extensions cut off":       records(message([]byte{0, 0, 0})),
		"an extension too long":    records(message([]byte{0, 0, 0, 9, 0})),
		"two names":                records(message(sniOf("example.com", "evil.example"))),
		"the same name twice":      records(message(sniOf("example.com", "example.com"))),
		"two name extensions":      records(message(sniOf("example.com"), sniOf("evil.example"))),
		"no name in the list":      records(message(sniOf())),
		"an empty name":            records(message(sniOf(""))),
		"an address":               records(message(sniOf("192.0.2.1"))),
		"an IPv6 address":          records(message(sniOf("2001:db8::1"))),
		"a decimal address":        records(message(sniOf("2130706433"))),
		"a trailing dot":           records(message(sniOf("example.com."))),
		"a zero byte":              records(message(sniOf("example.com\x00.evil.example"))),
		"a huge name":              records(message(sniOf(strings.Repeat("a.", 5000) + "a"))),
		"another kind of name":     records(message(extension(extServerName, []byte{0, 4, 1, 0, 1, 'a'}))),
		"bytes after the list":     records(message(extension(extServerName, []byte{0, 4, 0, 0, 1, 'a', 0}))),
		"bytes after the name":     records(message(extension(extServerName, []byte{0, 5, 0, 0, 1, 'a', 0}))),
		"ECH":                      records(message(sniOf("example.com"), extension(extECH, []byte{0}))),
		"ESNI":                     records(message(sniOf("example.com"), extension(extESNI, nil))),
		"no protocol":              records(message(extension(extALPN, []byte{0, 0}))),
		"an empty protocol":        records(message(extension(extALPN, []byte{0, 1, 0}))),
		"a protocol cut off":       records(message(extension(extALPN, []byte{0, 2, 2, 'h'}))),
		"bytes after protocols":    records(message(extension(extALPN, []byte{0, 2, 1, 'h', 0}))),
		"any extension twice":      records(message(extension(77, nil), extension(77, nil))),
	} {
		n, alpn, err := ClientHello(b)
		if sallyport.CodeOf(err) != sallyport.CodeInvalid || !n.IsZero() || alpn != nil {
			t.Errorf("%s: %q %q %v", name, n, alpn, err)
		}
	}
}

// TestClientHelloWithECH: a real one, from a client that is told to encrypt its name.
func TestClientHelloWithECH(t *testing.T) {
	// ECHConfigList of one X25519 config (RFC 9849 section 4): the key is any 32 bytes that are a point.
	config := append([]byte{7, 0, 0x20, 0, 32}, append(bytes.Repeat([]byte{9}, 32), 0, 4, 0, 1, 0, 1, 32)...)
	config = append(config, byte(len("public.example")))
	config = append(append(config, "public.example"...), 0, 0)
	one := append([]byte{0xfe, 0x0d, 0, byte(len(config))}, config...)
	list := append([]byte{0, byte(len(one))}, one...)
	b := hello(&tls.Config{ServerName: "hidden.example", EncryptedClientHelloConfigList: list, MinVersion: tls.VersionTLS13})
	if len(b) == 0 {
		t.Fatal("crypto/tls did not take the configuration")
	}
	if n, _, err := ClientHello(b); err == nil || !strings.Contains(err.Error(), "ECH") {
		t.Errorf("%q %v", n, err)
	}
}

// FuzzClientHello: a first answer other than "more" never changes however many bytes follow, and what is read is
// what crypto/tls reads.
func FuzzClientHello(f *testing.F) {
	f.Add(hello(&tls.Config{ServerName: "example.com", NextProtos: []string{"h2", "http/1.1"}, CurvePreferences: []tls.CurveID{tls.X25519}}))
	f.Add(hello(&tls.Config{ServerName: "example.com", MaxVersion: tls.VersionTLS12}))
	f.Add(records(message(sniOf("a.example")), 1, 2, 3))
	f.Add(records(message(sniOf("a.example", "b.example"))))
	f.Add(records(message(sniOf("a.example"), extension(extALPN, []byte{0, 3, 2, 'h', '2'}), extension(10, []byte{0, 2, 0, 29}))))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 2*maxHello {
			return
		}
		n, alpn, err := ClientHello(b)
		final := !errors.Is(err, ErrMore)
		for k := 0; k < len(b); k += 1 + len(b)/64 {
			n2, alpn2, err2 := ClientHello(b[:k])
			if early := !errors.Is(err2, ErrMore); early && (!final || n2 != n || !slices.Equal(alpn, alpn2) || (err == nil) != (err2 == nil)) {
				t.Fatalf("%x: after %d bytes %q %v, after all %q %v", b, k, n2, err2, n, err)
			}
		}
		if err != nil {
			if !n.IsZero() || alpn != nil {
				t.Fatalf("%x: refused and %q", b, n)
			}
			return
		}
		info := served(b)
		if info == nil {
			return // crypto/tls looks into more extensions
		}
		if theirs, _ := Host(info.ServerName); theirs != n || !slices.Equal(info.SupportedProtos, alpn) {
			t.Fatalf("%x: %q %q; crypto/tls reads %q %q", b, n, alpn, info.ServerName, info.SupportedProtos)
		}
	})
}

// TestOracleReads makes sure that the oracle of FuzzClientHello answers at all.
func TestOracleReads(t *testing.T) {
	b := hello(&tls.Config{ServerName: "example.com", NextProtos: []string{"h2"}})
	if info := served(records(b[5:], 10, 20)); info == nil || info.ServerName != "example.com" {
		t.Errorf("%+v", info)
	}
}
