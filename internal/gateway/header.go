package gateway

import (
	"net/http"
	"strings"
)

// hopByHop headers belong to one connection (RFC 9110 §7.6.1) and are never forwarded.
var hopByHop = map[string]bool{
	"connection": true, "keep-alive": true, "proxy-connection": true, "te": true, "trailer": true,
	"transfer-encoding": true, "upgrade": true, "host": true, "content-length": true, "expect": true,
}

// harmless have a word of an identity in their name and none in their value: npm says there how it would log in.
var harmless = map[string]bool{"idempotency-key": true, "npm-auth-type": true, "sec-websocket-key": true}

// authenticates says whether a header of this name could carry somebody's identity. Words, not names: an API
// may accept a header that we do not know of, and refusing a harmless one costs a sentence in a log.
func authenticates(name string) bool {
	name = strings.ToLower(name)
	if harmless[name] {
		return false
	}
	for _, word := range []string{"auth", "cookie", "key", "token", "secret", "credential", "password", "signature", "session-jwt"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

func connectionNamed(h http.Header) map[string]bool {
	named := map[string]bool{}
	for _, v := range h["Connection"] {
		for _, n := range strings.Split(v, ",") {
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
func dashed(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "-") }

// endToEnd copies what is not for one connection only. A length is copied: where the body's framing says another, net/http
// goes by the framing.
func endToEnd(dst, in http.Header) {
	named := connectionNamed(in)
	for name, values := range in {
		low, read := strings.ToLower(name), dashed(name)
		if named[low] || low != "content-length" && hopByHop[read] || strings.HasPrefix(read, "proxy-") {
			continue
		}
		dst[name] = append([]string(nil), values...)
	}
}
