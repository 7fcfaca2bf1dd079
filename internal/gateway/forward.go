package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
)

// forward sends a judged request on. The URL is the route's own, never the request's.
func (s *Server) forward(w http.ResponseWriter, r *http.Request, e *Event) {
	credential, err := s.readCredential(r.Context())
	if err != nil {
		s.fail(w, e, "credential", "the credential for this endpoint is not available on the trusted side", err.Error())
		return
	}
	rc := http.NewResponseController(w)
	// Otherwise the server drains and closes the body at our first byte, and the transport, which may still
	// be sending it when the API answers early, takes the closed body for a failure and cuts the answer.
	_ = rc.EnableFullDuplex()
	body := &countedBody{r: r.Body, rc: rc, max: maxBody}
	// Also when the answer is cut by a panic. After the close the transport touches the connection no more.
	defer func() { _ = body.Close(); e.Up = body.count() }()
	admitted, ok := s.admit(w, r, s.route.base.Hostname(), body, e)
	if !ok {
		return
	}
	defer admitted.Close()
	out := &http.Request{
		Method: http.MethodPost, URL: s.route.targets[r.RequestURI], Host: s.route.base.Host,
		Header: outgoing(r.Header),
		Proto:  "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	out.Header.Set(s.route.header, s.route.prefix+credential)
	res, err := s.transport.RoundTrip(admitted.request(r.Context(), out))
	if err != nil {
		s.forwardFailed(w, e, body, err)
		return
	}
	defer res.Body.Close()
	admitted.answered(res)
	s.deliver(w, res, credential, e)
}

// readCredential checks what was read, since a wrong one must not leave in a half-valid header. Errors never
// hold it.
func (s *Server) readCredential(ctx context.Context) (string, error) {
	c, err := s.credential(ctx)
	if err != nil {
		return "", err
	}
	if err := Usable(c); err != nil {
		return "", err
	}
	return c, nil
}

func (s *Server) forwardFailed(w http.ResponseWriter, e *Event, body *countedBody, err error) {
	switch {
	case body.tooLarge():
		s.refuse(w, e, &refusal{http.StatusRequestEntityTooLarge, "body-too-large", "a request body may have at most 32 MiB"})
	case s.live.Err() != nil:
		s.refuse(w, e, &refusal{http.StatusForbidden, "revoked", "the Attempt's credentials have ended"})
	default:
		// The detail names addresses and certificates of the trusted side: for the operator only.
		s.fail(w, e, "upstream", "the model API could not be reached from the trusted side", err.Error())
	}
}

// deliver brings an answer in, after a look at what it would bring.
func (s *Server) deliver(w http.ResponseWriter, res *http.Response, credential string, e *Event) {
	if enc := strings.ToLower(res.Header.Get("Content-Encoding")); enc != "" && enc != "identity" {
		s.fail(w, e, "answer-encoding", "the model API sent an encoded answer, which cannot be watched for the credential", enc)
		return
	}
	if res.StatusCode < 200 || res.StatusCode >= 300 && res.StatusCode < 400 {
		s.fail(w, e, "redirect", "the model API answered with a redirect or an upgrade, which is not followed", res.Status)
		return
	}
	if headersHold(res.Header, credential) {
		s.refuse(w, e, &refusal{http.StatusBadGateway, "credential-in-answer", "the answer's headers held the credential"})
		return
	}
	incoming(w.Header(), res.Header)
	w.WriteHeader(res.StatusCode)
	e.Kind, e.Status = Forwarded, res.StatusCode
	if err := s.stream(w, res.Body, credential, e); err != nil {
		// The status line has left. Cutting the connection is the one honest end.
		panic(http.ErrAbortHandler)
	}
}

// stream copies and flushes each piece as it comes: an agent shows tokens as they are made.
func (s *Server) stream(w http.ResponseWriter, body io.Reader, credential string, e *Event) error {
	rc := http.NewResponseController(w)
	send := func(p []byte) error {
		if len(p) == 0 {
			return nil
		}
		_ = rc.SetWriteDeadline(time.Now().Add(stallTimeout))
		n, err := w.Write(p)
		e.Down += int64(n)
		if err != nil {
			return err
		}
		return rc.Flush()
	}
	if err := rc.Flush(); err != nil { // the headers, before the model's first token
		return err
	}
	watch := newWatch(credential)
	buf := make([]byte, 32<<10)
	for {
		n, err := body.Read(buf)
		out, met := watch.pass(buf[:n])
		if met {
			e.Kind, e.Status, e.Reason, e.Message = Refused, 0, "credential-in-answer", "the answer held the credential and was cut"
			return errors.New(e.Message)
		}
		if sendErr := send(out); sendErr != nil {
			return sendErr
		}
		if err == io.EOF && s.live.Err() != nil {
			// Closing the way to the upstream makes it end its answer, and that end may arrive before the socket
			// is closed: it is ours, and must not look like the model's.
			err = s.live.Err()
		}
		if err == io.EOF {
			return send(watch.rest())
		}
		if err != nil {
			e.Kind, e.Reason, e.Message = Failed, "upstream", "the answer ended early: "+printable(err.Error(), 200)
			return err
		}
	}
}
