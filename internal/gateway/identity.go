package gateway

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/egress"
)

// Credential is a secret that is put into requests to its hosts, in the place of what the sandbox holds. Exactly one
// of Header, Basic and Query is set.
//
// On its hosts every request must carry the placeholder in that place and nothing else that could authenticate; a
// placeholder in any other place, or on its way to another host, stops the request. The hosts are spoken to by https
// alone, and their certificate must verify.
type Credential struct {
	Name        string
	Hosts       []string // canonical names, exact
	Port        uint16   // of the hosts; 0: every one
	Header      string   // name of a header
	Prefix      string   // before the secret in Header: "Bearer "
	Basic       string   // user of basic authentication, whose password the secret is
	Query       string   // name of a query parameter
	Placeholder string   // bound to the Attempt; at least 16 printable characters without spaces
	// Value reads the secret at the moment it is needed; at least 16 characters (Usable).
	Value func(ctx context.Context) (string, error)
}

// checkCredentials refuses what could not be held, CodeInvalid.
func (c ProxyConfig) checkCredentials() error {
	for i, k := range c.Credentials {
		why := k.wrong()
		if c.Authority == nil {
			why = "credentials are put in inside TLS, for which there is no authority"
		}
		if why != "" {
			return &sallyport.Error{Op: opProxy, Code: sallyport.CodeInvalid, Subject: fmt.Sprintf("credentials[%d] %.40q", i, k.Name), Message: why}
		}
		if err := c.checkHeld(k); err != nil {
			return err
		}
	}
	return nil
}

// checkHeld refuses a rule beside which k's hosts could be used without its placeholder.
func (c ProxyConfig) checkHeld(k Credential) error {
	for _, r := range c.Rules {
		if k.serves(r) && (r.Protocol == egress.TCP || r.Protocol == egress.HTTP || c.Authority == nil) {
			return &sallyport.Error{Op: opProxy, Code: sallyport.CodeInvalid, Subject: fmt.Sprintf("credential %.40q", k.Name),
				Message: fmt.Sprintf("its host is also listed as %s, where no request could be held to the placeholder", egress.Line(r)), Hint: "list the host with https or git alone"}
		}
	}
	return nil
}

// wrong says what of k is not well formed, "" if nothing.
func (k Credential) wrong() string {
	set := 0
	for _, s := range []string{k.Header, k.Basic, k.Query} {
		if s != "" {
			set++
		}
	}
	switch {
	case set != 1:
		return "expected exactly one of header, basic and query"
	case k.Header != "" && (!httpguts.ValidHeaderFieldName(k.Header) || hopByHop[strings.ToLower(k.Header)]):
		return "expected the name of the header that carries the credential"
	case !httpguts.ValidHeaderFieldValue(k.Prefix) || strings.TrimLeft(k.Prefix, " \t") != k.Prefix:
		return "prefix: expected text that may stand in a header"
	case strings.ContainsAny(k.Basic, ":\r\n"):
		return "basic: expected a user name without a colon"
	case len(k.Hosts) == 0:
		return "expected at least one host"
	case !usablePlaceholder(k.Placeholder):
		return "placeholder: expected at least 16 printable characters without spaces"
	case k.Value == nil:
		return "expected a way to read it"
	}
	for _, h := range k.Hosts {
		if n, err := egress.Host(h); err != nil || n.String() != h {
			return fmt.Sprintf("host %.80q: expected a name in its canonical form", h)
		}
	}
	return ""
}

