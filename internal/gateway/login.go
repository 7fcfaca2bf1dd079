package gateway

import (
	"bytes"
	"encoding/json"
	"io"
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
	var limit int64
	kind, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case forge && egress.GraphQL(x.Request):
		limit = egress.MaxGraphQL
	case x.credential == nil || r.ContentLength == 0:
	case kind == "application/x-www-form-urlencoded" || kind == "multipart/form-data":
		limit = maxForm
	case kind == "" || kind == "text/plain" || strings.HasSuffix(kind, "json"):
		limit = maxBody
	}
	if limit > 0 {
		if enc := r.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
			return because(x.Request, ReasonRequestEncoding, "")
		}
		if no := s.hold(w, r, x, limit); no != nil {
			return no
		}
	}
	if forge && !egress.ForgeRead(x.Request, x.whole) {
		return because(x.Request, ReasonForge, "")
	}
	if x.credential != nil && limit > 0 {
		if what := login(kind, params["boundary"], x.whole); what != "" {
			return because(x.Request, ReasonOther, what)
		}
	}
	return nil
}

// login names what in a body could be a login, "" if nothing.
func login(kind, boundary string, body []byte) string {
	switch kind {
	case "application/x-www-form-urlencoded":
		values, err := url.ParseQuery(string(body))
		if err != nil {
			return "a form that can be read in two ways"
		}
		for name := range values {
			if logins[strings.ToLower(name)] || authenticates(name) && !pages(name) {
				return "the form field " + printable(name, 64)
			}
		}
		return ""
	case "multipart/form-data":
		return formLogin(multipart.NewReader(bytes.NewReader(body), boundary))
	}
	if b := bytes.TrimLeft(body, " \t\r\n"); len(b) > 0 && b[0] == '{' {
		return memberLogin(b)
	}
	return ""
}

func formLogin(form *multipart.Reader) string {
	for {
		part, err := form.NextPart()
		if err == io.EOF {
			return ""
		}
		if err != nil {
			return "a form that cannot be read"
		}
		if name := part.FormName(); logins[strings.ToLower(name)] || authenticates(name) {
			return "the form field " + printable(name, 64)
		}
	}
}

// memberLogin looks at the outermost members. What is no JSON is not looked for a login: no API takes one from it.
func memberLogin(body []byte) string {
	d := json.NewDecoder(bytes.NewReader(body))
	if _, err := d.Token(); err != nil {
		return ""
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return ""
		}
		if name, ok := t.(string); ok && logins[strings.ToLower(name)] {
			return "the member " + printable(name, 64)
		}
		var v json.RawMessage
		if d.Decode(&v) != nil {
			return ""
		}
	}
	return ""
}
