package gateway

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"sallyport.dev/sallyport/internal/egress"
)

func bearer(p *ProxyConfig) {
	p.Credentials = append(p.Credentials, Credential{Name: "api", Hosts: []string{"api.example.com"}, Header: "authorization", Prefix: "Bearer ",
		Placeholder: placeholder1, Value: func(context.Context) (string, error) { return secret1, nil }})
}

func TestCredentialIsPutIn(t *testing.T) {
	for name, c := range map[string]struct {
		set    func(*Credential)
		header map[string]string
		query  string
		want   func(*http.Request) bool
	}{
		"header": {func(c *Credential) { c.Header, c.Prefix = "x-api-key", "" }, map[string]string{"X-Api-Key": placeholder1}, "",
			func(r *http.Request) bool { return r.Header.Get("X-Api-Key") == secret1 }},
		"bearer": {func(c *Credential) { c.Header, c.Prefix = "authorization", "Bearer " }, map[string]string{"Authorization": "Bearer " + placeholder1}, "",
			func(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer "+secret1 }},
		"basic": {func(c *Credential) { c.Basic = "x-access-token" }, map[string]string{"Authorization": basic("x-access-token", placeholder1)}, "",
			func(r *http.Request) bool {
				_, p, _ := r.BasicAuth()
				return p == secret1
			}},
		"query": {func(c *Credential) { c.Query = "key" }, nil, "?a=b&key=" + placeholder1,
			func(r *http.Request) bool {
				return r.URL.Query().Get("key") == secret1 && r.URL.Query().Get("a") == "b"
			}},
	} {
		o := newOpenRig(t, nil, []egress.Rule{apiRule()}, func(p *ProxyConfig) {
			k := Credential{Name: "api", Hosts: []string{"api.example.com"}, Placeholder: placeholder1, Value: func(context.Context) (string, error) { return secret1, nil }}
			c.set(&k)
			p.Credentials = []Credential{k}
		})
		status, body := o.ask(t, "POST", o.at("api.example.com", "/v1/x")+c.query, c.header, "words")
		if status != 200 || o.reached() != 1 || !c.want(o.seen[0]) || o.body[0] != "words" {
			t.Errorf("%s: %d %q, reached %d, %+v", name, status, body, o.reached(), o.server.Denied())
		}
	}
}

// On the host of a credential nothing else may authenticate, and the placeholder goes nowhere else.
func TestPlaceholderHasOnePlace(t *testing.T) {
	own := egress.Rule{Host: "www.example.com", Protocol: egress.HTTPS, Methods: []string{"*"}, Paths: []string{"/**"}, OwnAuth: false}
	drop := egress.Rule{Host: "example.com", Protocol: egress.HTTPS, Methods: []string{"*"}, Paths: []string{"/**"}, OwnAuth: true, Limits: egress.Limits{Requests: 100}}
	o := newOpenRig(t, nil, []egress.Rule{apiRule(), own, drop}, bearer)
	for name, c := range map[string]struct {
		host   string
		header map[string]string
		query  string
		why    egress.Reason
	}{
		"none":               {"api.example.com", nil, "", ReasonPlaceholder},
		"another bearer":     {"api.example.com", map[string]string{"Authorization": "Bearer stolen-from-somebody"}, "", ReasonPlaceholder},
		"another scheme":     {"api.example.com", map[string]string{"Authorization": "Token " + placeholder1}, "", ReasonPlaceholder},
		"beside":             {"api.example.com", map[string]string{"Authorization": "Bearer " + placeholder1, "X-Api-Key": "mine"}, "", ReasonOther},
		"cookie":             {"api.example.com", map[string]string{"Authorization": "Bearer " + placeholder1, "Cookie": "session=mine"}, "", ReasonOther},
		"query":              {"api.example.com", map[string]string{"Authorization": "Bearer " + placeholder1}, "?access_token=mine", ReasonOther},
		"odd query":          {"api.example.com", map[string]string{"Authorization": "Bearer " + placeholder1}, "?a;token=mine", ReasonOther},
		"twice":              {"api.example.com", map[string]string{"Authorization": "Bearer " + placeholder1, "X-Note": placeholder1}, "", ReasonElsewhere},
		"in the query too":   {"api.example.com", map[string]string{"Authorization": "Bearer " + placeholder1}, "?a=" + placeholder1, ReasonElsewhere},
		"another host":       {"www.example.com", map[string]string{"Authorization": "Bearer " + placeholder1}, "", ReasonElsewhere},
		"another, own auth":  {"example.com", map[string]string{"Authorization": "Bearer " + placeholder1}, "", ReasonElsewhere},
		"another, basic":     {"example.com", map[string]string{"Authorization": "Basic " + base64.StdEncoding.EncodeToString([]byte("a:"+placeholder1))}, "", ReasonElsewhere},
		"another, its query": {"example.com", nil, "?x=" + placeholder1, ReasonElsewhere},
		"another, escaped":   {"example.com", nil, "?x=%73" + placeholder1[1:], ReasonElsewhere},
	} {
		before := o.reached()
		status, body := o.ask(t, "GET", o.at(c.host, "/v1/x")+c.query, c.header, "")
		if status != 403 || !strings.Contains(body, string(c.why)+":") {
			t.Errorf("%s: %d %q", name, status, body)
		}
		if o.reached() != before {
			t.Errorf("%s: reached the upstream", name)
		}
	}
	if status, body := o.ask(t, "GET", o.at("api.example.com", "/v1/x")+"?pageToken=3", map[string]string{"Authorization": "Bearer " + placeholder1}, ""); status != 200 {
		t.Errorf("a page: %d %q", status, body)
	}
}

// A login in a body is somebody else's account, too.
func TestNoLoginInABody(t *testing.T) {
	o := newOpenRig(t, nil, []egress.Rule{apiRule()}, bearer)
	const part = "--b\r\nContent-Disposition: form-data; name=%q\r\n\r\nx\r\n--b--\r\n"
	for _, c := range []struct {
		kind, body string
		status     int
	}{
		{"application/json", `{"model":"m","max_tokens":5,"messages":[{"password":"in a text"}]}`, 200},
		{"application/json", `{"username":"me"}`, 403},
		{"application/json", `{"a":1,"Refresh_Token":"x"}`, 403},
		{"text/plain", ` {"password":"x"}`, 403},
		{"", `{"client_secret":"x"}`, 403},
		{"application/x-www-form-urlencoded", "a=b&page_token=3", 200},
		{"application/x-www-form-urlencoded; charset=utf-8", "grant_type=password", 403},
		{"application/x-www-form-urlencoded", "a=b;c", 403},
		{"multipart/form-data; boundary=b", fmt.Sprintf(part, "file"), 200},
		{"multipart/form-data; boundary=b", fmt.Sprintf(part, "access_token"), 403},
		{"multipart/form-data; boundary=b", "no form", 403},
		{"application/x-www-form-urlencoded", "a=" + strings.Repeat("x", maxForm), 413},
		{"application/octet-stream", "password=x", 200},
		// A server may read JSON whatever its type is said to be, in any encoding, in a list, one level deeper.
		{"application/octet-stream", `{"password":"x"}`, 403},
		{"application/octet-stream", strings.Repeat(" ", 5000) + `{"password":"x"}`, 403},
		{"application/octet-stream", "\x00\x01\x02", 200},
		{"application/json", "\ufeff" + `{"password":"x"}`, 403},
		{"application/json", "{\x00\"\x00p\x00", 403},
		{"application/json", "\x00{\x00\"\x00p", 403},
		{"application/json", `[{"password":"x"}]`, 403},
		{"application/json", `{"paſsword":"x"}`, 403}, // to a host in Go the same name
		{"application/x-www-form-urlencoded", "api_Key=x", 403},
		{"application/x-ndjson", `{"a":1}` + "\n" + `{"password":"x"}`, 403},
		{"application/json", `{"user":{"login":"me","password":"x"}}`, 403},
		{"application/json", `{"query":"mutation","variables":{"password":"x"}}`, 403},
		{"application/json", `{"schema":{"properties":{"password":{"type":"string"}}}}`, 200},
		{"text/plain", strings.Repeat("x", maxForm), 200},
		{"multipart/form-data; boundary=c; boundary=b", fmt.Sprintf(part, "password"), 403},
		{"application/x-www-form-urlencoded, x", "password=x", 403},
		{"multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=a; name=password\r\n\r\nx\r\n--b--\r\n", 403},
	} {
		before := o.reached()
		status, body := o.ask(t, "POST", o.at("api.example.com", "/v1/x"), map[string]string{"Authorization": "Bearer " + placeholder1, "Content-Type": c.kind}, c.body)
		if status != c.status || (status == 200) != (o.reached() == before+1) {
			t.Errorf("%s %.60s: %d %q", c.kind, c.body, status, body)
		} else if status == 200 && o.body[before] != c.body {
			t.Errorf("%s: the body became %q", c.kind, o.body[before])
		}
	}
}

// An upstream that echoes the secret, in a header, in a body, over pieces, or in an encoding, brings nothing in.
func TestSecretStaysOutside(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"header": func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X-Echo", "a "+secret1) },
		"location": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://evil.example/?"+secret1, 302)
		},
		"body": func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "you said %q", r.Header["Authorization"]) },
		"pieces": func(w http.ResponseWriter, r *http.Request) {
			for _, c := range secret1 {
				_, _ = io.WriteString(w, string(c))
				w.(http.Flusher).Flush()
			}
		},
		"encoded": func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Content-Encoding"] = []string{"identity", "gzip"}
			_, _ = io.WriteString(w, "whatever")
		},
	} {
		o := newOpenRig(t, h, []egress.Rule{apiRule()}, bearer)
		r, _ := http.NewRequest("GET", o.at("api.example.com", "/v1/x"), nil)
		r.Header.Set("Authorization", "Bearer "+placeholder1)
		res, err := o.inside(t, false).Do(r)
		var all string
		if err == nil {
			b, _ := io.ReadAll(res.Body)
			all = fmt.Sprint(res.Header, string(b))
			res.Body.Close()
		}
		if strings.Contains(all, secret1) || strings.Contains(all, "whatever") {
			t.Errorf("%s: %s came in", name, all)
		}
		why := ReasonInAnswer
		if name == "encoded" {
			why = ReasonEncoding
		}
		o.last(t, why)
	}
}