func usablePlaceholder(s string) bool {
	return len(s) >= minCredential && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// serves says that r lists one of k's hosts.
func (k Credential) serves(r egress.Rule) bool {
	return slices.ContainsFunc(k.Hosts, func(h string) bool {
		n, err := egress.Host(h)
		return err == nil && egress.Listed([]egress.Rule{r}, n) && (k.Port == 0 || k.Port == r.Port)
	})
}

// credentials are those that are bound to n.
func (p *proxy) credentials(n egress.Name, port uint16) (bound []*Credential) {
	for _, k := range p.held {
		if slices.Contains(k.Hosts, n.String()) && (k.Port == 0 || k.Port == port) {
			bound = append(bound, k)
		}
	}
	return bound
}

func (p *proxy) forge(n egress.Name) bool { return slices.Contains(p.Forges, n.String()) }

// identify finds the credential that a request asks to be put in; nil for a host without one. What else could
// authenticate is refused, unless rule lets the sandbox.
func (p *proxy) identify(h http.Header, q egress.Request, rule egress.Rule) (*Credential, *denial) {
	bound := p.credentials(q.Name, q.Port)
	if len(bound) == 0 {
		if what := p.strayed(h, q, nil); what != "" {
			return nil, because(q, ReasonElsewhere, what)
		}
		return nil, ownAuthentication(h, q, rule)
	}
	if q.Protocol != egress.HTTPS {
		return nil, because(q, ReasonPlaceholder, "inside TLS")
	}
	k := bound[0]
	for _, c := range bound {
		if c.presented(h, q) {
			k = c
			break
		}
	}
	return k, p.identifyAs(h, q, k)
}

// identifyAs holds a request to the placeholder of k and to no other identity.
func (p *proxy) identifyAs(h http.Header, q egress.Request, k *Credential) *denial {
	if what := k.others(h, q); what != "" {
		return because(q, ReasonOther, what)
	}
	if what := p.strayed(h, q, k); what != "" {
		return because(q, ReasonElsewhere, what)
	}
	if !k.presented(h, q) {
		no := because(q, ReasonPlaceholder, k.place())
		no.challenge = k.Basic != "" && h.Get("Authorization") == ""
		return no
	}
	return nil
}

// place says where the placeholder belongs.
func (k *Credential) place() string {
	switch {
	case k.Header != "":
		return "in the header " + strings.ToLower(k.Header)
	case k.Basic != "":
		return "as the password of " + k.Basic + " in basic authentication"
	}
	return "in the query parameter " + k.Query
}

// presented says that the placeholder stands in its place, once and alone.
func (k *Credential) presented(h http.Header, q egress.Request) bool {
	switch {
	case k.Header != "":
		return onlyValue(h[http.CanonicalHeaderKey(k.Header)], k.Prefix+k.Placeholder)
	case k.Basic != "":
		return onlyValue(h["Authorization"], basic(k.Basic, k.Placeholder))
	}
	values, ok := parameters(q.Query)
	return ok && onlyValue(values[k.Query], k.Placeholder)
}

func onlyValue(got []string, want string) bool {
	return len(got) == 1 && subtle.ConstantTimeCompare([]byte(got[0]), []byte(want)) == 1
}

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// parameters are a query's; ok is false for one that servers read differently.
func parameters(query string) (url.Values, bool) {
	values, err := url.ParseQuery(query)
	return values, err == nil
}

// header is where the credential stands, "" for a query parameter.
func (k *Credential) header() string {
	if k.Basic != "" {
		return "authorization"
	}
	return strings.ToLower(k.Header)
}

// others names what could authenticate as somebody else beside k.
func (k *Credential) others(h http.Header, q egress.Request) string {
	for name := range h {
		if strings.ToLower(name) != k.header() && (authenticates(name) || dashed(name) == dashed(k.header())) {
			return "the header " + printable(name, 64)
		}
	}
	values, ok := parameters(q.Query)
	if !ok {
		return "a query that can be read in two ways"
	}
	for name := range values {
		if name != k.Query && (k.asks(name) || authenticates(name) && !pages(name)) {
			return "the query parameter " + printable(name, 64)
		}
	}
	return ""
}

// asks says that a server may take a parameter or a field of this name for k's: in another case, or as a list of one.
func (k *Credential) asks(name string) bool {
	name, _, _ = strings.Cut(name, "[")
	return k.Query != "" && strings.EqualFold(strings.TrimSpace(name), k.Query)
}

// pages says that a parameter that sounds like a token is where a list goes on.
func pages(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "page") || strings.Contains(name, "continuation") || strings.HasPrefix(name, "next")
}

// strayed says where in a request a placeholder stands that is not k's in k's place; "" if nowhere.
func (p *proxy) strayed(h http.Header, q egress.Request, k *Credential) string {
	query := q.Query
	if k != nil && k.Query != "" {
		values, _ := parameters(query)
		values.Del(k.Query)
		query = values.Encode()
	}
	for _, c := range p.held {
		for name, values := range h {
			if k != nil && strings.ToLower(name) == k.header() {
				continue // compared whole
			}
			for _, v := range values {
				if shows(v, c.Placeholder) || shows(name, c.Placeholder) {
					return "in the header " + printable(name, 64)
				}
			}
		}
		if shows(query, c.Placeholder) || shows(q.Path, c.Placeholder) {
			return "in the address"
		}
	}
	return ""
}

// shows looks for a placeholder as it is, escaped for an address, and in basic authentication.
func shows(s, placeholder string) bool {
	if plain, err := url.QueryUnescape(s); err == nil && strings.Contains(plain, placeholder) {
		return true
	}
	if kind, code, ok := strings.Cut(s, " "); ok && strings.EqualFold(kind, "basic") {
		plain, err := base64.StdEncoding.DecodeString(strings.TrimSpace(code))
		if err == nil && strings.Contains(string(plain), placeholder) {
			return true
		}
	}
	return strings.Contains(s, placeholder)
}

// put replaces the placeholder by secret in what leaves.
func (k *Credential) put(out *http.Request, secret string) {
	switch {
	case k.Header != "":
		out.Header.Set(k.Header, k.Prefix+secret)
	case k.Basic != "":
		out.Header.Set("Authorization", basic(k.Basic, secret))
	default:
		values, _ := parameters(out.URL.RawQuery)
		values.Set(k.Query, secret)
		out.URL.RawQuery = values.Encode()
	}
	// An encoded answer could not be watched for the secret, nor one that comes in pieces, each too short to be told. A
	// server may answer as if no range were asked for, so every client can do without.
	out.Header.Set("Accept-Encoding", "identity")
	out.Header.Del("Range")
	out.Header.Del("If-Range")
}

// forms are the spellings of secret that an answer could hold.
func (k *Credential) forms(secret string) []string {
	forms := []string{secret}
	if k.Basic != "" {
		_, code, _ := strings.Cut(basic(k.Basic, secret), " ")
		forms = append(forms, code)
	}
	if escaped := url.QueryEscape(secret); escaped != secret {
		forms = append(forms, escaped)
	}
	return forms
}

// read is the secret, checked: a wrong one must not leave in a half-valid header. Errors never hold it.
func (k *Credential) read(ctx context.Context) (string, error) {
	v, err := k.Value(ctx)
	if err == nil {
		err = Usable(v)
	}
	if err != nil {
		return "", err
	}
	return v, nil
}
