package credential

import (
	"bytes"
	"embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"sallyport.dev/sallyport"
)

//go:embed logins/*.yaml
var logins embed.FS

// login says where a tool keeps the login of a subscription and how it is refreshed: one data file each.
type login struct {
	File        string              `yaml:"file"`       // below the home folder
	FolderEnv   string              `yaml:"folder-env"` // a variable that names another folder for it, outside
	Access      token               `yaml:"access"`
	Refresh     token               `yaml:"refresh"`
	Others      []token             `yaml:"others"`
	Expires     []string            `yaml:"expires"`      // milliseconds; empty: in the access token, a JWT
	RefreshedAt []string            `yaml:"refreshed-at"` // RFC 3339; empty: the file does not say
	Keep        [][]string          `yaml:"keep"`
	Endpoint    string              `yaml:"endpoint"`
	ClientID    string              `yaml:"client-id"`
	ClientFrom  []string            `yaml:"client-id-from"`
	Scope       string              `yaml:"scope"`
	ScopeFrom   []string            `yaml:"scope-from"`
	Answer      map[string][]string `yaml:"answer"`
	Locks       []string            `yaml:"locks"` // folders that the tool makes while it refreshes: beside the file, or {folder} and an ending
	Login       string              `yaml:"login"` // what a person does to log in again
}

// token is a secret in the file.
type token struct {
	Path   []string `yaml:"path"`
	Begin  string   `yaml:"begin"`  // what its placeholder begins with
	JWT    bool     `yaml:"jwt"`    // the placeholder is the form of one
	Claims []string `yaml:"claims"` // of the JWT, that its placeholder says as well
}

// loginNamed reads a login's data: from folder, where it is there, else the one that is built in.
func loginNamed(name string, folder fs.FS) (l login, err error) {
	bad := func(code sallyport.Code, message string) (login, error) {
		return login{}, &sallyport.Error{Op: "read the data of a login", Code: code, Subject: fmt.Sprintf("%.40q", name), Message: message}
	}
	if name == "" || strings.ContainsAny(name, "/\\.") {
		return bad(sallyport.CodeUnsupported, "no login of this name is known")
	}
	b, err := fs.ReadFile(logins, "logins/"+name+".yaml")
	if err != nil {
		return bad(sallyport.CodeUnsupported, "no login of this name is known")
	}
	if folder != nil {
		own, err := fs.ReadFile(folder, name+".yaml")
		switch {
		case err == nil:
			b = own
		case !errors.Is(err, fs.ErrNotExist):
			return bad(sallyport.CodeUnavailable, "the file that replaces it cannot be read")
		}
	}
	if err := yaml.UnmarshalWithOptions(b, &l, yaml.Strict()); err != nil {
		return bad(sallyport.CodeInvalid, "the file is not of this form")
	}
	u, err := url.Parse(l.Endpoint)
	if err != nil || u.Host == "" || u.User != nil {
		return bad(sallyport.CodeInvalid, "endpoint: expected an https URL")
	}
	a, err := netip.ParseAddr(u.Hostname())
	switch local := err == nil && a.IsLoopback(); {
	case u.Scheme != "https" && !(u.Scheme == "http" && local):
		return bad(sallyport.CodeInvalid, "endpoint: expected an https URL")
	case !filepath.IsLocal(l.File):
		return bad(sallyport.CodeInvalid, "file: expected a path below the home folder")
	case slices.ContainsFunc(l.Locks, func(s string) bool {
		return !filepath.IsLocal(strings.TrimPrefix(s, "{folder}")) || strings.Contains(s, "/") || s == "{folder}"
	}):
		return bad(sallyport.CodeInvalid, "locks: expected names, or {folder} and an ending")
	case len(l.Access.Path) == 0 || len(l.Refresh.Path) == 0 || len(l.Expires) == 0 && !l.Access.JWT || l.Answer["access_token"] == nil:
		return bad(sallyport.CodeInvalid, "expected access, refresh, answer and when the access token ends")
	}
	return l, nil
}

// path is where the file is outside.
func (l login) path(home string, getenv func(string) string) string {
	if dir := getenv(l.FolderEnv); l.FolderEnv != "" && filepath.IsAbs(dir) {
		return filepath.Join(dir, filepath.Base(l.File))
	}
	return filepath.Join(home, l.File)
}

// locks are the tool's own for the file at path, in the order in which it takes them.
func (l login) locks(path string) (out []string) {
	folder := filepath.Dir(path)
	for _, lock := range l.Locks {
		if ending, beside := strings.CutPrefix(lock, "{folder}"); beside {
			out = append(out, folder+ending)
		} else {
			out = append(out, filepath.Join(folder, lock))
		}
	}
	return out
}

// state is what a login's file says.
type state struct {
	doc     []byte
	mode    fs.FileMode
	access  string
	refresh string // "": it cannot be refreshed
	expires time.Time
	clients string
	scope   string
}

func (l login) look(name, path string) (st state, err error) {
	doc, fi, err := readOwn(name, path, maxAnswer)
	if err != nil {
		var e *sallyport.Error
		if errors.As(err, &e) && e.Code == sallyport.CodeNotFound {
			e.Hint = "log in: " + l.Login
		}
		return st, err
	}
	bad := func(why string) (state, error) {
		return state{}, failure(sallyport.CodeInvalid, name, path+": "+why, "log in again: "+l.Login)
	}
	if !oneObject(doc) {
		return bad("expected one JSON object")
	}
	st = state{doc: doc, mode: fi.Mode().Perm()}
	if st.access, err = get[string](doc, l.Access.Path); err != nil {
		return bad(err.Error())
	}
	if st.refresh, err = get[string](doc, l.Refresh.Path); err != nil && !errors.Is(err, errAbsent) {
		return bad(err.Error())
	}
	if st.expires, err = l.ends(doc, st.access); err != nil {
		return bad(err.Error())
	}
	st.clients, st.scope = l.ClientID, l.Scope
	if own, err := get[string](doc, l.ClientFrom); err == nil && len(l.ClientFrom) > 0 && own != "" {
		st.clients = own
	}
	if own, err := get[[]string](doc, l.ScopeFrom); err == nil && len(l.ScopeFrom) > 0 && len(own) > 0 {
		st.scope = strings.Join(own, " ")
	}
	return st, nil
}

