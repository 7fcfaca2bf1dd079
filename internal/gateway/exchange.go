package gateway

import (
	"context"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"sync"
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

// exchange is one request that was allowed.
type exchange struct {
	egress.Request
	rule       egress.Rule
	quota      *quota
	credential *Credential // nil: none is put in
	secret     string      // its value
	body       io.Reader   // what leaves instead of the request's own body; nil: that
	looked     heldBody    // what was read of it to decide
	model      *model      // nil: not to the agent's endpoint
}

// exchange forwards one request to the host that its rule allows.
func (s *Server) exchange(w http.ResponseWriter, r *http.Request, e *Event) {
	if !s.begin(r.Context()) {
		e.Kind, e.Reason = Failed, "cancelled"
		panic(http.ErrAbortHandler)
	}
	defer func() { <-s.exchanges }()
	admit := s.admit
	if e.model {
		admit = s.admitModel
	}
	x, no := admit(r)
	if no == nil {
		defer func() { x.looked.release() }()
		no = s.lookInto(w, r, x)
	}
	if no == nil {
		if why := x.quota.enter(time.Now()); why != "" {
			no = because(x.Request, why, "")
		}
	}
	if no != nil {
		drain(w, r)
		s.sayNo(w, e, no)
		return
	}
	if x.credential != nil {
		var err error
		if x.secret, err = x.credential.read(r.Context()); err != nil {
			s.fail(w, e, "credential", "the credential for this host is not available on the trusted side", err)
			return
		}
	}
	s.pass(w, r, e, x)
}

// drain takes what a refused request still sends, a little and not for long: over HTTP/2 some clients take an answer before
// the end of their own words for a broken one.
func drain(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength == 0 || r.Header.Get("Expect") != "" {
		return
	}
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
	_, _ = io.CopyN(io.Discard, r.Body, 64<<10)
	_ = rc.SetReadDeadline(time.Time{})
}

// begin waits until one more exchange may be under way; false: whoever asked is gone.
func (s *Server) begin(ctx context.Context) bool {
	select {
	case s.exchanges <- struct{}{}: // also after the end, which is answered
		return true
	default:
	}
	select {
	case s.exchanges <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// admit decides on what a request asks for and on who asks.
func (s *Server) admit(r *http.Request) (*exchange, *denial) {
	q, no := asked(r)
	switch {
	case no != nil:
		return nil, no
	case s.live.Err() != nil:
		return nil, because(q, ReasonEnded, "")
	}
	d := egress.Decide(s.proxy.Rules, q)
	if !d.Allowed {
		return nil, decided(q, d)
	}
	x := &exchange{Request: q, rule: s.proxy.Rules[d.Rule], quota: s.proxy.quotas[d.Rule]}
	x.credential, no = s.proxy.identify(r.Header, q, x.rule)
	return x, no
}

// asked reads the request's target as it stands. On a bound connection Host must say the very same; in absolute form
// Host is not looked at (RFC 9112 section 3.2.2) and not sent.
func asked(r *http.Request) (egress.Request, *denial) {
	q := egress.Request{Protocol: egress.HTTP, Method: r.Method}
	standard := uint16(80)
	b, isBound := boundTo(r)
	if isBound && b.tls {
		q.Protocol, standard = egress.HTTPS, 443
	}
	authority, target := r.Host, r.RequestURI
	if !strings.HasPrefix(target, "/") {
		rest, ok := strings.CutPrefix(target, "http://")
		if !ok || q.Protocol == egress.HTTPS {
			return q, because(q, ReasonForm, "expected a path on a connection to one host; http://HOST/PATH, or CONNECT for TLS, of a proxy")
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
	if q.Name, q.Port, err = egress.Authority(authority, standard); err != nil {
		return q, unnamed(authority, err)
	}
	if isBound && (q.Name != b.name || q.Port != b.port) {
		return q, because(q, egress.ReasonNameMismatch, "")
	}
	q.Path, q.Query, _ = strings.Cut(target, "?")
	if strings.ContainsAny(q.Query, "# ") { // HTTP/2 can carry a space, HTTP/1 would read the end of the target there
		return q, because(q, ReasonForm, "a fragment or a space in a query")
	}
	denied := upgraded(r, &q)
	return q, denied
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
		if authenticates(name) {
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
	// Otherwise the server drains and closes the body at our first byte, and the transport, which may still be sending
	// it when the host answers early, takes the closed body for a failure and cuts the answer.
	_ = rc.EnableFullDuplex()
	body := &meteredBody{countedBody: countedBody{r: r.Body, rc: rc, max: math.MaxInt64}, quota: x.quota}
	transport := s.proxy.transports[x.Protocol]
	if x.model != nil {
		transport = x.model.transport
	}
	if x.model != nil || s.metered(x) {
		body.max = maxBody
	}
	if x.body != nil {
		body.r = io.NopCloser(x.body)
	}
	// Also when the answer is cut by a panic. After the close the transport touches the connection no more.
	defer func() { _ = body.Close(); e.Up += body.passed.Load() }()
	out, answered := x.request(r, body), func(*http.Response) {}
	if s.metered(x) {
		a := s.afford(w, r, e, x, body)
		if a == nil {
			return
		}
		defer a.Close()
		out, answered = a.request(out), a.answered
	}
	res, err := transport.RoundTrip(out)
	switch {
	case err != nil && body.tooLarge():
		s.sayNo(w, e, because(x.Request, ReasonBody, ""))
	case err != nil && body.spent.Load():
		s.sayNo(w, e, because(x.Request, ReasonUp, ""))
	case err != nil && s.live.Err() != nil:
		s.sayNo(w, e, because(x.Request, ReasonEnded, ""))
	case err != nil:
		s.sayBroken(w, e, err)
	default:
		defer res.Body.Close()
		answered(res)
		s.bring(w, res, e, x, body)
	}
}

// request is what leaves. Where it goes is what was decided on.
func (x *exchange) request(r *http.Request, body io.ReadCloser) *http.Request {
	host := egress.HostPort(x.Name, x.Port)
	standard := map[egress.Protocol]string{egress.HTTP: ":80", egress.HTTPS: ":443"}[x.Protocol]
	out := &http.Request{
		Method: r.Method, Host: strings.TrimSuffix(host, standard), Body: body, ContentLength: r.ContentLength,
		// Opaque leaves as it is: what was decided on, not what it decodes to.
		URL:    &url.URL{Scheme: string(x.Protocol), Host: host, Opaque: x.Path, RawQuery: x.Query},
		Header: make(http.Header, len(r.Header)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	if x.model != nil {
		out.URL, out.Host = x.model.targets[r.RequestURI], x.model.base.Host
	}
	if r.ContentLength == 0 {
		out.Body = http.NoBody
	}
	endToEnd(out.Header, r.Header)
	leaveOut(out.Header)
	if _, ok := out.Header["User-Agent"]; !ok {
		out.Header.Set("User-Agent", "") // none, instead of Go's own
	}
	if x.Method == egress.MethodWebSocket {
		out.Header.Set("Connection", "Upgrade")
		out.Header.Set("Upgrade", "websocket")
	}
	if x.credential != nil {
		x.credential.put(out, x.secret)
	}
	return out.WithContext(r.Context())
}

// bring delivers an answer. Redirects are the client's to follow, and the next request is judged like the first.
func (s *Server) bring(w http.ResponseWriter, res *http.Response, e *Event, x *exchange, body *meteredBody) {
	if no := s.tells(res, x); no != nil {
		s.sayNo(w, e, no)
		return
	}
	if res.StatusCode == http.StatusSwitchingProtocols {
		s.webSocket(w, res, e, x)
		return
	}
	endToEnd(w.Header(), res.Header)
	keepOut(w.Header(), x)
	w.WriteHeader(res.StatusCode)
	e.Kind, e.Status = Forwarded, res.StatusCode
	why, err := s.pour(w, res, e, x)
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
		// The status line leaves before the cut: a client that has seen no byte of an answer asks again by itself.
		s.hurry(w)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// tells refuses an answer that would bring the secret in, or that cannot be watched for it.
func (s *Server) tells(res *http.Response, x *exchange) *denial {
	if x.credential == nil {
		return nil
	}
	switch enc := encoded(res.Header); {
	case x.model != nil && (res.StatusCode < 200 || res.StatusCode >= 300 && res.StatusCode < 400):
		return because(x.Request, ReasonRedirect, "")
	case res.StatusCode == http.StatusSwitchingProtocols:
		return because(x.Request, ReasonUpgrade, "a two-way connection cannot be watched for the credential")
	case enc != "":
		return because(x.Request, ReasonEncoding, printable(enc, 40))
	}
	if scopes := res.Header.Get("X-Oauth-Scopes"); s.proxy.forge(x.Name) && writes(scopes) {
		return because(x.Request, ReasonScope, "it says "+printable(scopes, 100))
	}
	for _, form := range x.credential.forms(x.secret) {
		if headersHold(res.Header, form) || headersHold(res.Trailer, form) {
			return because(x.Request, ReasonInAnswer, "")
		}
	}
	return nil
}

// encoded is the encoding of a body, "" for one that stands as it is: identity, however often it is said.
func encoded(h http.Header) string {
	for _, v := range h["Content-Encoding"] {
		if v != "" && !strings.EqualFold(v, "identity") {
			return v
		}
	}
	return ""
}

// keepOut takes away what would lead past the gateway or be refused in the next request.
func keepOut(h http.Header, x *exchange) {
	h.Del("Alt-Svc") // another host or QUIC
	if !x.rule.OwnAuth {
		h.Del("Set-Cookie")
	}
	if x.model != nil {
		h.Del("Location")
		h.Del("Www-Authenticate")
	}
}

// writes says that a forge's list of a token's scopes has one that lets it change something.
func writes(scopes string) bool {
	for scope := range strings.SplitSeq(scopes, ",") {
		scope = strings.ToLower(strings.TrimSpace(scope))
		reads := scope == "" || strings.HasPrefix(scope, "read") || strings.Contains(scope, ":read") || scope == "user:email"
		if !reads {
			return true
		}
	}
	return false
}

// pieces are what answers are copied with. One goes back only after each write from it has succeeded: a connection of
// HTTP/2 that ended in one may still be sending from it.
var pieces = sync.Pool{New: func() any { b := make([]byte, pieceSize); return &b }}

const pieceSize = 32 << 10

// pour copies and flushes each piece as it comes. What could be the beginning of the secret waits for the next piece. What
// is last leaves when the request ends, which is at once. The headers of a short answer whose length is known leave with
// its first piece: until then a client could do nothing with them.
func (s *Server) pour(w http.ResponseWriter, res *http.Response, e *Event, x *exchange) (egress.Reason, error) {
	rc := http.NewResponseController(w)
	send := func(p []byte) error {
		if len(p) == 0 {
			return nil
		}
		k, err := w.Write(p)
		e.Down += int64(k)
		return err
	}
	if short := 0 <= res.ContentLength && res.ContentLength <= pieceSize; !short {
		s.hurry(w)
		if err := rc.Flush(); err != nil { // before the first byte of a slow answer
			return "", err
		}
		relax(w)
	}
	var watch watches
	if x.credential != nil {
		watch = newWatches(x.credential.forms(x.secret))
	}
	kept := pieces.Get().(*[]byte)
	buf := *kept
	for {
		n, err := res.Body.Read(buf)
		may := x.quota.takeDown(n)
		out, met := watch.pass(buf[:may])
		if met {
			return ReasonInAnswer, nil
		}
		if len(out) > 0 || err == io.EOF {
			s.hurry(w)
		}
		if wErr := send(out); wErr != nil {
			return "", wErr
		}
		switch {
		case may < n:
			return ReasonDown, nil
		case err == io.EOF && s.live.Err() != nil:
			return "", s.live.Err() // an end that our own closing made is not the answer's
		case err == io.EOF:
			if out, met = watch.rest(); met {
				return ReasonInAnswer, nil
			}
			if wErr := send(out); wErr != nil {
				return "", wErr
			}
			pieces.Put(kept)
			if s.metered(x) {
				return "", rc.Flush() // the answer does not wait until its price is noted
			}
			return "", nil
		case err != nil:
			return "", err
		}
		if len(out) > 0 {
			if fErr := rc.Flush(); fErr != nil {
				return "", fErr
			}
			relax(w)
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
