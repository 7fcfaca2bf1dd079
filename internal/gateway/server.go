package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sallyport.dev/sallyport"
)

// Config says what one Attempt's agent may reach.
type Config struct {
	Endpoint sallyport.Endpoint
	// Placeholder is what the agent holds instead of the credential: bound to the Attempt, not secret, at
	// least 16 characters, no spaces.
	Placeholder string
	// Credential reads the real one, at each request, at the moment it is needed. At least 16 characters:
	// a shorter one could not be watched for in answers.
	Credential func(ctx context.Context) (string, error)
	Roots      *x509.CertPool // nil: the system's
	// Observe hears of each request's end, and of each different refusal once; calls may be concurrent and
	// should return soon. nil: nobody.
	Observe func(Event)
	// Connections caps the agent's connections; more wait. 0: 64.
	Connections int
	// Budget is asked before a request to the Endpoint, or to a host that it meters, leaves. nil: nothing is counted.
	Budget Budget
	// Proxy serves HTTP proxy requests (CONNECT, absolute-form) and SOCKS 5 on the same listener. nil: refused. With a
	// Proxy the Endpoint may be zero, and Placeholder and Credential with it: no model API.
	Proxy *ProxyConfig
}

// Server forwards for one Attempt. All methods are safe for concurrent use.
type Server struct {
	model      *model // nil: none
	proxy      *proxy
	meter      meter
	budget     Budget // nil: none
	heldBodies atomic.Int64
	http       *http.Server
	listener   net.Listener
	front      *front // with a proxy: the listener; nil: only the endpoint is served
	crew       crew
	exchanges  chan struct{} // holds one for each that is under way
	names      *names        // with a proxy

	live   context.Context // ends when the credential does
	revoke context.CancelFunc

	closing sync.Once
	done    chan struct{}
	mu      sync.Mutex
	err     error
}

// Serve answers on ln until Close, or until ctx ends (which closes). CodeInvalid: the Config, naming the
// field; CodeUnsupported: a rule that cannot be held (ProxyConfig.Check). Then nothing was started and ln stays the
// caller's. Otherwise ln is the Server's.
//
// No connection, cache or credential is shared with another Server.
func Serve(ctx context.Context, ln net.Listener, c Config) (*Server, error) {
	if c.Connections <= 0 {
		c.Connections = maxConnections
	}
	s := &Server{meter: meter{observe: c.Observe}, budget: c.Budget, done: make(chan struct{}), exchanges: make(chan struct{}, maxExchanges)}
	if err := s.setEndpoint(c); err != nil {
		return nil, err
	}
	if err := s.setProxy(c); err != nil {
		return nil, err
	}
	s.listener = limit(ln, c.Connections)
	s.live, s.revoke = context.WithCancel(context.WithoutCancel(ctx))
	s.http = &http.Server{
		Handler: http.HandlerFunc(s.serve), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		DisableGeneralOptionsHandler: true,
		HTTP2:                        &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ErrorLog:                     log.New(io.Discard, "", 0), // its lines hold the sandbox's bytes
		BaseContext:                  func(net.Listener) context.Context { return s.live },
	}
	if c.Proxy != nil {
		s.openFront()
	}
	go s.run()
	context.AfterFunc(ctx, func() { _ = s.Close() })
	return s, nil
}

// setEndpoint compiles the model endpoint, which only a Server with a proxy may lack.
func (s *Server) setEndpoint(c Config) error {
	if c.Proxy != nil && c.Endpoint.Upstream == "" && len(c.Endpoint.Paths) == 0 {
		return nil
	}
	r, err := compile(c.Endpoint)
	if err != nil {
		return err
	}
	s.model = &model{route: r, transport: newTransport(r, c.Roots, c.Connections), credential: Credential{Name: "model API", Hosts: []string{r.name.String()}, Port: r.port,
		Header: r.header, Prefix: r.prefix, Placeholder: c.Placeholder, Value: c.Credential}}
	switch {
	case !usablePlaceholder(c.Placeholder):
		return invalid("placeholder", "expected at least 16 printable characters without spaces")
	case c.Credential == nil:
		return invalid("credential", "expected a way to read the credential")
	}
	return nil
}

func (s *Server) setProxy(c Config) (err error) {
	config := ProxyConfig{}
	if c.Proxy != nil {
		config = *c.Proxy
	}
	if s.model != nil {
		if err := config.checkHeld(s.model.credential); err != nil {
			return err
		}
	}
	if err := config.checkBudget(c.Budget); err != nil {
		return err
	}
	if s.proxy, err = newProxy(config, c.Connections); err != nil {
		return err
	}
	if s.proxy.budget = c.Budget; s.model != nil {
		s.proxy.held = append(s.proxy.held, &s.model.credential)
	}
	return nil
}

