// Package openapi holds requests and answers to a published OpenAPI document: a test server of ours and the driver that
// asks it could be wrong in the same way. For tests only.
package openapi

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
)

// The package that carries GitHub's document, and what it must be: Octokit's, which GitHub's own clients are made from. The
// document is not ours to keep a copy of.
const (
	pack    = "@octokit/openapi@23.0.2"
	packSum = "pV8M7L9GY23AybNvTmo2nyjmpmnt6+2sRE/tqr0ZLQcPS4lnw7u5eZGNmwRNkBC3D7gZXbFx5AHzLUVRBXGDhg=="
	inside  = "package/generated/api.github.com.json"
	// fetchTime is for fetching 29 MB.
	fetchTime = 5 * time.Minute
)

// Doc is a published document. A nil one checks nothing.
type Doc struct {
	paths map[string]*openapi3.PathItem
	doc   *openapi3.T
}

// GitHub gives GitHub's own document, or why it cannot be had here. It is fetched once, into the user's cache folder.
var GitHub = sync.OnceValues(func() (*Doc, error) {
	file, err := fetch()
	if err != nil {
		return nil, err
	}
	doc, err := openapi3.NewLoader().LoadFromFile(file)
	if err != nil {
		return nil, err
	}
	return &Doc{paths: doc.Paths.Map(), doc: doc}, nil
})

func fetch() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache folder: %w", err)
	}
	dir := filepath.Join(cache, "sallyport-tests")
	file := filepath.Join(dir, "api.github.com-23.0.2.json")
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", fmt.Errorf("no npm, which fetches GitHub's OpenAPI document: %w", err)
	}
	tmp, err := os.MkdirTemp("", "openapi")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	ctx, cancel := context.WithTimeout(context.Background(), fetchTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, npm, "pack", "--ignore-scripts", pack)
	cmd.Dir = tmp
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm cannot fetch %s: %w: %s", pack, err, out)
	}
	found, err := filepath.Glob(filepath.Join(tmp, "*.tgz"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("npm left %d archives", len(found))
	}
	text, err := extract(found[0])
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	// Two tests may fetch it at once.
	mine := fmt.Sprintf("%s.%d", file, os.Getpid())
	if err := os.WriteFile(mine, text, 0o644); err != nil {
		return "", err
	}
	return file, os.Rename(mine, file)
}

func extract(archive string) ([]byte, error) {
	all, err := os.ReadFile(archive)
	if err != nil {
		return nil, err
	}
	sum := sha512.Sum512(all)
	if got := base64.StdEncoding.EncodeToString(sum[:]); got != packSum {
		return nil, fmt.Errorf("%s is another one than expected: sha512 %s", pack, got)
	}
	zipped, err := gzip.NewReader(bytes.NewReader(all))
	if err != nil {
		return nil, err
	}
	for files := tar.NewReader(zipped); ; {
		h, err := files.Next()
		if err != nil {
			return nil, fmt.Errorf("%s in %s: %w", inside, pack, err)
		}
		if h.Name == inside {
			return io.ReadAll(files)
		}
	}
}

// Check reports to t what of a request, or of next's answer to it, does not fit the document. prefix is before its
// paths.
func (d *Doc) Check(t testing.TB, prefix string, next http.Handler) http.Handler {
	if d == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		in, err := d.input(prefix, r, body)
		if err == nil {
			err = openapi3filter.ValidateRequest(r.Context(), in)
		}
		if err != nil {
			t.Errorf("%s %s does not fit the document: %v", r.Method, r.URL.RequestURI(), short(err))
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		res := httptest.NewRecorder()
		next.ServeHTTP(res, r)
		if in != nil {
			d.answer(t, in, res)
		}
		for k, v := range res.Header() {
			w.Header()[k] = v
		}
		w.WriteHeader(res.Code)
		_, _ = w.Write(res.Body.Bytes())
	})
}

