package egress

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"sallyport.dev/sallyport"
)

var synthetic4, synthetic6 = netip.MustParseAddr("198.18.0.7"), netip.MustParseAddr("fd00:5a11::7")

// zone is a policy of five names, one of them without an address left, and of an address.
func zone(n Name) bool {
	switch n.String() {
	case "four.example", "six.example", "none.example", "mapped.example", "both.example", "192.0.2.1":
		return true
	}
	return false
}

func addressOf(n Name, six bool) netip.Addr {
	switch n.String() {
	case "both.example":
		if six {
			return synthetic6
		}
		return synthetic4
	case "four.example":
		return synthetic4
	case "six.example":
		return synthetic6
	case "mapped.example":
		return netip.AddrFrom16(synthetic4.As16())
	}
	return netip.Addr{}
}

// ask is a query as resolvers send it.
func ask(name string, t dnsmessage.Type, edns bool) []byte {
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: 0xbeef, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: t, Class: dnsmessage.ClassINET}}}
	if edns {
		var h dnsmessage.ResourceHeader
		if err := h.SetEDNS0(4096, 0, true); err != nil {
			panic(err)
		}
		m.Additionals = []dnsmessage.Resource{{Header: h, Body: &dnsmessage.OPTResource{Options: []dnsmessage.Option{{Code: 10, Data: []byte("cookie!!")}}}}}
	}
	b, err := m.Pack()
	if err != nil {
		panic(err)
	}
	return b
}

func TestAnswer(t *testing.T) {
	for _, c := range []struct {
		name  string
		typ   dnsmessage.Type
		rcode dnsmessage.RCode
		addr  netip.Addr
	}{
		{"four.example.", dnsmessage.TypeA, 0, synthetic4},
		{"FoUr.ExAmPlE.", dnsmessage.TypeA, 0, synthetic4},
		{"four.example.", dnsmessage.TypeAAAA, 0, netip.Addr{}},
		{"six.example.", dnsmessage.TypeAAAA, 0, synthetic6},
		{"six.example.", dnsmessage.TypeA, 0, netip.Addr{}},
		{"mapped.example.", dnsmessage.TypeA, 0, synthetic4},
		{"mapped.example.", dnsmessage.TypeAAAA, 0, netip.Addr{}},
		{"both.example.", dnsmessage.TypeA, 0, synthetic4},
		{"both.example.", dnsmessage.TypeAAAA, 0, synthetic6},
		{"none.example.", dnsmessage.TypeA, dnsmessage.RCodeServerFailure, netip.Addr{}},
		{"four.example.", dnsmessage.TypeTXT, 0, netip.Addr{}},
		{"four.example.", 65, 0, netip.Addr{}}, // HTTPS
		{"four.example.", dnsmessage.TypeALL, 0, netip.Addr{}},
		{"other.example.", dnsmessage.TypeA, dnsmessage.RCodeNameError, netip.Addr{}},
		{"c2VjcmV0.other.example.", dnsmessage.TypeTXT, dnsmessage.RCodeNameError, netip.Addr{}},
		{"x.four.example.", dnsmessage.TypeA, dnsmessage.RCodeNameError, netip.Addr{}},
		{"_https._tcp.four.example.", dnsmessage.TypeSRV, dnsmessage.RCodeNameError, netip.Addr{}},
		{"192.0.2.1.", dnsmessage.TypeA, dnsmessage.RCodeNameError, netip.Addr{}},
		{"1.2.0.192.in-addr.arpa.", dnsmessage.TypePTR, dnsmessage.RCodeNameError, netip.Addr{}},
		{".", dnsmessage.TypeNS, dnsmessage.RCodeNameError, netip.Addr{}},
	} {
		for _, edns := range []bool{false, true} {
			query := ask(c.name, c.typ, edns)
			b, err := Answer(query, zone, addressOf)
			if err != nil {
				t.Errorf("%s %v: %v", c.name, c.typ, err)
				continue
			}
			m := unpack(t, b)
			var got netip.Addr
			for _, r := range m.Answers {
				switch body := r.Body.(type) {
				case *dnsmessage.AResource:
					got = netip.AddrFrom4(body.A)
				case *dnsmessage.AAAAResource:
					got = netip.AddrFrom16(body.AAAA)
				}
			}
			if m.RCode != c.rcode || got != c.addr || len(m.Answers) > 1 || !m.Response || m.ID != 0xbeef || !m.RecursionDesired || !m.RecursionAvailable {
				t.Errorf("%s %v: %+v", c.name, c.typ, m)
			}
			if len(m.Questions) != 1 || m.Questions[0].Name.String() != c.name || m.Questions[0].Type != c.typ {
				t.Errorf("%s %v: the question came back as %+v", c.name, c.typ, m.Questions)
			}
			if (len(m.Additionals) == 1) != edns || len(b) > maxQuery {
				t.Errorf("%s %v: EDNS asked %v, answered %+v", c.name, c.typ, edns, m.Additionals)
			}
		}
	}
}

