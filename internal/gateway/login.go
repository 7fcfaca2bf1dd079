package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"

	"sallyport.dev/sallyport/internal/egress"
)

// maxForm bounds a form that is looked into; larger ones to a credential's host are refused.
const maxForm = 1 << 20

// logins are the members of a JSON object by which APIs take a login. Exact names: an API's own words such as
// "max_tokens" or "key" of a translation must not be mistaken for one.
var logins = map[string]bool{
	"password": true, "passwd": true, "passphrase": true, "client_secret": true, "refresh_token": true, "access_token": true, "id_token": true,
	"api_key": true, "apikey": true, "grant_type": true, "assertion": true, "client_assertion": true, "otp": true, "username": true,
	"pwd": true, "private_token": true, "job_token": true, "auth_token": true, "session_token": true,
}

// lookInto reads the bodies that decide: queries to a forge, and what is sent to the host of a credential, where a login
// in the body would be somebody else's account. What was read leaves as it came.
func (s *Server) lookInto(w http.ResponseWriter, r *http.Request, x *exchange) *denial {
	if x.model != nil {
		return nil // its exact targets take no login
	}
	forge := s.proxy.forge(x.Name)
	if !forge && x.credential == nil {
		return nil
	}
	kind, boundary, clear := contentType(r.Header)
	counted := &countedBody{r: r.Body, rc: http.NewResponseController(w), max: maxBody}
	var body io.Reader = counted
	switch graph := forge && egress.GraphQL(x.Request); {
	case graph:
		counted.max = egress.MaxGraphQL
	case x.credential == nil || r.ContentLength == 0:
		body = nil
	case !clear:
		return because(x.Request, ReasonOther, "a content type that can be read in two ways")
	case isForm(kind):
		counted.max = maxForm
	default:
		// Many servers read JSON whatever its type is said to be.
		first, err := begins(counted)
		if err != nil {
			return because(x.Request, ReasonBody, "it was cut")
		}
		if body = io.MultiReader(bytes.NewReader(first), counted); !likeJSON(first) {
			counted.max = math.MaxInt64 // it is passed on as it comes
			x.body, body = body, nil
			if !inUTF8(kind, first) {
				return because(x.Request, ReasonOther, "a text that is not in UTF-8")
			}
		}
	}
	if body != nil {
		if encoded(r.Header) != "" {
			return because(x.Request, ReasonRequestEncoding, "")
		}
		x.looked.all = &s.heldBodies
		switch err := x.looked.read(body); {
		case errors.Is(err, errNoRoom):
			return because(x.Request, ReasonBodies, "")
		case err != nil:
			return because(x.Request, ReasonBody, "one that decides is read whole, up to 1 MiB of a form or a query; or it was cut")
		}
		x.body = bytes.NewReader(x.looked.b)
	}
	if forge && !egress.ForgeRead(x.Request, x.looked.b) {
		return because(x.Request, ReasonForge, "")
	}
	if x.credential != nil && body != nil {
		if what := x.credential.login(kind, boundary, x.looked.b); what != "" {
			return because(x.Request, ReasonOther, what)
		}
	}
	return nil
}

// contentType is the one type that a request says; false where servers could disagree which it is.
func contentType(h http.Header) (kind, boundary string, clear bool) {
	said := h["Content-Type"]
	if len(said) == 0 || len(said) == 1 && said[0] == "" {
		return "", "", true
	}
	kind, params, err := mime.ParseMediaType(said[0])
	return kind, params["boundary"], err == nil && len(said) == 1
}

func isForm(kind string) bool {
	return kind == "application/x-www-form-urlencoded" || kind == "multipart/form-data"
}

// begins reads until something other than space comes, and at least four bytes where there are so many.
func begins(r io.Reader) (first []byte, err error) {
	piece := make([]byte, 512)
	for len(first) < maxForm {
		n, err := r.Read(piece)
		first = append(first, piece[:n]...)
		if err == io.EOF {
			return first, nil
		}
		if err != nil {
			return first, err
		}
		if rest := afterSpace(first); len(rest) >= 4 {
			return first, nil
		}
	}
	return first, errBodyTooLarge
}

// afterSpace is b without what JSON readers pass over first: a byte order mark and space.
func afterSpace(b []byte) []byte {
	return bytes.TrimLeft(bytes.TrimPrefix(b, []byte("\ufeff")), " \t\r\n")
}

func likeJSON(b []byte) bool {
	b = afterSpace(b)
	return len(b) > 0 && (b[0] == '{' || b[0] == '[')
}

// inUTF8 says that a text does not begin as one of another encoding does, in which JSON would not be seen.
func inUTF8(kind string, b []byte) bool {
	text := kind == "" || strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "json")
	return !text || !bytes.Contains(b[:min(len(b), 4)], []byte{0}) && !bytes.HasPrefix(b, []byte("\xff\xfe")) && !bytes.HasPrefix(b, []byte("\xfe\xff"))
}

// login names what in a body could be a login, "" if nothing.
func (k *Credential) login(kind, boundary string, body []byte) string {
	switch kind {
	case "application/x-www-form-urlencoded":
		values, err := url.ParseQuery(string(body))
		if err != nil {
			return "a form that can be read in two ways"
		}
		for name := range values {
			if logins[folded(name)] || k.asks(name) || authenticates(name) && !pages(name) {
				return "the form field " + printable(name, 64)
			}
		}
		return ""
	case "multipart/form-data":
		return k.formLogin(multipart.NewReader(bytes.NewReader(body), boundary))
	}
	if bytes.IndexByte(afterSpace(body)[:min(len(afterSpace(body)), 4)], 0) >= 0 {
		return "a text that is not in UTF-8"
	}
	return k.jsonLogin(afterSpace(body))
}

func (k *Credential) formLogin(form *multipart.Reader) string {
	for {
		part, err := form.NextPart()
		if err == io.EOF {
			return ""
		}
		if err != nil {
			return "a form that cannot be read"
		}
		name := part.FormName()
		if name == "" {
			return "a form whose field has no name, or two"
		}
		if logins[folded(name)] || k.asks(name) || authenticates(name) {
			return "the form field " + printable(name, 64)
		}
	}
}

// jsonLogin looks into a body's values, of which there may be several, in a list or one after the other. What is no JSON
// is not looked for a login: no API takes one from it.
func (k *Credential) jsonLogin(body []byte) string {
	for d := json.NewDecoder(bytes.NewReader(body)); ; {
		var v json.RawMessage
		if d.Decode(&v) != nil {
			return ""
		}
		each := []json.RawMessage{v}
		if v[0] == '[' && json.Unmarshal(v, &each) != nil {
			return ""
		}
		for _, one := range each {
			if what := k.memberLogin(one, 0); what != "" {
				return what
			}
		}
	}
}

// maxLoginDepth: {"user": {"password": …}}, or the variables of a query.
const maxLoginDepth = 3

// memberLogin looks at the members of an object, and at texts in objects that are their values. It does not look into
// lists: what somebody talks about there, to a model for one, is no login.
func (k *Credential) memberLogin(object []byte, depth int) string {
	d := json.NewDecoder(bytes.NewReader(object))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return ""
	}
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		var v json.RawMessage
		if err != nil || !ok || d.Decode(&v) != nil {
			return ""
		}
		if (logins[folded(name)] || k.asks(name)) && (depth == 0 || v[0] == '"') {
			return "the member " + printable(name, 64)
		}
		if v[0] == '{' && depth+1 < maxLoginDepth {
			if what := k.memberLogin(v, depth+1); what != "" {
				return what
			}
		}
	}
	return ""
}
