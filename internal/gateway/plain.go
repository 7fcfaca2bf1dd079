package gateway

import (
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sallyport.dev/sallyport/internal/egress"
)

// boundKey finds the *bound connection in a request's context.
type boundKey struct{}

func boundTo(r *http.Request) (*bound, bool) {
	b, ok := r.Context().Value(boundKey{}).(*bound)
	return b, ok
}

// proxied says that r is for the proxy and not for the model endpoint.
func proxied(r *http.Request) bool {
	_, ok := boundTo(r)
	return ok || r.Method == http.MethodConnect || !strings.HasPrefix(r.RequestURI, "/") && strings.Contains(r.RequestURI, "://")
}

// plain forwards one HTTP request to the host that its rule allows.
func (s *Server) plain(w http.ResponseWriter, r *http.Request, e *Event) {
	q, no := asked(r)
	if no == nil && s.live.Err() != nil {
		no = because(q, ReasonEnded, "")
	}
	if no != nil {
		s.sayNo(w, e, no)
		return
	}
	d := egress.Decide(s.proxy.Rules, q)
	if !d.Allowed {
		s.sayNo(w, e, decided(q, d))
		return
	}
	rule, quota := s.proxy.Rules[d.Rule], s.proxy.quotas[d.Rule]
	if no := ownAuthentication(r.Header, q, rule); no != nil {
		s.sayNo(w, e, no)
		return
	}
	if why := quota.enter(time.Now()); why != "" {
		s.sayNo(w, e, because(q, why, ""))
		return
	}
	s.pass(w, r, e, &exchange{q, rule, quota})
}

// exchange is one request that was allowed.
type exchange struct {
	egress.Request
	rule  egress.Rule
	quota *quota
}

// asked reads the request's target as it stands. On a bound connection Host must say the very same; in absolute form
// Host is not looked at (RFC 9112 section 3.2.2) and not sent.
func asked(r *http.Request) (egress.Request, *denial) {
	q := egress.Request{Protocol: egress.HTTP, Method: r.Method}
	authority, target := r.Host, r.RequestURI
	if !strings.HasPrefix(target, "/") {
		rest, ok := strings.CutPrefix(target, "http://")
		if !ok {
			return q, because(q, ReasonForm, "expected http://HOST/PATH, or CONNECT for TLS")
		}
		end := strings.IndexAny(rest+"/", "/?#")
		if authority, target = rest[:end], rest[end:]; !strings.HasPrefix(target, "/") {
			target = "/" + target
		}
	}
	if r.Method == egress.MethodWebSocket {
		return q, because(q, ReasonForm, "that is a name for rules, not a method")
	}
	var err error
	if q.Name, q.Port, err = egress.Authority(authority, 80); err != nil {
		return q, unnamed(authority, err)
	}
	if b, ok := boundTo(r); ok && (q.Name != b.name || q.Port != b.port) {
		return q, because(q, egress.ReasonNameMismatch, "")
	}
	q.Path, q.Query, _ = strings.Cut(target, "?")
	if strings.Contains(q.Query, "#") {
		return q, because(q, ReasonForm, "a fragment in a request")
	}
	return q, upgraded(r, &q)
}

// upgraded makes a WebSocket request of q if r is one, and refuses every other upgrade: after it nobody would know
// what is asked.
func upgraded(r *http.Request, q *egress.Request) *denial {
	to := r.Header["Upgrade"]
	if len(to) == 0 && !headerHasToken(r.Header["Connection"], "upgrade") {
		return nil
	}
	if len(to) != 1 || !strings.EqualFold(to[0], "websocket") || !headerHasToken(r.Header["Connection"], "upgrade") || r.Method != http.MethodGet || r.ContentLength != 0 {
		return because(*q, ReasonUpgrade, "")
	}
	q.Method = egress.MethodWebSocket
	return nil
}

// ownAuthentication refuses headers that could carry somebody's identity: an agent must not use a stranger's account on
// an allowed host as a drop box.
func ownAuthentication(h http.Header, q egress.Request, rule egress.Rule) *denial {
	if rule.OwnAuth {
		return nil
	}
	for name := range h {
		if authenticates(name) && !strings.EqualFold(name, "Sec-Websocket-Key") {
			no := because(q, ReasonAuthentication, "the header "+printable(name, 64))
			rule.OwnAuth = true
			no.line = egress.Line(rule)
			return no
		}
	}
	return nil
}