// A secret that cannot be had stops the request; what went wrong is not the sandbox's to read.
func TestCredentialThatIsNotThere(t *testing.T) {
	for _, value := range []func(context.Context) (string, error){
		func(context.Context) (string, error) { return "", errors.New("no such file: /home/somebody/secret") },
		func(context.Context) (string, error) { return "short", nil },
		func(context.Context) (string, error) { return "two\r\nX-Evil: lines in a secret", nil },
	} {
		o := newOpenRig(t, nil, []egress.Rule{apiRule()}, bearer, func(p *ProxyConfig) { p.Credentials[0].Value = value })
		status, body := o.ask(t, "GET", o.at("api.example.com", "/v1/x"), map[string]string{"Authorization": "Bearer " + placeholder1}, "")
		if status != 502 || strings.Contains(body, "somebody") || o.reached() != 0 {
			t.Errorf("%d %q, reached %d", status, body, o.reached())
		}
	}
}

// git asks first without a password and answers a challenge; that is no refusal.
func TestBasicIsAskedFor(t *testing.T) {
	o := newOpenRig(t, nil, []egress.Rule{apiRule()}, func(p *ProxyConfig) {
		p.Credentials = []Credential{{Name: "git", Hosts: []string{"api.example.com"}, Basic: "x-access-token", Placeholder: placeholder1,
			Value: func(context.Context) (string, error) { return secret1, nil }}}
	})
	if status, _ := o.ask(t, "GET", o.at("api.example.com", "/v1/x"), nil, ""); status != 401 || len(o.server.Denied()) != 0 || o.reached() != 0 {
		t.Errorf("%d, refused %+v", status, o.server.Denied())
	}
	if status, _ := o.ask(t, "GET", o.at("api.example.com", "/v1/x"), map[string]string{"Authorization": basic("x-access-token", "guessed")}, ""); status != 403 {
		t.Errorf("a wrong password: %d", status)
	}
	if status, _ := o.ask(t, "GET", o.at("api.example.com", "/v1/x"), map[string]string{"Authorization": basic("x-access-token", placeholder1)}, ""); status != 200 {
		t.Errorf("the placeholder: %d", status)
	}
}

