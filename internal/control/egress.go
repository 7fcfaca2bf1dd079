package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/change"
	"sallyport.dev/sallyport/internal/egress"
	"sallyport.dev/sallyport/internal/evidence"
	"sallyport.dev/sallyport/internal/gateway"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/internal/screen"
)

// proxyPort is where the way out listens inside a sandbox whose agent has no model endpoint of its own.
const proxyPort = 18790

// wayOut is the port inside the agent's sandbox whose listener is handed out; 0: nothing leaves it.
func wayOut(m sallyport.Manifest) int {
	switch {
	case m.Agent.Endpoint != nil:
		return m.Agent.Endpoint.Listen
	case proxied(m):
		return proxyPort
	}
	return 0
}

// opens says that something may leave the agent's sandbox.
func opens(m sallyport.Manifest) bool { return m.Agent.Endpoint != nil || proxied(m) }

// proxied says that the agent is given a proxy. One that learns is given it also where all is refused.
func proxied(m sallyport.Manifest) bool { return len(m.Egress) > 0 || m.Learn }

// reaches says that some rule of the agent's or of setup's is in force.
func reaches(m sallyport.Manifest) bool {
	return proxied(m) || slices.ContainsFunc(m.Setup, func(s sallyport.Setup) bool { return len(s.Egress) > 0 })
}

// redirects says that all which the agent's sandbox sends is led to the gateway, so that no program needs a proxy: where
// this host can, and something may be reached beside a model endpoint.
func (d *driver) redirects(ctx context.Context, wanted bool) (bool, error) {
	r, ok := d.provider.(provider.Redirector)
	if !ok || !wanted {
		return false, nil
	}
	err := r.Redirects(ctx)
	if sallyport.CodeOf(err) == sallyport.CodeUnsupported {
		return false, d.notice(ctx, "%s", screen.Line("the way out is a proxy, and only for programs that heed HTTP_PROXY: "+err.Error()))
	}
	return err == nil, err
}

// proxyEnvironment tells the agent's programs of the proxy, in the spellings that are in use; nothing with a redirect.
// HTTP CONNECT serves every protocol, and unlike SOCKS every program that reads ALL_PROXY knows it.
func proxyEnvironment(m sallyport.Manifest, redirect bool) map[string]string {
	if !proxied(m) || redirect {
		return map[string]string{}
	}
	return proxyVariables(wayOut(m))
}

func proxyVariables(port int) map[string]string {
	env := map[string]string{}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		env[name] = fmt.Sprintf("http://127.0.0.1:%d", port)
		env[strings.ToLower(name)] = env[name]
	}
	env["NODE_USE_ENV_PROXY"] = "1" // from Node 24 on; earlier ones have no such setting
	env["NO_PROXY"], env["no_proxy"] = "127.0.0.1,localhost", "127.0.0.1,localhost"
	return env
}

// openGateway serves the agent's model endpoint and its proxy on the listening socket that its sandbox handed out.
func (d *driver) openGateway(ctx context.Context, f frozen, w provider.Wire) error {
	if !opens(d.m) {
		return nil
	}
	if err := d.openCredentials(ctx); err != nil {
		return err
	}
	files, err := w.Egress(ctx)
	if err != nil {
		return err
	}
	ln, questions, err := listenOn(files, wayOut(d.m), f.Spec.Redirect)
	if err != nil {
		return err
	}
	// Durable before anything can pass: what went through a driver that is then ended is known to be unknown.
	if err := d.record(ctx, journal.Record{Type: lifecycle.AttemptEgress, Data: lifecycle.Egress{Open: true}}); err != nil {
		return err
	}
	heard := hear(ctx, d)
	c, err := gatewayConfig(d.m, f.held, heard.refused)
	if err == nil {
		err = d.lend(&c)
	}
	var budget *spender
	if err == nil {
		budget, err = d.newSpender(ctx)
	}
	if err == nil && c.Proxy != nil {
		c.Proxy.Questions = questions
		c.Proxy.Generation, err = d.openedBefore(ctx)
	}
	if err == nil {
		if budget != nil {
			c.Budget = budget
		}
		var s *gateway.Server
		if s, err = gateway.Serve(ctx, ln, c); err == nil {
			d.mu.Lock()
			d.gateway, d.refusals, d.spender = s, heard, budget
			d.mu.Unlock()
			return nil
		}
	}
	_ = ln.Close()
	if questions != nil {
		_ = questions.Close()
	}
	return errors.Join(err, heard.stop(), d.record(ctx, journal.Record{Type: lifecycle.AttemptEgress, Data: lifecycle.Egress{}}))
}

