package gateway

import (
	"bytes"
	"net/http"
	"strings"
	"unicode/utf8"
)

// hopByHop headers belong to one connection (RFC 9110 §7.6.1) and are never forwarded.
var hopByHop = map[string]bool{
	"connection": true, "keep-alive": true, "proxy-connection": true, "te": true, "trailer": true,
	"transfer-encoding": true, "upgrade": true, "host": true, "content-length": true, "expect": true,
}

// harmless have a word of an identity in their name and none in their value: npm says there how it would log in.
var harmless = map[string]bool{"idempotency-key": true, "npm-auth-type": true, "sec-websocket-key": true}

// telling are the words in a header's name that say that its value could be somebody's identity.
var telling = [][]byte{[]byte("auth"), []byte("cookie"), []byte("key"), []byte("token"), []byte("secret"), []byte("credential"), []byte("password"), []byte("signature"), []byte("session-jwt")}

// authenticates says whether a header of this name could carry somebody's identity. Words, not names: an API
// may accept a header that we do not know of, and refusing a harmless one costs a sentence in a log.
func authenticates(name string) bool {
	var room longName
	low := appendLower(room[:0], name)
	if harmless[string(low)] {
		return false
	}
	for _, word := range telling {
		if bytes.Contains(low, word) {
			return true
		}
	}
	return false
}

// longName has room for most header names, so that looking at one leaves nothing to collect: it is done to each header
// of each request.
type longName [64]byte

// appendLower appends name in lower case to b. Beyond ASCII it folds as a server may that compares names without case: in Go's
// JSON the long s is an s, the Kelvin sign a k.
func appendLower(b []byte, name string) []byte {
	start := len(b)
	for i := range len(name) {
		c := name[i]
		switch {
		case c >= utf8.RuneSelf:
			return append(b[:start], strings.ToLower(strings.ToUpper(name))...)
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		}
		b = append(b, c)
	}
	return b
}

func folded(name string) string { return string(appendLower(nil, name)) }

// appendDashed appends dashed(name) to b.
func appendDashed(b []byte, name string) []byte {
	start := len(b)
	b = appendLower(b, name)
	for i := start; i < len(b); i++ {
		if b[i] == '_' {
			b[i] = '-'
		}
	}
	return b
}

// connectionNamed are the headers that a connection's ends agreed on for themselves, in lower case.
func connectionNamed(h http.Header) map[string]bool {
	var named map[string]bool
	for _, v := range h["Connection"] {
		for n := range strings.SplitSeq(v, ",") {
			if named == nil {
				named = map[string]bool{}
			}
			named[strings.ToLower(strings.TrimSpace(n))] = true
		}
	}
	return named
}

// overrides could make of a request at the upstream another one than was decided on. They never leave.
var overrides = map[string]bool{
	"x-original-url": true, "x-rewrite-url": true, "x-original-uri": true, "x-http-method-override": true, "x-http-method": true,
	"x-method-override": true, "x-forwarded-host": true, "x-forwarded-server": true, "x-forwarded-port": true, "x-forwarded-proto": true,
	"x-forwarded-for": true, "x-forwarded-prefix": true, "x-host": true, "forwarded": true, "x-real-ip": true, "via": true,
}

// dashed is how a server may read a name: CGI and WSGI make the same variable of X_Forwarded_Host and X-Forwarded-Host.
func dashed(name string) string { return string(appendDashed(nil, name)) }

// endToEnd gives dst what is not for one connection only; the values are shared. A length is given on: where the body's
// framing says another, net/http goes by the framing.
func endToEnd(dst, in http.Header) {
	named := connectionNamed(in)
	for name, values := range in {
		var room longName
		low := appendLower(room[:0], name)
		if named[string(low)] {
			continue
		}
		var more longName
		read := appendDashed(more[:0], name)
		if string(low) != "content-length" && hopByHop[string(read)] || bytes.HasPrefix(read, []byte("proxy-")) {
			continue
		}
		dst[name] = values[:len(values):len(values)]
	}
}

// leaveOut takes the overrides away.
func leaveOut(h http.Header) {
	for name := range h {
		var room longName
		if overrides[string(appendDashed(room[:0], name))] {
			delete(h, name)
		}
	}
}