func (d *Doc) answer(t testing.TB, in *openapi3filter.RequestValidationInput, res *httptest.ResponseRecorder) {
	// 401 and 404 may come from every path; the document names them at a few.
	if res.Code == http.StatusUnauthorized || res.Code == http.StatusNotFound {
		return
	}
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: res.Code, Header: res.Header(),
		Options: &openapi3filter.Options{IncludeResponseStatus: true}}
	out.SetBodyBytes(res.Body.Bytes())
	err := openapi3filter.ValidateResponse(context.Background(), out)
	if r := in.Route.Operation.Responses.Status(res.Code); err == nil && r != nil && r.Value != nil {
		err = strangers(r.Value.Content, res.Body.Bytes())
	}
	if err != nil {
		t.Errorf("the answer %d to %s %s does not fit the document: %v", res.Code, in.Request.Method, in.Request.URL.Path, short(err))
	}
}

func short(err error) string {
	s := err.Error()
	if len(s) > 1500 {
		s = s[:1500] + "…"
	}
	return s
}

// input finds the document's operation for a request. kin-openapi's own routers validate the whole document first,
// and GitHub's does not pass.
func (d *Doc) input(prefix string, r *http.Request, body []byte) (*openapi3filter.RequestValidationInput, error) {
	path, ok := strings.CutPrefix(r.URL.EscapedPath(), prefix)
	if !ok {
		return nil, fmt.Errorf("the path does not begin with %s", prefix)
	}
	parts := strings.Split(path, "/")
	best, fixed, params := "", -1, map[string]string(nil)
	for template := range d.paths {
		if p, n, ok := match(strings.Split(template, "/"), parts); ok && n > fixed {
			best, fixed, params = template, n, p
		}
	}
	if fixed < 0 {
		return nil, fmt.Errorf("there is no such path")
	}
	item := d.paths[best]
	op := item.GetOperation(r.Method)
	if op == nil {
		return nil, fmt.Errorf("%s has no %s", best, r.Method)
	}
	in := &openapi3filter.RequestValidationInput{Request: r, PathParams: params, QueryParams: r.URL.Query(),
		Route:   &routers.Route{Spec: d.doc, Path: best, PathItem: item, Method: r.Method, Operation: op},
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}}
	return in, known(op, item, r, body)
}

// known refuses query parameters that the document does not have, and a body where it has none: the library lets both
// pass.
func known(op *openapi3.Operation, item *openapi3.PathItem, r *http.Request, body []byte) error {
	for name := range r.URL.Query() {
		if op.Parameters.GetByInAndName("query", name) == nil && item.Parameters.GetByInAndName("query", name) == nil {
			return fmt.Errorf("there is no query parameter %q", name)
		}
	}
	switch {
	case len(body) == 0:
		return nil
	case op.RequestBody == nil:
		return fmt.Errorf("it takes no body")
	}
	return strangers(op.RequestBody.Value.Content, body)
}

// strangers refuses keys that the document does not have, which its schemas let pass.
func strangers(content openapi3.Content, body []byte) error {
	media := content.Get("application/json")
	if media == nil || media.Schema == nil || len(body) == 0 {
		return nil
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return err
	}
	return stranger(media.Schema.Value, value, "$")
}

func stranger(s *openapi3.Schema, value any, at string) error {
	switch value := value.(type) {
	case []any:
		for _, v := range value {
			if s.Items != nil {
				if err := stranger(s.Items.Value, v, at+"[]"); err != nil {
					return err
				}
			}
		}
	case map[string]any:
		if len(s.Properties) == 0 || len(s.OneOf)+len(s.AnyOf)+len(s.AllOf) > 0 {
			return nil
		}
		for name, v := range value {
			p, ok := s.Properties[name]
			if !ok && (s.AdditionalProperties.Schema != nil || s.AdditionalProperties.Has != nil && *s.AdditionalProperties.Has) {
				continue
			}
			if !ok {
				return fmt.Errorf("%s has no %q", at, name)
			}
			if err := stranger(p.Value, v, at+"."+name); err != nil {
				return err
			}
		}
	}
	return nil
}

func match(template, parts []string) (params map[string]string, fixed int, ok bool) {
	if len(template) != len(parts) {
		return nil, 0, false
	}
	params = map[string]string{}
	for i, want := range template {
		switch {
		case want == parts[i]:
			fixed++
		case strings.HasPrefix(want, "{") && strings.HasSuffix(want, "}") && parts[i] != "":
			value, err := url.PathUnescape(parts[i])
			if err != nil {
				return nil, 0, false
			}
			params[strings.Trim(want, "{}")] = value
		default:
			return nil, 0, false
		}
	}
	return params, fixed, true
}