// tokens are the secrets of the file, by the name under which each is known.
func (l login) tokens(name string, st state) map[string]string {
	out := map[string]string{name: st.access, name + ".refresh": st.refresh}
	for _, t := range l.Others {
		if v, err := get[string](st.doc, t.Path); err == nil {
			out[name+"."+strings.Join(t.Path, ".")] = v
		}
	}
	return out
}

func (l login) ends(doc []byte, access string) (time.Time, error) {
	if len(l.Expires) > 0 {
		ms, err := get[int64](doc, l.Expires)
		return time.UnixMilli(ms), err
	}
	claims, err := claimsOf(access)
	if err != nil {
		return time.Time{}, err
	}
	var exp float64
	if json.Unmarshal(claims["exp"], &exp) != nil || exp <= 0 {
		return time.Time{}, errors.New("the access token does not say when it ends")
	}
	return time.Unix(int64(exp), 0), nil
}

// claimsOf reads a JWT's claims, unverified: they are ours to use, not to trust.
func claimsOf(jwt string) (map[string]json.RawMessage, error) {
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 {
		return nil, errors.New("a token is no JWT")
	}
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	var claims map[string]json.RawMessage
	if err != nil || json.Unmarshal(b, &claims) != nil {
		return nil, errors.New("a token is no JWT")
	}
	return claims, nil
}

// farOff is when a placeholder ends: no tool refreshes before it.
var farOff = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

// begin is what the placeholder of t begins with. real is the token that it stands for; of a JWT only the listed
// claims are said again.
func (t token) begin(real string) string {
	if !t.JWT {
		if t.Begin != "" {
			return t.Begin
		}
		return "sallyport-"
	}
	claims := map[string]json.RawMessage{"exp": json.RawMessage(fmt.Sprint(farOff.Unix()))}
	if own, err := claimsOf(real); err == nil {
		for _, name := range t.Claims {
			if v, ok := own[name]; ok {
				claims[name] = v
			}
		}
	}
	b, _ := json.Marshal(claims) // raw JSON that was read as JSON
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + base64.RawURLEncoding.EncodeToString(b) + "."
}

// Files are what the tools of this Attempt's logins find inside, by absolute path below home: the login's file with
// placeholders for all tokens and an end that is far off. It holds nothing else of the file outside than what the
// login's data lists. Errors as for Value.
func (s *Set) Files(key string, attempt sallyport.AttemptID, home string) (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, name := range s.Names() {
		e := s.named[name]
		if e.Source.Login == "" {
			continue
		}
		l, err := loginNamed(e.Source.Login, s.deps.Logins)
		if err != nil {
			return nil, err
		}
		st, err := l.look(name, l.path(s.deps.Home, s.deps.Getenv))
		if err != nil {
			return nil, err
		}
		b, err := l.inside(key, attempt, e.Credential, st.doc)
		if err != nil {
			return nil, failure(sallyport.CodeInvalid, name, err.Error(), "")
		}
		out[filepath.Join(home, l.File)] = b
	}
	return out, nil
}

func (l login) inside(key string, attempt sallyport.AttemptID, c sallyport.Credential, doc []byte) ([]byte, error) {
	root := map[string]any{}
	for _, path := range l.Keep {
		v, err := get[any](doc, path)
		if errors.Is(err, errAbsent) {
			continue
		}
		if err == nil {
			err = put(root, path, v)
		}
		if err != nil {
			return nil, err
		}
	}
	put := func(path []string, v any) error { return put(root, path, v) }
	errs := []error{put(l.Access.Path, l.Access.begin("")+tag(key, attempt, c, ""))}
	for _, t := range append([]token{l.Refresh}, l.Others...) {
		real, err := get[string](doc, t.Path)
		if errors.Is(err, errAbsent) {
			continue
		}
		errs = append(errs, err, put(t.Path, t.begin(real)+tag(key, attempt, c, strings.Join(t.Path, "."))))
	}
	if len(l.Expires) > 0 {
		errs = append(errs, put(l.Expires, farOff.UnixMilli()))
	}
	if len(l.RefreshedAt) > 0 {
		errs = append(errs, put(l.RefreshedAt, farOff.Format(time.RFC3339)))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(root)
	return b.Bytes(), err
}

// put sets a value below object after object.
func put(root map[string]any, path []string, v any) error {
	for _, key := range path[:len(path)-1] {
		next, ok := root[key].(map[string]any)
		if !ok {
			if root[key] != nil {
				return fmt.Errorf("%s: is no object", strings.Join(path, "."))
			}
			next = map[string]any{}
			root[key] = next
		}
		root = next
	}
	root[path[len(path)-1]] = v
	return nil
}

// OwnLogins is the folder whose files replace the data of built-in logins; nil where there is none.
func OwnLogins(configDir string) fs.FS {
	dir := filepath.Join(configDir, "sallyport", "logins")
	if fi, err := os.Stat(dir); err != nil || !fi.IsDir() {
		return nil
	}
	return os.DirFS(dir)
}
