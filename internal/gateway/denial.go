package gateway

import (
	"net/http"

	"sallyport.dev/sallyport/internal/egress"
)

// denial is one no on its way to the sandbox and to the record. It is an error so that it can come out of a dial.
type denial struct {
	egress.Refusal
	asked   string // for a name without meaning
	message string
	line    string
	inside  bool // line names an address of ours: for the record only

	challenge bool // the client is asked for basic authentication, as a host asks: no refusal yet
}

func (d *denial) Error() string { return d.message }

// text is what the sandbox is told.
func (d *denial) text() string {
	if d.line == "" || d.inside {
		return d.message
	}
	return d.message + "; to allow it, add to egress: " + d.line
}

func (d *denial) status() int {
	switch d.Reason {
	case ReasonRequests, ReasonRate, ReasonUp, ReasonDown:
		return http.StatusTooManyRequests
	case egress.ReasonMalformedName, ReasonForm:
		return http.StatusBadRequest
	case ReasonInAnswer, ReasonEncoding, ReasonRedirect:
		return http.StatusBadGateway
	case ReasonNoEndpoint:
		return http.StatusNotFound
	case ReasonBodies:
		return http.StatusServiceUnavailable
	case ReasonBody:
		return http.StatusRequestEntityTooLarge
	case ReasonRequestEncoding:
		return http.StatusUnsupportedMediaType
	}
	if d.challenge {
		return http.StatusUnauthorized
	}
	return http.StatusForbidden
}

// decided is the denial that egress decided on.
func decided(q egress.Request, d egress.Decision) *denial {
	return &denial{Refusal: egress.Refusal{Request: q, Reason: d.Reason}, message: d.Reason.Sentence(), line: d.Line}
}

// because is the denial for a reason that no rule lifts; detail may be "".
func because(q egress.Request, why egress.Reason, detail string) *denial {
	message := why.Sentence()
	if message == "" {
		message = sentences[why]
	}
	if detail != "" {
		message += ": " + detail
	}
	return &denial{Refusal: egress.Refusal{Request: q, Reason: why}, message: message}
}

// unnamed is the denial of a target that is no host, or one with two meanings.
func unnamed(asked string, err error) *denial {
	no := because(egress.Request{}, egress.ReasonMalformedName, "")
	no.asked, no.message = asked, no.message+": "+printable(err.Error(), 300)
	return no
}

var sentences = map[egress.Reason]string{
	ReasonAuthentication:  "the sandbox may not send authentication of its own to this host",
	ReasonForm:            "this form of request is not served here",
	ReasonUpgrade:         "the only upgrade that a rule can allow is WebSocket",
	ReasonRequests:        "the rule's number of requests is used up",
	ReasonRate:            "the rule's requests per minute are used up; wait a minute",
	ReasonUp:              "the rule's bytes out of the sandbox are used up",
	ReasonDown:            "the rule's bytes into the sandbox are used up",
	ReasonEnded:           "the Attempt's way out has ended",
	ReasonHandshake:       "the rule is held by reading the requests, and this program did not accept the Attempt's certificate authority",
	ReasonPlaceholder:     "the request must carry exactly the placeholder that the Attempt was given for this host",
	ReasonElsewhere:       "a placeholder belongs to one host and one place in a request, and this is another",
	ReasonOther:           "only the Attempt's placeholder is accepted on this host; this could authenticate as somebody else",
	ReasonNoEndpoint:      "this Attempt has no model endpoint; as a proxy, ask for http://HOST/PATH or CONNECT",
	ReasonTarget:          "the agent's endpoint allows only these request targets",
	ReasonMethod:          "only POST is forwarded to the model API",
	ReasonBody:            "a request body may have at most 32 MiB",
	ReasonBodies:          "too many large requests at once; send them one after another",
	ReasonRequestEncoding: "send the body without Content-Encoding",
	ReasonEncoding:        "the answer came in an encoding, which cannot be watched for the credential",
	ReasonRedirect:        "the model API answered with a redirect or an upgrade, which is not followed",
	ReasonForge:           "nothing is written to a forge from a sandbox: commit, and Sallyport publishes the branch after its checks",
	ReasonScope:           "this credential can write to the forge; expected one that can only read",
	ReasonInAnswer:        "the answer held the credential",
	ReasonForgotten:       "this address stood for a name before Sallyport was started again; ask for the name again",
}

// as is d about another protocol.
func (d *denial) as(protocol egress.Protocol) *denial {
	d.Protocol = protocol
	d.line = egress.LineFor(d.Refusal)
	return d
}
