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
	}
	return http.StatusForbidden
}

// decided is the denial that egress decided on.
func decided(q egress.Request, d egress.Decision) *denial {
	return &denial{Refusal: egress.Refusal{Request: q, Reason: d.Reason}, message: d.Reason.Sentence(), line: d.Line}
}

// unreached is the denial of a connection before its first byte. The line for https is one that this gateway can hold.
func unreached(name egress.Name, port uint16, d egress.Decision) *denial {
	no := decided(egress.Request{Name: name, Port: port, Protocol: usual(port)}, d)
	if no.Protocol == egress.HTTPS {
		no.line = egress.Line(whole(egress.Rule{Host: name.String(), Port: port}))
	}
	return no
}

// usual is what a connection to port would most likely have spoken; only a proposal depends on it.
func usual(port uint16) egress.Protocol {
	switch port {
	case 443:
		return egress.HTTPS
	case 80:
		return egress.HTTP
	}
	return egress.TCP
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
	ReasonAuthentication: "the sandbox may not send authentication of its own to this host",
	ReasonForm:           "this form of request is not served here",
	ReasonUpgrade:        "the only upgrade that a rule can allow is WebSocket",
	ReasonRequests:       "the rule's number of requests is used up",
	ReasonRate:           "the rule's requests per minute are used up; wait a minute",
	ReasonUp:             "the rule's bytes out of the sandbox are used up",
	ReasonDown:           "the rule's bytes into the sandbox are used up",
	ReasonEnded:          "the Attempt's way out has ended",
	ReasonForgotten:      "this address stood for a name before Sallyport was started again; ask for the name again",
}

// as is d about another protocol.
func (d *denial) as(protocol egress.Protocol) *denial {
	d.Protocol = protocol
	d.line = egress.Line(Widen(egress.Rule{Host: d.Name.String(), Port: d.Port, Protocol: protocol}))
	return d
}