func unpack(t testing.TB, b []byte) dnsmessage.Message {
	t.Helper()
	var m dnsmessage.Message
	if err := m.Unpack(b); err != nil {
		t.Fatalf("the answer %x: %v", b, err)
	}
	return m
}

func TestAnswerRefuses(t *testing.T) {
	good := ask("four.example.", dnsmessage.TypeA, false)
	edited := func(edit func(b []byte) []byte) []byte { return edit(bytes.Clone(good)) }
	set := func(at int, v byte) []byte { return edited(func(b []byte) []byte { b[at] = v; return b }) }
	opt := ask("four.example.", dnsmessage.TypeA, true)
	version := bytes.Clone(opt)
	version[len(good)+6] = 1
	notOPT := bytes.Clone(opt)
	notOPT[len(good)+2] = 16
	two := append(bytes.Clone(opt), opt[len(good):]...)
	two[11] = 2
	for name, c := range map[string]struct {
		query []byte
		rcode dnsmessage.RCode // 0xffff: nothing is sent
	}{
		"empty":               {nil, 0xffff},
		"half a header":       {good[:11], 0xffff},
		"an answer":           {set(2, 0x81), 0xffff},
		"no question":         {set(5, 0), dnsmessage.RCodeFormatError},
		"two questions":       {set(5, 2), dnsmessage.RCodeFormatError},
		"an answer section":   {set(7, 1), dnsmessage.RCodeFormatError},
		"an authority":        {set(9, 1), dnsmessage.RCodeFormatError},
		"two additionals":     {two, dnsmessage.RCodeFormatError},
		"additional, not OPT": {notOPT, dnsmessage.RCodeFormatError},
		"OPT cut off":         {opt[:len(opt)-1], dnsmessage.RCodeFormatError},
		"OPT said, not there": {set(11, 1), dnsmessage.RCodeFormatError},
		"bytes left over":     {append(bytes.Clone(good), 0), dnsmessage.RCodeFormatError},
		"cut off":             {good[:len(good)-1], dnsmessage.RCodeFormatError},
		"only a header":       {good[:12], dnsmessage.RCodeFormatError},
		"a pointer":           {edited(func(b []byte) []byte { return append(b[:12], 0xc0, 12, 0, 1, 0, 1) }), dnsmessage.RCodeFormatError},
		"a label, a pointer":  {edited(func(b []byte) []byte { return append(b[:12], 1, 'a', 0xc0, 12, 0, 1, 0, 1) }), dnsmessage.RCodeFormatError},
		// It points at a zero in the header, so that the name is shorter than what it takes and OPT would fit.
		"a pointer, an OPT": {edited(func(b []byte) []byte {
			b[11] = 1
			return append(b[:12], 0xc0, 4, 0, 1, 1, 0, 0, 41, 16, 0, 0, 0, 0, 0, 0, 0)
		}), dnsmessage.RCodeFormatError},
		"a dot in a label": {edited(func(b []byte) []byte { b[16] = '.'; return b }), dnsmessage.RCodeFormatError},
		"a long name":      {append(append(bytes.Clone(good[:12]), bytes.Repeat([]byte{1, 'a'}, 130)...), 0, 0, 1, 0, 1), dnsmessage.RCodeFormatError},
		"too long":         {append(bytes.Clone(good), make([]byte, maxQuery)...), dnsmessage.RCodeFormatError},
		"an update":        {set(2, 5<<3), dnsmessage.RCodeNotImplemented},
		"of class CHAOS":   {set(len(good)-1, 3), dnsmessage.RCodeRefused},
		"EDNS version 1":   {version, badVersion},
	} {
		b, err := Answer(c.query, zone, addressOf)
		if c.rcode == 0xffff {
			if err == nil || b != nil || sallyport.CodeOf(err) != sallyport.CodeInvalid {
				t.Errorf("%s: %x, %v", name, b, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		m := unpack(t, b)
		rcode := m.RCode
		for _, r := range m.Additionals {
			rcode = r.Header.ExtendedRCode(rcode)
		}
		if rcode != c.rcode || len(m.Answers) != 0 || m.ID != 0xbeef {
			t.Errorf("%s: %v, %+v", name, rcode, m)
		}
	}
}

// TestAnswerIsUnderstood asks through Go's own resolver over a real socket.
func TestAnswerIsUnderstood(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close()
	go func() {
		b := make([]byte, 4096)
		for {
			n, from, err := pc.ReadFrom(b)
			if err != nil {
				return
			}
			if out, err := Answer(b[:n], zone, addressOf); err == nil {
				pc.WriteTo(out, from)
			}
		}
	}()
	r := net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("udp", pc.LocalAddr().String())
	}}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for name, want := range map[string]netip.Addr{"four.example.": synthetic4, "six.example.": synthetic6} {
		if got, err := r.LookupNetIP(ctx, "ip", name); err != nil || len(got) != 1 || got[0].Unmap() != want {
			t.Errorf("%s: %v %v", name, got, err)
		}
	}
	var no *net.DNSError
	if _, err := r.LookupNetIP(ctx, "ip", "other.example."); err == nil {
		t.Error("other.example has an address")
	} else if no, _ = err.(*net.DNSError); no == nil || !no.IsNotFound {
		t.Error(err)
	}
}

// rawName reads the question's name without dnsmessage; ok is false where it is not plain.
func rawName(query []byte) (string, bool) {
	var labels []string
	for b := query[12:]; len(b) > 0; {
		n := int(b[0])
		if n == 0 {
			return strings.Join(labels, "."), true
		}
		if n > 63 || n >= len(b) {
			return "", false
		}
		labels, b = append(labels, string(b[1:1+n])), b[1+n:]
	}
	return "", false
}

// FuzzAnswer: every query gets an answer, within the size of one, to the very name that was asked, as another reader of DNS reads it; an address only for a listed name.
func FuzzAnswer(f *testing.F) {
	for _, edns := range []bool{false, true} {
		for _, n := range []string{"four.example.", "SIX.example.", "none.example.", "other.example.", "."} {
			f.Add(ask(n, dnsmessage.TypeA, edns))
			f.Add(ask(n, dnsmessage.TypeAAAA, edns))
		}
	}
	f.Add([]byte("0123456789"))
	f.Fuzz(func(t *testing.T, query []byte) {
		b, err := Answer(query, zone, addressOf)
		if err != nil {
			if b != nil || len(query) >= 12 && query[2]&0x80 == 0 {
				t.Fatalf("%x is a query and gets nothing: %v", query, err)
			}
			return
		}
		m := unpack(t, b)
		if len(b) > maxQuery || !m.Response || m.ID != binary.BigEndian.Uint16(query) || len(m.Answers) > 1 {
			t.Fatalf("%x: %+v", query, m)
		}
		if len(m.Questions) == 0 {
			return
		}
		name, ok := rawName(query)
		if !ok || strings.TrimSuffix(m.Questions[0].Name.String(), ".") != name {
			t.Fatalf("%x: asked %q, answered %v", query, name, m.Questions)
		}
		n, _ := Host(name)
		exists := zone(n) && !n.IsAddr()
		asked := m.RCode == dnsmessage.RCodeNameError || m.RCode == dnsmessage.RCodeSuccess && m.Questions[0].Class == dnsmessage.ClassINET
		if asked && badEDNS(m) == 0 && (m.RCode == dnsmessage.RCodeSuccess) != exists {
			t.Fatalf("%q is listed: %v; answered %v", name, exists, m.RCode)
		}
		if len(m.Answers) == 1 && !exists {
			t.Fatalf("%q is not listed and has an address", name)
		}
	})
}

// badEDNS is the upper part of the response code.
func badEDNS(m dnsmessage.Message) dnsmessage.RCode {
	for _, r := range m.Additionals {
		return r.Header.ExtendedRCode(m.RCode) &^ 0xf
	}
	return 0
}
