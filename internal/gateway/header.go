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

// The request headers that may leave, by name or by prefix. All others are dropped, not refused: a new
// version of an agent may send one more, but headers such as X-Original-Url or X-Http-Method-Override could
// change at the upstream what was compared here.
var (
	mayLeave = map[string]bool{
		"accept": true, "accept-language": true, "content-type": true, "user-agent": true, "originator": true,
		"session_id": true, "session-id": true, "conversation_id": true, "thread-id": true, "version": true,
		"x-app": true, "x-client-request-id": true, "x-request-id": true, "idempotency-key": true,
	}
	mayLeavePrefix = []string{"anthropic-", "openai-", "x-openai-", "x-stainless-", "x-claude-", "x-codex-"}
)

// authenticates says whether a header of this name could carry somebody's identity. Words, not names: an API
// may accept a header that we do not know of, and refusing a harmless one costs a sentence in a log.
func authenticates(name string) bool {
	name = strings.ToLower(name)
	if name == "idempotency-key" {
		return false
	}
	for _, word := range []string{"auth", "cookie", "key", "token", "secret", "credential", "password", "signature", "session-jwt"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

func leaves(name string) bool {
	name = strings.ToLower(name)
	if mayLeave[name] {
		return true
	}
	for _, p := range mayLeavePrefix {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// outgoing is what of a judged request's headers leaves, credential not yet in it.
func outgoing(in http.Header) http.Header {
	named := connectionNamed(in)
	out := http.Header{}
	for name, values := range in {
		if leaves(name) && !named[strings.ToLower(name)] {
			out[name] = append([]string(nil), values...)
		}
	}
	// An encoded answer could not be watched for the credential.
	out.Set("Accept-Encoding", "identity")
	if out.Get("User-Agent") == "" {
		out.Set("User-Agent", "") // none, instead of Go's own
	}
	return out
}

// incoming copies what of an answer's headers may enter. Set-Cookie would give the agent an authentication
// that the next request is refused for; Alt-Svc names other hosts.
func incoming(dst, in http.Header) {
	named := connectionNamed(in)
	for name, values := range in {
		low := strings.ToLower(name)
		if named[low] || low != "content-length" && hopByHop[low] {
			continue
		}
		switch low {
		case "set-cookie", "set-cookie2", "alt-svc", "strict-transport-security", "location", "refresh", "link", "www-authenticate", "proxy-authenticate", "report-to", "nel":
			continue
		}
		dst[name] = append([]string(nil), values...)
	}
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
	"x-forwarded-for": true, "x-forwarded-prefix": true, "x-host": true, "forwarded": true, "x-real-ip": true,
}

// endToEnd copies what is not for one connection only. A length is copied: where the body's framing says another, net/http
// goes by the framing.
func endToEnd(dst, in http.Header) {
	named := connectionNamed(in)
	for name, values := range in {
		low := strings.ToLower(name)
		if named[low] || low != "content-length" && hopByHop[low] || strings.HasPrefix(low, "proxy-") {
			continue
		}
		dst[name] = append([]string(nil), values...)
	}
}
