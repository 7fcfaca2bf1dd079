package gateway

import (
	"sync"
	"time"

	"sallyport.dev/sallyport/internal/egress"
)

// Denied is one thing that a sandbox was refused. What it asked comes from the sandbox: bounded and printable, still not
// to be believed. egress.Learn takes the embedded Refusals.
type Denied struct {
	Time time.Time `json:"time"` // of the first
	egress.Refusal
	// Asked is the target as it was written, for a name that has no one meaning (the Refusal has none then); else "".
	Asked   string `json:"asked,omitempty"`
	Message string `json:"message"`        // the reason as a sentence
	Line    string `json:"line,omitempty"` // the entry of `egress:` that would allow it; "": none can
	// Process is who asked, as far as the kernel showed it the first time: its file and its pid inside. A claim.
	Process string `json:"process,omitempty"`
	Count   int64  `json:"count"` // in Refused: 1
}

// The reasons that are the gateway's own, beside those of egress. Codes are only ever added.
const (
	ReasonAuthentication  egress.Reason = "own-authentication"
	ReasonForm            egress.Reason = "request-form"
	ReasonUpgrade         egress.Reason = "upgrade"
	ReasonRequests        egress.Reason = "limit-requests"
	ReasonRate            egress.Reason = "limit-rate"
	ReasonUp              egress.Reason = "limit-up"
	ReasonDown            egress.Reason = "limit-down"
	ReasonEnded           egress.Reason = "attempt-ended"
	ReasonHandshake       egress.Reason = "tls-handshake"
	ReasonPlaceholder     egress.Reason = "placeholder"
	ReasonElsewhere       egress.Reason = "placeholder-elsewhere"
	ReasonOther           egress.Reason = "other-authentication"
	ReasonNoEndpoint      egress.Reason = "no-endpoint"
	ReasonTarget          egress.Reason = "target"
	ReasonMethod          egress.Reason = "method"
	ReasonBody            egress.Reason = "body-too-large"
	ReasonBodies          egress.Reason = "bodies-too-large"
	ReasonRequestEncoding egress.Reason = "request-encoding"
	ReasonForge           egress.Reason = "forge-write"
	ReasonScope           egress.Reason = "credential-scope"
	ReasonEncoding        egress.Reason = "answer-encoding"
	ReasonRedirect        egress.Reason = "redirect"
	ReasonInAnswer        egress.Reason = "credential-in-answer"
	ReasonForgotten       egress.Reason = "address-forgotten"
)

// maxDenied bounds what a hostile agent can make the trusted side remember; a real one is refused a handful of things.
const maxDenied = 256

// denials remembers each different refusal once.
type denials struct {
	mu   sync.Mutex
	list []Denied
	at   map[denialKey]int
}

type denialKey struct {
	egress.Refusal
	asked string
}

// knows reports whether another d would be remembered for nothing new.
func (l *denials) knows(d Denied) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.at[denialKey{d.Refusal, d.Asked}]
	return ok || len(l.list) >= maxDenied
}

// add reports whether d is a new one that is remembered.
func (l *denials) add(d Denied) bool {
	key := denialKey{d.Refusal, d.Asked}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i, ok := l.at[key]; ok {
		l.list[i].Count++
		return false
	}
	if len(l.list) >= maxDenied {
		return false
	}
	if l.at == nil {
		l.at = map[denialKey]int{}
	}
	l.at[key] = len(l.list)
	l.list = append(l.list, d)
	return true
}

func (l *denials) snapshot() []Denied {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Denied{}, l.list...)
}

// Denied lists the different refusals of the proxy in order of appearance, at most 256, with their counts; it may be
// read after Close. Without a Proxy: none.
func (s *Server) Denied() []Denied {
	if s.proxy == nil {
		return []Denied{}
	}
	return s.proxy.denials.snapshot()
}