func TestCredentialConfigs(t *testing.T) {
	good := func() ProxyConfig {
		p := ProxyConfig{Authority: authority(t), Rules: []egress.Rule{{Host: "api.example.com", Port: 443, Protocol: egress.HTTPS, Methods: []string{"GET"}, Paths: []string{"/**"}}}}
		bearer(&p)
		return p
	}
	if err := good().Check(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*ProxyConfig){
		"no authority":   func(p *ProxyConfig) { p.Authority = nil; p.Rules = nil },
		"two places":     func(p *ProxyConfig) { p.Credentials[0].Query = "key" },
		"no place":       func(p *ProxyConfig) { p.Credentials[0].Header = "" },
		"no host":        func(p *ProxyConfig) { p.Credentials[0].Hosts = nil },
		"odd host":       func(p *ProxyConfig) { p.Credentials[0].Hosts = []string{"API.example.com"} },
		"hop by hop":     func(p *ProxyConfig) { p.Credentials[0].Header = "Connection" },
		"no placeholder": func(p *ProxyConfig) { p.Credentials[0].Placeholder = "short" },
		"tcp as well": func(p *ProxyConfig) {
			p.Rules = append(p.Rules, egress.Rule{Host: "*.example.com", Port: 22, Protocol: egress.TCP})
		},
		"http as well": func(p *ProxyConfig) {
			p.Rules = append(p.Rules, egress.Rule{Host: "api.example.com", Port: 80, Protocol: egress.HTTP, Methods: []string{"GET"}, Paths: []string{"/"}})
		},
	} {
		p := good()
		change(&p)
		if err := p.Check(); err == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestForgeIsRead(t *testing.T) {
	wide := egress.Rule{Host: "forge.example.com", Protocol: egress.HTTPS, Methods: []string{"*"}, Paths: []string{"/**"}, OwnAuth: true}
	o := newOpenRig(t, nil, []egress.Rule{wide}, func(p *ProxyConfig) { p.Forges = []string{"forge.example.com"} })
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/api/v1/repos/a/b", "", 200},
		{"POST", "/a/b.git/git-upload-pack", "0000", 200},
		{"POST", "/graphql", `{"query":"{ viewer { login } }"}`, 200},
		{"POST", "/graphql", `{"query":"mutation { a }"}`, 403},
		{"POST", "/graphql", strings.Repeat(" ", egress.MaxGraphQL+1), 413},
		{"POST", "/api/v1/repos/a/b/pulls", `{}`, 403},
		{"POST", "/a/b.git/git-receive-pack", "", 403},
		{"DELETE", "/api/v1/repos/a/b", "", 403},
	} {
		before := o.reached()
		status, body := o.ask(t, c.method, o.at("forge.example.com", c.path), nil, c.body)
		if status != c.status || (status == 200) != (o.reached() == before+1) {
			t.Errorf("%s %s %.40s: %d %q", c.method, c.path, c.body, status, body)
		} else if status == 200 && o.body[before] != c.body {
			t.Errorf("%s %s: the body became %q", c.method, c.path, o.body[before])
		}
	}
}

// A forge is not spoken to in a way that cannot be read, such as ssh.
func TestForgeIsNotPassedUnread(t *testing.T) {
	o := newOpenRig(t, nil, []egress.Rule{{Host: "forge.example.com", Protocol: egress.TCP}}, func(p *ProxyConfig) { p.Forges = []string{"forge.example.com"} })
	if got := o.raw(t, fmt.Sprintf("CONNECT forge.example.com:%d HTTP/1.1\r\nHost: x\r\n\r\n", portOf(o.tls))); !strings.HasPrefix(got, "HTTP/1.1 403") || !strings.Contains(got, string(ReasonForge)) || o.dials.Load() != 0 {
		t.Errorf("%q, %d dials", got, o.dials.Load())
	}
}

// A token that may write to a forge brings nothing in.
func TestForgeCredentialWithWriteScope(t *testing.T) {
	scopes := ""
	o := newOpenRig(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-OAuth-Scopes", scopes)
		_, _ = io.WriteString(w, "data")
	}, []egress.Rule{apiRule()}, bearer, func(p *ProxyConfig) { p.Forges = []string{"api.example.com"} })
	for s, want := range map[string]int{"": 200, "read:org, user:email": 200, "repo": 403, "read:org, workflow": 403, "public_repo": 403} {
		scopes = s
		if status, body := o.ask(t, "GET", o.at("api.example.com", "/v1/x"), map[string]string{"Authorization": "Bearer " + placeholder1}, ""); status != want {
			t.Errorf("%q: %d %q", s, status, body)
		}
	}
}
