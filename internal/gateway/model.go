package gateway

import (
	"net/http"
	"strings"

	"sallyport.dev/sallyport/internal/egress"
)

// model is the agent's endpoint: an address inside that stands for one API outside. What is sent to it is an exchange
// like any other, decided by the exact request target, and its refusals have the API's own shape.
type model struct {
	*route
	credential Credential
	transport  *http.Transport
	quota      quota // without limits
}

// admitModel decides on a request to the endpoint. The order is from what is asked to who asks, so that the sentence
// names the first thing a person would change.
func (s *Server) admitModel(r *http.Request) (*exchange, *denial) {
	q := egress.Request{Protocol: egress.HTTP, Method: r.Method, Path: r.RequestURI}
	if s.model == nil {
		return nil, because(q, ReasonNoEndpoint, "")
	}
	q.Name, q.Port, q.Protocol = s.model.name, s.model.port, s.model.protocol
	q.Path, q.Query, _ = strings.Cut(r.RequestURI, "?")
	switch {
	case r.Header.Get("Upgrade") != "" || headerHasToken(r.Header["Connection"], "upgrade"):
		return nil, because(q, ReasonUpgrade, "a connection to the model API cannot be upgraded (WebSocket, h2c); use plain HTTP")
	case r.Method != http.MethodPost:
		return nil, because(q, ReasonMethod, "")
	// The raw request target is compared byte for byte: an absolute form, an escape, a dot segment or an unlisted query
	// is another string.
	case s.model.targets[r.RequestURI] == nil:
		return nil, because(q, ReasonTarget, s.model.list)
	}
	x := &exchange{Request: q, quota: &s.model.quota, model: s.model, credential: &s.model.credential}
	if no := s.proxy.identifyAs(r.Header, q, x.credential); no != nil {
		return nil, no
	}
	switch {
	case r.ContentLength > maxBody:
		return nil, because(q, ReasonBody, "")
	case encoded(r.Header) != "":
		return nil, because(q, ReasonRequestEncoding, "")
	case s.live.Err() != nil:
		return nil, because(q, ReasonEnded, "")
	}
	return x, nil
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