// pass sends the request on and brings the answer in. The request that leaves is made anew, so that its framing is ours.
func (s *Server) pass(w http.ResponseWriter, r *http.Request, e *Event, x *exchange) {
	rc := http.NewResponseController(w)
	_ = rc.EnableFullDuplex() // as in forward
	body := &meteredBody{countedBody: countedBody{r: r.Body, rc: rc, max: math.MaxInt64}, quota: x.quota}
	defer func() { _ = body.Close(); e.Up += body.passed.Load() }()
	res, err := s.proxy.transport.RoundTrip(s.proxyRequest(r, x, body))
	switch {
	case err != nil && body.spent.Load():
		s.sayNo(w, e, because(x.Request, ReasonUp, ""))
	case err != nil:
		s.sayBroken(w, e, err)
	default:
		defer res.Body.Close()
		s.bring(w, res, e, x, body)
	}
}

func (s *Server) proxyRequest(r *http.Request, x *exchange, body *meteredBody) *http.Request {
	host := egress.HostPort(x.Name, x.Port)
	out := &http.Request{
		Method: r.Method, Host: strings.TrimSuffix(host, ":80"), Body: body, ContentLength: r.ContentLength,
		// Opaque leaves as it is: what was decided on, not what it decodes to.
		URL:    &url.URL{Scheme: "http", Host: host, Opaque: x.Path, RawQuery: x.Query},
		Header: http.Header{}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	if r.ContentLength == 0 {
		out.Body = http.NoBody
	}
	endToEnd(out.Header, r.Header)
	if _, ok := out.Header["User-Agent"]; !ok {
		out.Header.Set("User-Agent", "") // none, instead of Go's own
	}
	if x.Method == egress.MethodWebSocket {
		out.Header.Set("Connection", "Upgrade")
		out.Header.Set("Upgrade", "websocket")
	}
	return out.WithContext(r.Context())
}

// bring delivers an answer. Redirects are the client's to follow, and the next request is judged like the first.
func (s *Server) bring(w http.ResponseWriter, res *http.Response, e *Event, x *exchange, body *meteredBody) {
	if res.StatusCode == http.StatusSwitchingProtocols {
		s.webSocket(w, res, e, x)
		return
	}
	endToEnd(w.Header(), res.Header)
	w.Header().Del("Alt-Svc") // another host or QUIC, past the proxy
	if !x.rule.OwnAuth {
		w.Header().Del("Set-Cookie") // the next request would be refused for it
	}
	w.WriteHeader(res.StatusCode)
	e.Kind, e.Status = Forwarded, res.StatusCode
	why, err := s.pour(w, res.Body, e, x.quota)
	if body.spent.Load() {
		why = ReasonUp
	}
	if why != "" {
		s.denied(e, because(x.Request, why, ""))
	} else if err != nil {
		s.broke(e, err)
	}
	if why != "" || err != nil {
		e.Status = 0
		panic(http.ErrAbortHandler) // the status line has left: cutting is the one honest end
	}
}

// pour copies and flushes each piece as it comes.
func (s *Server) pour(w http.ResponseWriter, body io.Reader, e *Event, q *quota) (egress.Reason, error) {
	rc := http.NewResponseController(w)
	buf := make([]byte, 32<<10)
	for {
		n, err := body.Read(buf)
		may := q.takeDown(n)
		if may > 0 {
			_ = rc.SetWriteDeadline(time.Now().Add(stallTimeout))
			k, wErr := w.Write(buf[:may])
			if e.Down += int64(k); wErr == nil {
				wErr = rc.Flush()
			}
			if wErr != nil {
				return "", wErr
			}
		}
		switch {
		case may < n:
			return ReasonDown, nil
		case err == io.EOF:
			return "", s.live.Err() // as in stream: an end that our own closing made is not the answer's
		case err != nil:
			return "", err
		}
	}
}

// webSocket carries an upgraded connection.
func (s *Server) webSocket(w http.ResponseWriter, res *http.Response, e *Event, x *exchange) {
	upstream, ok := res.Body.(io.ReadWriteCloser)
	if !ok || x.Method != egress.MethodWebSocket || !strings.EqualFold(res.Header.Get("Upgrade"), "websocket") {
		s.sayNo(w, e, because(x.Request, ReasonUpgrade, "the host changed to another protocol"))
		return
	}
	c, err := hijack(w)
	if err != nil {
		s.broke(e, err)
		return
	}
	head := &http.Response{StatusCode: res.StatusCode, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}}
	endToEnd(head.Header, res.Header)
	head.Header.Set("Connection", "Upgrade")
	head.Header.Set("Upgrade", "websocket")
	if err := head.Write(c); err != nil {
		s.broke(e, err)
		_ = c.Close()
		return
	}
	_ = c.SetDeadline(time.Time{})
	t := &tunnel{client: c, upstream: upstream, quota: x.quota, pace: s.proxy.pace}
	e.Kind, e.Status = Forwarded, res.StatusCode
	why := t.run(s.live)
	e.Up, e.Down = t.up.Load(), t.down.Load()
	if why != "" {
		s.denied(e, because(x.Request, why, ""))
	}
}
