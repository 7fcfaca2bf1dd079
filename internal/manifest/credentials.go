package manifest

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/egress"
	"sallyport.dev/sallyport/internal/pattern"
)

// DefaultCredentialTimeout is how long a credential's command may run when its definition says nothing. A password
// manager that asks for a touch or a word needs longer, and is told so.
const DefaultCredentialTimeout = 10 * time.Second

const (
	maxCredentialTimeout = 5 * time.Minute
	maxCredentialHosts   = 32
	maxRepositories      = 500 // GitHub's own bound for one token
)

// Logins are the subscription logins that `login:` takes.
func Logins() []string { return []string{"claude-code", "codex"} }

// credentialFile is one definition: config.yaml and policy.yaml alone have them. Other files give names.
type credentialFile struct {
	Name   credentialName    `yaml:"name,required" doc:"What sallyport.yaml, a work order and --credential call it."`
	From   credentialFrom    `yaml:"from,required" doc:"Where the secret is read when it is needed; exactly one of env, file, command, github-app and login."`
	Host   *credentialHost   `yaml:"host" doc:"The host that it is for. Exactly one of host and hosts."`
	Hosts  *[]credentialHost `yaml:"hosts" doc:"The hosts that it is for."`
	Header *headerName       `yaml:"header" doc:"The request header that carries it. Exactly one of header, basic and query."`
	Prefix *headerPrefix     `yaml:"prefix" doc:"What stands before it in the header: 'Bearer '."`
	Basic  *basicUser        `yaml:"basic" doc:"The user name of basic authentication; the secret is the password."`
	Query  *queryName        `yaml:"query" doc:"The query parameter that carries it."`
	Env    *insideVariable   `yaml:"env" doc:"The agent's variable that holds the placeholder."`
	File   *insideFile       `yaml:"file" doc:"The agent's file that holds the placeholder, and nothing else."`
	Begin  *placeholderBegin `yaml:"placeholder-prefix" doc:"What the placeholder begins with, for tools that look: npm_."`
}

type credentialFrom struct {
	Env       *sourceVariable `yaml:"env" doc:"A variable of your environment."`
	File      *sourceFile     `yaml:"file" doc:"A file of yours that nobody else can read; its whole text is the secret."`
	Command   *[]argument     `yaml:"command" doc:"A program and its arguments, run without a shell; what it prints is the secret."`
	Timeout   *duration       `yaml:"timeout" doc:"How long command may run; omitted: 10s."`
	GitHubApp *githubAppFile  `yaml:"github-app" doc:"A read-only installation token, minted for each Attempt and revoked at its end."`
	Login     *loginName      `yaml:"login" doc:"The login file of a subscription: claude-code or codex."`
}

type githubAppFile struct {
	App          appID             `yaml:"app,required" doc:"The App's client id or id."`
	Installation installationID    `yaml:"installation,required" doc:"The installation's id: the number in its settings' URL."`
	Key          sourceFile        `yaml:"key,required" doc:"The App's private key, a PEM file of yours."`
	Repositories *[]repositoryName `yaml:"repositories,required" doc:"Names of repositories, without their owner."`
	Permissions  *permissionMap    `yaml:"permissions" doc:"Permissions by name, each of them read; omitted: contents and metadata."`
	URL          *apiURL           `yaml:"url" doc:"The API of a GitHub Enterprise Server; omitted: https://api.github.com."`
}

type (
	credentialName   string
	credentialHost   string
	headerName       string
	headerPrefix     string
	basicUser        string
	queryName        string
	insideVariable   string
	insideFile       string
	placeholderBegin string
	sourceVariable   string
	sourceFile       string
	loginName        string
	appID            string
	installationID   int64
	repositoryName   string
	permissionMap    map[string]string
	apiURL           string
)

