package control

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/gateway"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/internal/provider"
)

func TestWayOut(t *testing.T) {
	model := sallyport.Agent{Endpoint: &sallyport.Endpoint{Listen: 4711}}
	rules := []sallyport.EgressRule{{Host: "a.example", Port: 80, Protocol: "http"}}
	for name, c := range map[string]struct {
		m       sallyport.Manifest
		port    int
		proxied bool
	}{
		"nothing":               {sallyport.Manifest{Egress: []sallyport.EgressRule{}}, 0, false},
		"a model alone":         {sallyport.Manifest{Agent: model}, 4711, false},
		"rules alone":           {sallyport.Manifest{Egress: rules}, proxyPort, true},
		"a model and rules":     {sallyport.Manifest{Agent: model, Egress: rules}, 4711, true},
		"learning from nothing": {sallyport.Manifest{Learn: true}, proxyPort, true},
	} {
		env := proxyEnvironment(c.m, false)
		if len(proxyEnvironment(c.m, true)) != 0 {
			t.Errorf("%s: a proxy beside the redirect", name)
		}
		if wayOut(c.m) != c.port || (len(env) > 0) != c.proxied {
			t.Errorf("%s: port %d, %v", name, wayOut(c.m), env)
		}
		if want := fmt.Sprintf("http://127.0.0.1:%d", c.port); c.proxied && (env["https_proxy"] != want || env["HTTP_PROXY"] != want || env["ALL_PROXY"] != want || env["no_proxy"] == "") {
			t.Errorf("%s: %v", name, slices.Sorted(maps.Keys(env)))
		}
	}
}

// TestRefusalsAreRecorded: each once when it is heard, and how often at the end, over two drivers.
func TestRefusalsAreRecorded(t *testing.T) {
	d := driving(t)
	d.m.Learn = true
	for round := range 2 {
		if err := d.record(t.Context(), journal.Record{Type: lifecycle.AttemptEgress, Data: lifecycle.Egress{Open: true}}); err != nil {
			t.Fatal(err)
		}
		if n, err := d.openedBefore(t.Context()); n != int64(round) || err != nil {
			t.Errorf("opened %d times before, %v; expected %d", n, err, round)
		}
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		d.refusals = hear(t.Context(), d)
		c, err := gatewayConfig(d.m, held{Authority: "a seed of one Attempt"}, d.refusals.refused)
		if err != nil {
			t.Fatal(err)
		}
		if d.gateway, err = gateway.Serve(t.Context(), ln, c); err != nil {
			t.Fatal(err)
		}
		proxy := &url.URL{Scheme: "http", Host: ln.Addr().String()}
		client := http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy), DisableKeepAlives: true}}
		for _, path := range []string{"/x", "/x", "/y"} {
			answer, err := client.Get("http://a.example" + path)
			if err != nil {
				t.Fatal(err)
			}
			if answer.Body.Close(); answer.StatusCode != http.StatusForbidden {
				t.Errorf("%s: %s", path, answer.Status)
			}
		}
		if err := d.closeGateway(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	at, err := d.attempt(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, r := range at.Report.Refusals {
		got[r.Host+r.Path+" "+r.Reason+" "+r.Line] = r.Count
	}
	want := map[string]int64{
		"a.example/x host-not-listed {host: a.example, protocol: http, paths: [/x]}": 4,
		"a.example/y host-not-listed {host: a.example, protocol: http, paths: [/y]}": 2}
	if !maps.Equal(got, want) || at.Egress.Refused != 6 {
		t.Errorf("%v, %+v", got, at.Egress)
	}
}

// redirector is a host that can redirect, or says why not.
type redirector struct {
	provider.Provider
	err error
}

func (r redirector) Redirects(context.Context) error { return r.err }

// TestRedirects: what can be redirected is; what cannot be has the proxy, and a person is told; an error of another kind
// is no reason for less.
func TestRedirects(t *testing.T) {
	cannot := &sallyport.Error{Code: sallyport.CodeUnsupported, Message: "no nf_tables"}
	for _, c := range []struct {
		learn  bool
		on     provider.Provider
		want   bool
		fails  bool
		notice bool
	}{
		{true, redirector{}, true, false, false},
		{false, redirector{}, false, false, false}, // nothing leaves
		{true, redirector{err: cannot}, false, false, true},
		{true, redirector{err: &sallyport.Error{Code: sallyport.CodeUnavailable}}, false, true, false},
		{true, struct{ provider.Provider }{}, false, false, false}, // of a kind that cannot
	} {
		d := driving(t)
		d.m.Learn, d.provider = c.learn, c.on
		got, err := d.redirects(t.Context(), proxied(d.m))
		if got != c.want || (err != nil) != c.fails {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
		events, err := d.c.journal.Events(t.Context(), d.id, 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		told := false
		for _, e := range events {
			told = told || e.Type == lifecycle.AttemptNotice && strings.Contains(string(e.Data), "no nf_tables")
		}
		if told != c.notice {
			t.Errorf("%+v: told %v", c, told)
		}
	}
}
