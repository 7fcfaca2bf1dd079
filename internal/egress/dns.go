package egress

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/net/dns/dnsmessage"

	"sallyport.dev/sallyport"
)

const (
	maxQuery   = 512 // RFC 1035 section 4.2.1; a query with EDNS fits as well
	dnsTTL     = 60  // seconds; a synthetic address stays the name's own as long as the Attempt lives
	udpPayload = 1232
	badVersion = dnsmessage.RCode(16) // BADVERS, RFC 6891 section 9
)

// Answer answers one DNS message of a sandbox; no query ever leaves the host. A and AAAA of a name that is listed get
// the address that synthetic gives it for that family (one of the other: no data; an invalid address: SERVFAIL); any
// other name does not exist. Other types of a listed name have no data, so that no HTTPS record brings ECH or
// another port. What is malformed gets FORMERR; an error (CodeInvalid) means: send nothing, it is no query.
func Answer(query []byte, listed func(Name) bool, synthetic func(n Name, six bool) netip.Addr) ([]byte, error) {
	var p dnsmessage.Parser
	h, err := p.Start(query)
	if err != nil || h.Response {
		return nil, &sallyport.Error{Op: "answer a DNS query", Code: sallyport.CodeInvalid, Message: "not a query; expected a DNS header with QR 0"}
	}
	a := answer{header: dnsmessage.Header{ID: h.ID, Response: true, OpCode: h.OpCode, RecursionDesired: h.RecursionDesired, RecursionAvailable: true}}
	switch {
	case len(query) > maxQuery:
		a.header.RCode = dnsmessage.RCodeFormatError
	case h.OpCode != 0:
		a.header.RCode = dnsmessage.RCodeNotImplemented
	default:
		a.read(query, &p)
	}
	if a.header.RCode == dnsmessage.RCodeSuccess {
		a.decide(listed, synthetic)
	}
	return a.pack()
}

// answer is a reply that is being made.
type answer struct {
	header   dnsmessage.Header
	question *dnsmessage.Question // as it was asked, case included: resolvers compare it
	edns     bool
	addr     netip.Addr // invalid: no data
}

// read takes exactly one question and at most one OPT record, and nothing after them.
func (a *answer) read(query []byte, p *dnsmessage.Parser) {
	a.header.RCode = dnsmessage.RCodeFormatError
	count := func(at int) uint16 { return binary.BigEndian.Uint16(query[at:]) }
	// Start has seen all twelve bytes of the header. A pointer in the only name could point at nothing but itself.
	if count(4) != 1 || count(6) != 0 || count(8) != 0 || count(10) > 1 || !plainLabels(query[12:]) {
		return
	}
	q, err := p.Question()
	if err != nil || p.SkipAllQuestions() != nil || p.SkipAllAnswers() != nil || p.SkipAllAuthorities() != nil {
		return
	}
	end := 12 + int(q.Name.Length) + 1 + 4
	if q.Name.Length == 1 {
		end-- // the root has no label
	}
	version, ok := byte(0), true
	if count(10) == 1 {
		end, version, ok = readOPT(query, end)
		a.edns = ok
	}
	if !ok || end != len(query) {
		a.edns = false
		return
	}
	a.question = &q
	switch {
	case version != 0:
		a.header.RCode = badVersion
	case q.Class != dnsmessage.ClassINET:
		a.header.RCode = dnsmessage.RCodeRefused
	default:
		a.header.RCode = dnsmessage.RCodeSuccess
	}
}

// plainLabels says that b begins with a name without compression.
func plainLabels(b []byte) bool {
	for i := 0; i < len(b) && b[i] < 0x40; i += int(b[i]) + 1 {
		if b[i] == 0 {
			return true
		}
	}
	return false
}

// readOPT reads the fixed part of an OPT record (RFC 6891 section 6.1.2) at start: root name, type 41, payload size,
// extended RCODE, version, flags, length, data. end is the byte after it.
func readOPT(query []byte, start int) (end int, version byte, ok bool) {
	const fixed = 11
	if start+fixed > len(query) {
		return 0, 0, false
	}
	b := query[start:]
	if b[0] != 0 || binary.BigEndian.Uint16(b[1:]) != uint16(dnsmessage.TypeOPT) {
		return 0, 0, false
	}
	return start + fixed + int(binary.BigEndian.Uint16(b[9:])), b[6], true
}

func (a *answer) decide(listed func(Name) bool, synthetic func(n Name, six bool) netip.Addr) {
	n, err := Host(a.question.Name.String())
	if err != nil || n.IsAddr() || !listed(n) {
		a.header.RCode = dnsmessage.RCodeNameError
		return
	}
	if t := a.question.Type; t != dnsmessage.TypeA && t != dnsmessage.TypeAAAA {
		return
	}
	six := a.question.Type == dnsmessage.TypeAAAA
	addr := synthetic(n, six).Unmap()
	switch {
	case !addr.IsValid():
		a.header.RCode = dnsmessage.RCodeServerFailure
	case addr.Is6() == six:
		a.addr = addr
	}
}

func (a *answer) pack() ([]byte, error) {
	h := a.header
	h.RCode &= 0xf // the upper bits travel in OPT
	m := dnsmessage.Message{Header: h}
	if a.question != nil {
		m.Questions = []dnsmessage.Question{*a.question}
	}
	if a.addr.IsValid() {
		m.Answers = []dnsmessage.Resource{a.resource()}
	}
	if a.edns {
		var rh dnsmessage.ResourceHeader
		if err := rh.SetEDNS0(udpPayload, a.header.RCode, false); err != nil {
			return nil, err
		}
		m.Additionals = []dnsmessage.Resource{{Header: rh, Body: &dnsmessage.OPTResource{}}}
	}
	return m.Pack()
}

func (a *answer) resource() dnsmessage.Resource {
	rh := dnsmessage.ResourceHeader{Name: a.question.Name, Type: a.question.Type, Class: dnsmessage.ClassINET, TTL: dnsTTL}
	if a.addr.Is4() {
		return dnsmessage.Resource{Header: rh, Body: &dnsmessage.AResource{A: a.addr.As4()}}
	}
	return dnsmessage.Resource{Header: rh, Body: &dnsmessage.AAAAResource{AAAA: a.addr.As16()}}
}