var (
	credentialForm  = pattern.New(`^[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?$`)
	headerForm      = pattern.New(`^[a-z0-9][a-z0-9-]{0,63}$`)
	queryForm       = pattern.New(`^[A-Za-z0-9][A-Za-z0-9._~-]{0,63}$`)
	variableForm    = pattern.New(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	beginForm       = pattern.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$`)
	appForm         = pattern.New(`^[A-Za-z0-9.]{1,64}$`)
	repositoryForm  = pattern.New(`^[A-Za-z0-9._-]{1,100}$`)
	permissionForm  = pattern.New(`^[a-z][a-z_]{0,63}$`)
	visibleForm     = pattern.New(`^[!-~](?:[ -~]{0,62}[!-~])?$`)
	prefixForm      = pattern.New(`^[!-~][ -~]{0,63}$`)
	framingHeaders  = []string{"host", "content-length", "content-type", "content-encoding", "transfer-encoding", "connection", "upgrade", "te", "trailer", "expect", "keep-alive", "cookie", "accept", "accept-encoding", "via", "forwarded"}
	notABearerValue = []string{"proxy-", "sec-", "x-forwarded-"}
)

// ownVariables are what a command gets whatever the Manifest says.
var ownVariables = []string{"TMPDIR", "LANG", "USER", "LOGNAME", "TERM", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"}

func (v *credentialName) want() string {
	return "a name of at most 64 lower-case letters, digits and inner dashes such as npm-token"
}
func (v *credentialName) read(r *reader, n ast.Node, _ string) error {
	return leaf(r, n, v, v.want(), credentialRule)
}
func (v *credentialName) schema() object {
	return object{"type": "string", "pattern": credentialForm.String()}
}

func credentialRule(s string) string {
	return unless(!credentialForm.MatchString(s), (*credentialName)(nil).want())
}

func (v *credentialHost) want() string { return "a host's name in lower case, without a wildcard" }
func (v *credentialHost) read(r *reader, n ast.Node, _ string) error {
	return leaf(r, n, v, v.want(), func(s string) string {
		name, err := egress.Host(s)
		// A certificate speaks for a name: with an address nothing would say who is there.
		return unless(err != nil || name.IsAddr() || name.String() != s, v.want())
	})
}
func (v *credentialHost) schema() object {
	return object{"type": "string", "minLength": 1, "maxLength": 253}
}

func (v *headerName) want() string {
	return `a header's name in lower case such as authorization or x-api-key`
}
func (v *headerName) read(r *reader, n ast.Node, _ string) error {
	return leaf(r, n, v, v.want(), func(s string) string {
		if !headerForm.MatchString(s) {
			return v.want()
		}
		begins := func(p string) bool { return strings.HasPrefix(s, p) }
		return unless(slices.Contains(framingHeaders, s) || slices.ContainsFunc(notABearerValue, begins), "another header: "+s+" says how a request is sent or by whom")
	})
}
func (v *headerName) schema() object { return object{"type": "string", "pattern": headerForm.String()} }

func (v *headerPrefix) want() string {
	return `at most 64 printable ASCII characters that do not begin with a space such as "Bearer "`
}
func (v *headerPrefix) read(r *reader, n ast.Node, _ string) error {
	return leaf(r, n, v, v.want(), func(s string) string { return unless(!prefixForm.MatchString(s), v.want()) })
}
func (v *headerPrefix) schema() object {
	return object{"type": "string", "pattern": prefixForm.String()}
}

func (v *basicUser) want() string {
	return "a user name of at most 64 printable ASCII characters without a colon"
}
func (v *basicUser) read(r *reader, n ast.Node, _ string) error {
	return leaf(r, n, v, v.want(), func(s string) string {
		return unless(!visibleForm.MatchString(s) || strings.Contains(s, ":"), v.want())
	})
}
func (v *basicUser) schema() object {
	return object{"type": "string", "minLength": 1, "maxLength": 64, "pattern": `^[^:]+$`}
}

func (v *queryName) want() string { return "the name of a query parameter such as key" }
func (v *queryName) read(r *reader, n ast.Node, _ string) error {
	return leaf(r, n, v, v.want(), func(s string) string { return unless(!queryForm.MatchString(s), v.want()) })
}
func (v *queryName) schema() object { return object{"type": "string", "pattern": queryForm.String()} }

func (v *insideVariable) want() string { return "a variable's name such as NPM_TOKEN" }
func (v *insideVariable) read(r *reader, n ast.Node, _ string) error {
	return leaf(r, n, v, v.want(), func(s string) string {
		if slices.Contains(ownVariables, s) {
			return "another variable: " + s + " is set by Sallyport"
		}
		return envNameRule(s)
	})
}
func (v *insideVariable) schema() object {
	return object{"type": "string", "pattern": envForm.String()}
}

func (v *insideFile) want() string {
	return "the path of a file below the home folder such as ~/.config/tool/token"
}
func (v *insideFile) read(r *reader, n ast.Node, _ string) error {
	return leaf(r, n, v, v.want(), func(s string) string { return unless(!pathForm(s), v.want()) })
}
func (v *insideFile) schema() object { return pathSchema() }

func (v *placeholderBegin) want() string {
	return "at most 32 letters, digits, dots, dashes and underscores such as npm_"
}
func (v *placeholderBegin) read(r *reader, n ast.Node, _ string) error {
	return leaf(r, n, v, v.want(), func(s string) string { return unless(!beginForm.MatchString(s), v.want()) })
}
func (v *placeholderBegin) schema() object {
	return object{"type": "string", "pattern": beginForm.String()}
}

func (v *sourceVariable) want() string { return "the name of a variable of your environment" }
func (v *sourceVariable) read(r *reader, n ast.Node, _ string) error {
	return leaf(r, n, v, v.want(), func(s string) string { return unless(!variableForm.MatchString(s), v.want()) })
}
func (v *sourceVariable) schema() object {
	return object{"type": "string", "pattern": variableForm.String()}
}

func (v *sourceFile) want() string { return "an absolute path or one below ~/, without .." }
func (v *sourceFile) read(r *reader, n ast.Node, _ string) error {
	return leaf(r, n, v, v.want(), func(s string) string { return unless(!pathForm(s), v.want()) })
}
func (v *sourceFile) schema() object { return pathSchema() }

func pathSchema() object {
	return object{"type": "string", "minLength": 2, "maxLength": 1024, "pattern": "^(/|~/)"}
}

// pathForm is a clean path, absolute or below the home folder.
func pathForm(s string) bool {
	rest, home := strings.CutPrefix(s, "~/")
	abs := s
	if home {
		abs = "/" + rest
	}
	return path.IsAbs(abs) && path.Clean(abs) == abs && abs != "/" && len(s) <= 1024 && printable(s)
}

func (v *loginName) want() string                               { return "one of " + listed(Logins()) }
func (v *loginName) read(r *reader, n ast.Node, _ string) error { return oneOf(r, n, v, Logins()) }
func (v *loginName) schema() object                             { return enumSchema(Logins()) }

func (v *appID) want() string { return "the App's client id or id" }
func (v *appID) read(r *reader, n ast.Node, _ string) error {
	if i, ok := whole(n, 1, 1<<53); ok {
		*v = appID(fmt.Sprint(i))
		return nil
	}
	return leaf(r, n, v, v.want(), func(s string) string { return unless(!appForm.MatchString(s), v.want()) })
}
func (v *appID) schema() object {
	return object{"oneOf": []object{{"type": "string", "pattern": appForm.String()}, {"type": "integer", "minimum": 1}}}
}

func (v *installationID) want() string { return "the installation's number" }
func (v *installationID) read(r *reader, n ast.Node, _ string) error {
	i, ok := whole(n, 1, 1<<53)
	if !ok {
		return r.expected(n, v.want())
	}
	*v = installationID(i)
	return nil
}
func (v *installationID) schema() object { return object{"type": "integer", "minimum": 1} }

func (v *repositoryName) want() string { return "a repository's name without its owner" }
func (v *repositoryName) read(r *reader, n ast.Node, _ string) error {
	return leaf(r, n, v, v.want(), func(s string) string {
		return unless(!repositoryForm.MatchString(s) || s == "." || s == "..", v.want())
	})
}
func (v *repositoryName) schema() object {
	return object{"type": "string", "pattern": repositoryForm.String()}
}

func (v *permissionMap) want() string { return "a mapping from permissions to read" }
func (v *permissionMap) read(r *reader, n ast.Node, field string) error {
	m, err := readMap(r, n, field, v.want(),
		func(name string) string {
			return unless(!permissionForm.MatchString(name), "a permission's name such as contents")
		},
		func(l readAccess) string { return string(l) })
	if err == nil && len(m) == 0 {
		return r.expected(n, "at least one permission")
	}
	*v = m
	return err
}
func (v *permissionMap) schema() object {
	return object{"type": "object", "minProperties": 1, "additionalProperties": enumSchema([]string{"read"})}
}

// readAccess is the one word that a permission may have: what can write is refused, not narrowed.
type readAccess string

func (v *readAccess) want() string { return "read: a token that can write is not given to an agent" }
func (v *readAccess) read(r *reader, n ast.Node, _ string) error {
	return leaf(r, n, v, v.want(), func(s string) string { return unless(s != "read", v.want()) })
}
func (v *readAccess) schema() object { return enumSchema([]string{"read"}) }

func (v *apiURL) want() string { return "an https URL such as https://github.example/api/v3" }
func (v *apiURL) read(r *reader, n ast.Node, _ string) error {
	return leaf(r, n, v, v.want(), func(s string) string { return unless(!apiForm(s), v.want()) })
}
func (v *apiURL) schema() object { return object{"type": "string", "pattern": "^https?://"} }

// apiForm is an https URL; http counts on this host only, where nobody else can listen in.
func apiForm(s string) bool {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.HasSuffix(s, "/") || !printable(s) {
		return false
	}
	a, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && err == nil && a.IsLoopback()
}

// credentialDefinitions turns what was read into what is frozen, and refuses what no single value shows.
func (r *reader) credentialDefinitions(list *[]credentialFile) ([]sallyport.Credential, error) {
	if list == nil {
		return nil, nil
	}
	out, seen := []sallyport.Credential{}, map[string]string{}
	for i, f := range *list {
		field := fmt.Sprintf("credentials[%d]", i)
		where := r.places.at(field + ".name")
		if first, twice := seen[string(f.Name)]; twice {
			return nil, invalid(where, fmt.Sprintf("a credential named %q is already defined at %s; expected another name", f.Name, first), "")
		}
		seen[string(f.Name)] = where
		c, err := r.credential(f, field)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

func (r *reader) credential(f credentialFile, field string) (c sallyport.Credential, err error) {
	c = sallyport.Credential{Name: string(f.Name)}
	at := func(part string) string { return r.places.at(field + part) }
	if c.Source, err = r.credentialSource(f.From, field+".from"); err != nil {
		return c, err
	}
	switch {
	case f.Host != nil && f.Hosts != nil:
		return c, invalid(at(".hosts"), "host and hosts are both set; expected exactly one of them", "")
	case f.Host != nil:
		c.Hosts = []string{string(*f.Host)}
	case f.Hosts == nil || len(*f.Hosts) == 0:
		return c, invalid(at(""), fmt.Sprintf("the credential %q names no host; it would never be used", f.Name), "add host: and the name of the host that asks for it")
	case len(*f.Hosts) > maxCredentialHosts:
		return c, invalid(at(".hosts"), fmt.Sprintf("expected at most %d hosts", maxCredentialHosts), "")
	default:
		if c.Hosts, err = r.unique(field+".hosts", plain(*f.Hosts)); err != nil {
			return c, err
		}
	}
	if said := count(f.Header != nil, f.Basic != nil, f.Query != nil); said != 1 {
		return c, invalid(at(""), fmt.Sprintf("expected exactly one of header, basic and query, found %d", said),
			`most APIs take header: authorization with prefix: "Bearer "`)
	}
	if f.Prefix != nil && f.Header == nil {
		return c, invalid(at(".prefix"), "a prefix stands before the secret in a header; expected header beside it", "")
	}
	if c.Source.Login != "" && (f.Env != nil || f.File != nil || f.Begin != nil) {
		return c, invalid(at(""), "the agent is given the login's own file with placeholders; expected neither env, file nor placeholder-prefix", "")
	}
	set(&c.Header, f.Header)
	set(&c.Prefix, f.Prefix)
	set(&c.Basic, f.Basic)
	set(&c.Query, f.Query)
	set(&c.Env, f.Env)
	set(&c.File, f.File)
	set(&c.PlaceholderPrefix, f.Begin)
	return c, nil
}

func (r *reader) credentialSource(f credentialFrom, field string) (s sallyport.CredentialSource, err error) {
	at := func(part string) string { return r.places.at(field + part) }
	if said := count(f.Env != nil, f.File != nil, f.Command != nil, f.GitHubApp != nil, f.Login != nil); said != 1 {
		return s, invalid(at(""), fmt.Sprintf("expected exactly one of env, file, command, github-app and login, found %d", said), "")
	}
	if f.Timeout != nil && (f.Command == nil || time.Duration(*f.Timeout) > maxCredentialTimeout) {
		return s, invalid(at(".timeout"), "expected a command, and at most 5m for it", "")
	}
	set(&s.Env, f.Env)
	set(&s.File, f.File)
	set(&s.Login, f.Login)
	if f.Command != nil {
		if len(*f.Command) == 0 || (*f.Command)[0] == "" {
			return s, invalid(at(".command"), "expected a program and its arguments", "")
		}
		s.Command, s.Timeout = plain(*f.Command), DefaultCredentialTimeout
		if f.Timeout != nil {
			s.Timeout = time.Duration(*f.Timeout)
		}
	}
	if f.GitHubApp != nil {
		s.GitHubApp, err = r.githubApp(*f.GitHubApp, field+".github-app")
	}
	return s, err
}

func (r *reader) githubApp(f githubAppFile, field string) (*sallyport.GitHubApp, error) {
	app := &sallyport.GitHubApp{App: string(f.App), Installation: int64(f.Installation), KeyFile: string(f.Key),
		Permissions: map[string]string{"contents": "read", "metadata": "read"}}
	if n := len(*f.Repositories); n == 0 || n > maxRepositories {
		return nil, invalid(r.places.at(field+".repositories"), fmt.Sprintf("expected 1 to %d repositories, found %d: a token without a list reaches all of them", maxRepositories, n), "")
	}
	var err error
	if app.Repositories, err = r.unique(field+".repositories", plain(*f.Repositories)); err != nil {
		return nil, err
	}
	if f.Permissions != nil {
		app.Permissions = *f.Permissions
	}
	set(&app.BaseURL, f.URL)
	return app, nil
}

func count(said ...bool) (n int) {
	for _, s := range said {
		if s {
			n++
		}
	}
	return n
}

// credentials are those that the repository asks for (granted: checkGrants), narrowed by the work order, and those
// that the user lends by flag; each as its operator defines it. nil: none.
func (c *compiler) credentials(rules []sallyport.EgressRule, env map[string]string, home string) ([]sallyport.Credential, error) {
	defined, err := c.defined()
	if err != nil {
		return nil, err
	}
	var policy []string
	if rep := c.in.Repository; rep != nil {
		policy = rep.Credentials
		for i, name := range policy {
			if _, ok := defined[name]; !ok {
				return nil, notDefined(rep.Places.at(fmt.Sprintf("credentials[%d]", i)), name)
			}
		}
	}
	names := policy
	if order := c.in.WorkOrder.Credentials; order != nil {
		names = *order
		for i, name := range names {
			if !slices.Contains(policy, name) {
				return nil, denied(c.in.Places.at(fmt.Sprintf("credentials[%d]", i)), fmt.Sprintf("the agent may not use the credential %q by policy; a work order can only narrow", name),
					"lend it by --credential "+name)
			}
		}
	}
	for _, name := range c.in.WorkOrder.Lend {
		if err := c.mayLend(name, policy, defined); err != nil {
			return nil, err
		}
	}
	var out []sallyport.Credential
	for _, name := range union(names, c.in.WorkOrder.Lend) {
		out = append(out, cloneCredential(defined[name].Credential))
	}
	return out, c.together(out, defined, rules, env, home)
}

// definition is a credential and where an operator wrote it.
type definition struct {
	sallyport.Credential
	at string
}

func (c *compiler) defined() (map[string]definition, error) {
	out := map[string]definition{}
	for _, op := range []*Operator{c.in.Ceiling, c.in.User} {
		if op == nil {
			continue
		}
		for i, k := range op.Credentials {
			where := op.Places.at(fmt.Sprintf("credentials[%d].name", i))
			if first, twice := out[k.Name]; twice {
				return nil, invalid(where, fmt.Sprintf("the credential %q is defined at %s as well; expected another name", k.Name, first.at), "")
			}
			out[k.Name] = definition{k, where}
		}
	}
	return out, nil
}

func notDefined(where, name string) error {
	return invalid(where, fmt.Sprintf("no credential %q is defined on this machine", name),
		"define it in your config.yaml under credentials:, with name, from, host and header (or basic, query)")
}

// mayLend takes the user's own word where nobody forbids it. The subject is the flag.
func (c *compiler) mayLend(name string, policy []string, defined map[string]definition) error {
	where := c.in.Places.at("lend")
	if want := credentialRule(name); want != "" {
		return c.wrong("lend", name, want)
	}
	k, ok := defined[name]
	switch {
	case !ok:
		return notDefined(where, name)
	case slices.Contains(policy, name):
		return nil
	case c.forbidden() != "":
		return denied(where, fmt.Sprintf("the credential %q goes beyond policy, and the policy at %s forbids grants", name, c.forbidden()), "ask the operator")
	}
	c.note("the agent's requests to %s carry the credential %s: granted by flag", strings.Join(k.Hosts, ", "), name)
	return nil
}

// together refuses credentials that would not be used, or that could be taken for each other.
func (c *compiler) together(list []sallyport.Credential, defined map[string]definition, rules []sallyport.EgressRule, env map[string]string, home string) error {
	taken := map[string]string{}
	take := func(k sallyport.Credential, kind, value string) error {
		key := kind + " " + value
		if other, twice := taken[key]; twice {
			return invalid(defined[k.Name].at, fmt.Sprintf("the credentials %s and %s are both for the %s %s; expected one", other, k.Name, kind, value),
				"leave one of them out of this run, or give it another "+kind)
		}
		taken[key] = k.Name
		return nil
	}
	for _, k := range list {
		where := defined[k.Name].at
		for _, host := range k.Hosts {
			if !overTLS(rules, host) {
				return invalid(where, fmt.Sprintf("the credential %q is for %s, which no https or git rule of egress lists; nothing could be sent there", k.Name, host),
					fmt.Sprintf("add {host: %s} to egress:, or leave the credential out", host))
			}
			if err := take(k, "host", host); err != nil {
				return err
			}
		}
		if k.Source.Login != "" {
			if err := take(k, "login", k.Source.Login); err != nil {
				return err
			}
		}
		if k.Env != "" {
			if _, also := env[k.Env]; also {
				return invalid(where, fmt.Sprintf("the credential %q puts its placeholder into %s, which env sets as well", k.Name, k.Env), "take the variable out of env:")
			}
			if _, also := c.in.Agent.Env[k.Env]; also {
				return invalid(where, fmt.Sprintf("the credential %q puts its placeholder into %s, which the agent %s needs for its model", k.Name, k.Env, c.in.Agent.Name), "give it another variable")
			}
			if err := take(k, "variable", k.Env); err != nil {
				return err
			}
		}
		if k.File != "" {
			inside := InHome(home, k.File)
			if !strings.HasPrefix(inside, home+"/") {
				return invalid(where, fmt.Sprintf("the credential %q puts its placeholder into %s; expected a path below the home folder", k.Name, k.File), "write it as ~/ and the rest")
			}
			if err := take(k, "file", inside); err != nil {
				return err
			}
		}
	}
	return nil
}

// overTLS says that host is listed by a rule under which the gateway sees the certificate that speaks for it.
func overTLS(rules []sallyport.EgressRule, host string) bool {
	name, err := egress.Host(host)
	return err == nil && slices.ContainsFunc(rules, func(r sallyport.EgressRule) bool {
		return (r.Protocol == egress.HTTPS || r.Protocol == egress.Git) && egress.Listed([]egress.Rule{r}, name)
	})
}

// InHome is a path of a Credential with "~/" replaced by the home folder.
func InHome(home, p string) string {
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		return path.Join(home, rest)
	}
	return p
}

func cloneCredential(k sallyport.Credential) sallyport.Credential {
	k.Hosts = slices.Clone(k.Hosts)
	k.Source.Command = slices.Clone(k.Source.Command)
	if k.Source.GitHubApp != nil {
		app := *k.Source.GitHubApp
		app.Repositories, app.Permissions = slices.Clone(app.Repositories), maps.Clone(app.Permissions)
		k.Source.GitHubApp = &app
	}
	return k
}