// openFront puts the sorting of SOCKS from HTTP before the http.Server.
func (s *Server) openFront() {
	s.front = newFront(s.live, s.listener, s.proxy.pace.header, s.socks)
	s.front.redirected = s.redirected
	s.openNames()
	s.listener = s.front
	s.http.ReadHeaderTimeout = s.proxy.pace.header
	s.http.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		ctx = context.WithValue(ctx, clientKey{}, c)
		if t, ok := c.(*tls.Conn); ok {
			c = t.NetConn()
		}
		if b, ok := c.(*bound); ok {
			return context.WithValue(ctx, boundKey{}, b)
		}
		return ctx
	}
	go s.front.run()
}

func newTransport(r *route, roots *x509.CertPool, connections int) *http.Transport {
	dialer := &net.Dialer{Timeout: 30 * time.Second}
	t := &http.Transport{
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    30 * time.Second,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true,
		MaxConnsPerHost:        connections,
		MaxIdleConnsPerHost:    8,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeader,
		HTTP2:                  &http.HTTP2Config{MaxReceiveBufferPerStream: streamWindow},
		ResponseHeaderTimeout:  answerTimeout,
	}
	if r.base.Scheme == "https" {
		// The operator's own HTTPS_PROXY: it sees a CONNECT to the endpoint's host, TLS stays end to end.
		t.Proxy = http.ProxyFromEnvironment
		t.DialContext = dialer.DialContext
		return t
	}
	t.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		return loopbackOnly(ctx, dialer, network, addr)
	}
	return t
}

func (s *Server) run() {
	err := s.http.Serve(s.listener)
	if !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		s.mu.Lock()
		s.err = err
		s.mu.Unlock()
	}
	close(s.done)
	_ = s.Close()
}

// Counters is a snapshot; it may be read after Close.
func (s *Server) Counters() Counters { return s.meter.snapshot() }

// Done is closed when the Server accepts no more.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err is why accepting ended before Close, nil if it did not.
func (s *Server) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Revoke ends the credential's use: requests under way are cut, later ones refused. It comes before anything
// else of an Attempt is torn down. Repeat: nothing.
func (s *Server) Revoke() { s.revoke() }

// Close revokes, stops accepting and ends all connections. It returns within five seconds whatever the
// sandbox does. Repeat: nil.
func (s *Server) Close() error {
	s.closing.Do(func() {
		s.Revoke()
		_ = s.listener.Close()
		if s.proxy.Questions != nil {
			_ = s.proxy.Questions.Close()
		}
		_ = s.http.Close()
		for _, t := range s.transports() {
			t.CloseIdleConnections()
		}
	})
	timeout := time.After(closeTimeout)
	for _, end := range []<-chan struct{}{s.done, s.crew.close()} {
		select {
		case <-end:
		case <-timeout:
			return nil
		}
	}
	return nil
}

func (s *Server) transports() []*http.Transport {
	all := slices.Collect(maps.Values(s.proxy.transports))
	if s.model != nil {
		all = append(all, s.model.transport)
	}
	return all
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	e := Event{Method: r.Method, Target: r.RequestURI, client: clientOf(r)}
	// A panic that cuts the connection must still be counted.
	defer func() {
		e.Took = time.Since(start)
		s.meter.record(e)
	}()
	if e.model = s.front == nil || !proxied(r); e.model && s.model != nil && r.Method == http.MethodHead && r.RequestURI == "/" {
		// Claude Code asks whether its endpoint is there. Nothing leaves.
		s.hurry(w)
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusOK)
		e.Kind, e.Status = Local, http.StatusOK
		return
	}
	if !s.crew.enter() {
		e.Kind, e.Reason = Refused, string(ReasonEnded)
		panic(http.ErrAbortHandler)
	}
	defer s.crew.leave()
	if r.Method == http.MethodConnect && !e.model {
		s.connect(w, r, &e)
		return
	}
	s.exchange(w, r, &e)
}

// hurry limits how long the client may take for what is written from now on.
func (s *Server) hurry(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.proxy.pace.stall))
}

// relax is for the time in which nothing is written: an answer may be minutes away, and over HTTP/2 a limit that passes ends
// the stream also when nobody writes.
func relax(w http.ResponseWriter) { _ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) }