// openedBefore is how often the Attempt's way out was opened before this time, which is recorded already.
func (d *driver) openedBefore(ctx context.Context) (int64, error) {
	opened := int64(-1)
	err := d.c.each(ctx, d.id, lifecycle.AttemptEgress, func(e lifecycle.Event) error {
		var p lifecycle.Egress
		if err := json.Unmarshal(e.Data, &p); err != nil {
			return err
		}
		if p.Open {
			opened++
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return opened, nil
}

// listenOn takes the sockets that a sandbox handed out, and closes its files.
func listenOn(files []*os.File, port int, redirect bool) (net.Listener, *gateway.Questions, error) {
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	if redirect {
		return gateway.Redirected(files, port)
	}
	if len(files) != 1 {
		return nil, nil, &sallyport.Error{Op: "open the way out", Code: sallyport.CodeDenied, Message: fmt.Sprintf("expected one listening socket, got %d", len(files))}
	}
	ln, err := gateway.Listener(files[0], port)
	return ln, nil, err
}

func gatewayConfig(m sallyport.Manifest, h held, refused func(gateway.Denied)) (c gateway.Config, err error) {
	if e := m.Agent.Endpoint; e != nil {
		c.Endpoint, c.Placeholder, c.Credential = *e, h.Placeholder, gateway.FromEnv(e.CredentialEnv, os.Getenv)
	}
	if !proxied(m) {
		return c, nil
	}
	c.Proxy, err = proxyConfig(m, m.Egress, h.Authority)
	if err == nil {
		c.Proxy.Refused, c.Proxy.Learn = refused, m.Learn
	}
	return c, err
}

// forgesOf are the hosts to which changes of this repository may be published, sorted.
func forgesOf(ctx context.Context, repo *change.Repo) ([]string, error) {
	remotes, err := repo.Remotes(ctx)
	var hosts []string
	for _, r := range remotes {
		if n, ok := egress.RemoteHost(r); ok {
			hosts = append(hosts, n.String())
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts), err
}

// lend gives the gateway the Attempt's credentials, which are open.
func (d *driver) lend(c *gateway.Config) error {
	d.mu.Lock()
	set := d.credentials
	d.mu.Unlock()
	if set == nil || c.Proxy == nil {
		return nil // a credential's host is listed, so that there is a proxy where there is one
	}
	held, err := d.placeholders()
	for _, k := range d.m.Credentials {
		c.Proxy.Credentials = append(c.Proxy.Credentials, gateway.Credential{Name: k.Name, Hosts: k.Hosts, Header: k.Header, Prefix: k.Prefix, Basic: k.Basic, Query: k.Query,
			Placeholder: held[k.Name], Value: func(ctx context.Context) (string, error) {
				v, err := set.Value(ctx, k.Name)
				return v.Reveal(), err
			}})
	}
	return err
}

// forges are the well-known ones, the one that is published to, and those whose Apps m's credentials are of, wherever they stand.
func forges(m sallyport.Manifest) []string {
	all := slices.Concat(egress.Forges(), m.Forges)
	if n, ok := egress.RemoteHost(m.Publish.Repository); ok {
		all = append(all, n.String())
	}
	for _, k := range m.Credentials {
		if k.Source.GitHubApp != nil {
			all = append(all, k.Hosts...)
		}
	}
	return all
}

// proxyConfig serves rules; seed is of the authority under which TLS is opened, "" for none.
func proxyConfig(m sallyport.Manifest, rules []sallyport.EgressRule, seed string) (*gateway.ProxyConfig, error) {
	names, err := resolved(m)
	c := &gateway.ProxyConfig{Rules: rules, Resolve: names, Forges: forges(m)}
	if err == nil && seed != "" {
		c.Authority, err = gateway.NewAuthority([]byte(seed), time.Now())
	}
	return c, err
}

// resolved are the operator's addresses of names; port 0 stands for the one that was asked for.
func resolved(m sallyport.Manifest) (map[string]netip.AddrPort, error) {
	out := map[string]netip.AddrPort{}
	for name, text := range m.Resolve {
		to, err := netip.ParseAddrPort(text)
		if a, plain := netip.ParseAddr(text); plain == nil {
			to, err = netip.AddrPortFrom(a, 0), nil
		}
		if err != nil {
			return nil, &sallyport.Error{Op: "read manifest", Code: sallyport.CodeCorrupt, Subject: "resolve." + name, Err: err}
		}
		out[name] = to
	}
	return out, nil
}

// closeGateway ends the credentials; it comes before anything else at an agent's end.
func (d *driver) closeGateway(ctx context.Context) error {
	d.mu.Lock()
	s, heard, budget := d.gateway, d.refusals, d.spender
	d.gateway, d.refusals, d.spender = nil, nil, nil
	d.mu.Unlock()
	if s != nil {
		s.Close()
	}
	d.endCredentials(ctx)
	if s == nil {
		return nil
	}
	if err := errors.Join(heard.stop(), budget.close()); err != nil {
		return err
	}
	n := s.Counters()
	records := []journal.Record{{Type: lifecycle.AttemptEgress, Data: lifecycle.Egress{Requests: n.Requests, Refused: n.Refused, BytesUp: n.BytesUp, BytesDown: n.BytesDown}}}
	if more := repeats(s.Denied()); len(more) > 0 {
		records = append(records, journal.Record{Type: lifecycle.AttemptRefused, Data: lifecycle.Refused{Refusals: more}})
	}
	if n.Requests == 0 {
		return d.record(ctx, records...)
	}
	return d.record(ctx, append(records, journal.Record{Type: lifecycle.AttemptNotice, Data: lifecycle.Notice{Text: sentOut(d.m, n)}})...)
}

// sentOut sums up for a person what went through.
func sentOut(m sallyport.Manifest, n gateway.Counters) string {
	what := "model API"
	if proxied(m) {
		what = "egress"
	}
	text := fmt.Sprintf("%s: %d requests, %d refused, %d bytes up, %d bytes down", what, n.Requests, n.Refused, n.BytesUp, n.BytesDown)
	said := map[string]bool{}
	for _, r := range n.Refusals {
		if !said[r.Reason] {
			said[r.Reason], text = true, text+"; refused: "+r.Reason
		}
	}
	if n.Failed > 0 {
		text += fmt.Sprintf("; %d failed: %s", n.Failed, n.Failure)
	}
	return screen.Line(text)
}

// refusals journals each different refusal when it is heard, so that a driver's death takes counts at most.
type refusals struct {
	heard chan gateway.Denied
	ended chan struct{} // asks the writer to end
	wrote chan error    // its end
	once  sync.Once
}

func hear(ctx context.Context, d *driver) *refusals {
	r := &refusals{heard: make(chan gateway.Denied, lifecycle.MaxRefusals), ended: make(chan struct{}), wrote: make(chan error, 1)}
	go func() { r.wrote <- r.write(ctx, d) }()
	return r
}

// refused never waits: what finds no room is still in the totals.
func (r *refusals) refused(what gateway.Denied) {
	select {
	case r.heard <- what:
	default:
	}
}

func (r *refusals) write(ctx context.Context, d *driver) error {
	for {
		var batch []sallyport.Refusal
		select {
		case what := <-r.heard:
			batch = append(batch, refusalOf(what, 1))
		case <-r.ended:
			if len(r.heard) == 0 {
				return nil
			}
		case <-ctx.Done():
			return nil // a later driver hears what is refused then
		}
		for len(r.heard) > 0 {
			batch = append(batch, refusalOf(<-r.heard, 1))
		}
		if err := d.record(ctx, journal.Record{Type: lifecycle.AttemptRefused, Data: lifecycle.Refused{Refusals: batch}}); err != nil {
			return err
		}
	}
}

// stop returns when all that was heard is journalled.
func (r *refusals) stop() error {
	r.once.Do(func() { close(r.ended) })
	return <-r.wrote
}

// repeats are how often each refusal came again after it was heard.
func repeats(all []gateway.Denied) []sallyport.Refusal {
	var out []sallyport.Refusal
	for _, r := range all {
		if r.Count > 1 {
			out = append(out, refusalOf(r, r.Count-1))
		}
	}
	return out
}

// maxAsked bounds what a sandbox can have written into the journal, in bytes.
const maxAsked = 300

func refusalOf(r gateway.Denied, count int64) sallyport.Refusal {
	safe := func(s string) string { return screen.Fit(screen.Line(s), maxAsked) }
	return sallyport.Refusal{Host: r.Name.String(), Asked: safe(r.Asked), Port: r.Port, Protocol: r.Protocol, Method: safe(r.Method), Path: safe(r.Path),
		Reason: string(r.Reason), Message: r.Message, Line: r.Line, Process: safe(r.Process), Count: count}
}

// egressOf is what went through the way out; nil where that is not known, or was not recorded by the version that
// had it open.
func egressOf(at journal.Attempt, m sallyport.Manifest) *evidence.Egress {
	switch {
	case !opens(m):
		return &evidence.Egress{}
	case at.Egress == nil || at.EgressOpen > 0:
		return nil
	}
	return &evidence.Egress{Requests: at.Egress.Requests, Refused: at.Egress.Refused, BytesUp: at.Egress.BytesUp, BytesDown: at.Egress.BytesDown}
}

// egressUnknown says what is missing from the totals, and at least how much they are.
func egressUnknown(at journal.Attempt) []string {
	if at.EgressOpen == 0 {
		return nil
	}
	e := at.Egress
	return []string{fmt.Sprintf("what the agent sent out was not all counted, since a driver was ended: at least %d requests, %d refused, %d bytes up, %d bytes down", e.Requests, e.Refused, e.BytesUp, e.BytesDown)}
}
