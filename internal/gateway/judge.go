package gateway

import (
	"crypto/subtle"
	"net/http"
	"strings"
)

// refusal is a no, with the sentence that the agent and the journal get.
type refusal struct {
	status  int
	reason  string
	message string
}

// judge decides on the request line and headers alone, nil meaning yes. The order is from what is asked to
// who asks, so that the sentence names the first thing a person would change.
func (s *Server) judge(r *http.Request) *refusal {
	if r.Header.Get("Upgrade") != "" || headerHasToken(r.Header["Connection"], "upgrade") {
		return &refusal{http.StatusForbidden, "upgrade", "a connection cannot be upgraded (WebSocket, h2c) here; use plain HTTP"}
	}
	if r.Method != http.MethodPost {
		return &refusal{http.StatusForbidden, "method", "only POST is forwarded"}
	}
	// The raw request target is compared byte for byte: an absolute form, an escape, a dot segment or an
	// unlisted query is another string.
	if s.route.targets[r.RequestURI] == nil {
		return &refusal{http.StatusForbidden, "target", "the agent's endpoint allows only these request targets: " + s.targetList}
	}
	if no := s.judgeIdentity(r.Header); no != nil {
		return no
	}
	if r.ContentLength > maxBody {
		return &refusal{http.StatusRequestEntityTooLarge, "body-too-large", "a request body may have at most 32 MiB"}
	}
	if e := strings.ToLower(r.Header.Get("Content-Encoding")); e != "" && e != "identity" {
		return &refusal{http.StatusUnsupportedMediaType, "request-encoding", "send the body without Content-Encoding"}
	}
	if s.live.Err() != nil {
		return &refusal{http.StatusForbidden, "revoked", "the Attempt's credentials have ended"}
	}
	return nil
}

// judgeIdentity requires the Attempt's placeholder where the credential will stand, and no other identity:
// an agent must not use somebody else's account as a drop box.
func (s *Server) judgeIdentity(h http.Header) *refusal {
	for name, values := range h {
		if strings.ToLower(name) == s.route.header {
			continue
		}
		if authenticates(name) {
			return &refusal{http.StatusForbidden, "other-authentication", "the header " + printable(name, 64) + " could authenticate as somebody else; only the Attempt's placeholder is accepted"}
		}
		for _, v := range values {
			if strings.Contains(v, s.placeholder) {
				return &refusal{http.StatusForbidden, "placeholder-elsewhere", "the placeholder belongs in " + s.route.header + " only"}
			}
		}
	}
	got := h[http.CanonicalHeaderKey(s.route.header)]
	want := s.route.prefix + s.placeholder
	if len(got) != 1 || subtle.ConstantTimeCompare([]byte(got[0]), []byte(want)) != 1 {
		return &refusal{http.StatusForbidden, "placeholder", "the header " + s.route.header + " must hold exactly the placeholder that the Attempt was given"}
	}
	return nil
}

func headerHasToken(values []string, token string) bool {
	for _, v := range values {
		for _, t := range strings.Split(v, ",") {
			if strings.EqualFold(strings.TrimSpace(t), token) {
				return true
			}
		}
	}
	return false
}
