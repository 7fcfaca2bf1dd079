package manifest

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport"
)

// every source and every place in a request, once.
const everyCredential = `credentials:
- {name: npm-token, from: {env: NPM_TOKEN}, host: a.example, header: authorization, prefix: "Bearer ", env: NPM_TOKEN, placeholder-prefix: npm_}
- {name: search, from: {file: ~/.keys/search}, hosts: [b.example, c.example], query: key, file: ~/.config/search/key}
- {name: mirror, from: {command: [pass, show, mirror], timeout: 1m}, host: d.example, basic: ann}
- {name: quick, from: {command: [pass]}, host: e.example, header: x-api-key}
- name: forge
  from: {github-app: {app: 12345, installation: 678, key: /home/ann/app.pem, repositories: [one, two]}}
  host: f.example
  basic: x-access-token
- name: wide
  from: {github-app: {app: Iv1.abc, installation: 1, key: ~/app.pem, repositories: [one], permissions: {issues: read}, url: "https://forge.example/api/v3"}}
  host: g.example
  header: authorization
- {name: claude, from: {login: claude-code}, host: h.example, header: authorization, prefix: "Bearer "}
`

func TestCredentialDefinitions(t *testing.T) {
	op := operator(t, "config.yaml", everyCredential)
	want := []sallyport.Credential{
		{Name: "npm-token", Source: sallyport.CredentialSource{Env: "NPM_TOKEN"}, Hosts: []string{"a.example"}, Header: "authorization", Prefix: "Bearer ", Env: "NPM_TOKEN", PlaceholderPrefix: "npm_"},
		{Name: "search", Source: sallyport.CredentialSource{File: "~/.keys/search"}, Hosts: []string{"b.example", "c.example"}, Query: "key", File: "~/.config/search/key"},
		{Name: "mirror", Source: sallyport.CredentialSource{Command: []string{"pass", "show", "mirror"}, Timeout: time.Minute}, Hosts: []string{"d.example"}, Basic: "ann"},
		{Name: "quick", Source: sallyport.CredentialSource{Command: []string{"pass"}, Timeout: 10 * time.Second}, Hosts: []string{"e.example"}, Header: "x-api-key"},
		{Name: "forge", Source: sallyport.CredentialSource{GitHubApp: &sallyport.GitHubApp{App: "12345", Installation: 678, KeyFile: "/home/ann/app.pem", Repositories: []string{"one", "two"},
			Permissions: map[string]string{"contents": "read", "metadata": "read"}}}, Hosts: []string{"f.example"}, Basic: "x-access-token"},
		{Name: "wide", Source: sallyport.CredentialSource{GitHubApp: &sallyport.GitHubApp{App: "Iv1.abc", Installation: 1, KeyFile: "~/app.pem", Repositories: []string{"one"},
			Permissions: map[string]string{"issues": "read"}, BaseURL: "https://forge.example/api/v3"}}, Hosts: []string{"g.example"}, Header: "authorization"},
		{Name: "claude", Source: sallyport.CredentialSource{Login: "claude-code"}, Hosts: []string{"h.example"}, Header: "authorization", Prefix: "Bearer "},
	}
	if !reflect.DeepEqual(op.Credentials, want) {
		t.Errorf("got  %+v\nwant %+v", op.Credentials, want)
	}
}

func TestWrongCredentials(t *testing.T) {
	const def = "version: 1\ncredentials:\n- "
	long := strings.Repeat("a", 65)
	for _, w := range []struct{ entry, subject, message string }{
		{`x`, "3:3", `expected a mapping with name, from, host, hosts, header, prefix, basic, query, env, file, placeholder-prefix, found "x"`},
		{`{from: {env: A}}`, "3:3", `"name" is missing; expected a name of at most 64 lower-case letters, digits and inner dashes such as npm-token`},
		{`{name: a, host: a.example, header: a}`, "3:3", `"from" is missing; expected a mapping with env, file, command, timeout, github-app, login`},
		{`{name: A, from: {env: A}}`, "3:10", `expected a name of at most 64 lower-case letters, digits and inner dashes such as npm-token, found "A"`},
		{`{name: a-, from: {env: A}}`, "3:10", `expected a name of at most 64 lower-case letters, digits and inner dashes such as npm-token, found "a-"`},
		{`{name: ` + long + `, from: {env: A}}`, "3:10", `expected a name of at most 64 lower-case letters, digits and inner dashes such as npm-token, found "` + long[:60] + `…"`},
		{`{name: a, from: {}, host: a.example, header: a}`, "3:19", `expected exactly one of env, file, command, github-app and login, found 0`},
		{`{name: a, from: {env: A, file: /a}, host: a.example, header: a}`, "3:19", `expected exactly one of env, file, command, github-app and login, found 2`},
		{`{name: a, from: {env: A=B}, host: a.example, header: a}`, "3:25", `expected the name of a variable of your environment, found "A=B"`},
		{`{name: a, from: {file: a}, host: a.example, header: a}`, "3:26", `expected an absolute path or one below ~/, without .., found "a"`},
		{`{name: a, from: {file: ~/../a}, host: a.example, header: a}`, "3:26", `expected an absolute path or one below ~/, without .., found "~/../a"`},
		{`{name: a, from: {command: pass}, host: a.example, header: a}`, "3:29", `expected a list, found "pass"`},
		{`{name: a, from: {command: []}, host: a.example, header: a}`, "3:29", `expected a program and its arguments`},
		{`{name: a, from: {env: A, timeout: 5s}, host: a.example, header: a}`, "3:37", `expected a command, and at most 5m for it`},
		{`{name: a, from: {command: [a], timeout: 6m}, host: a.example, header: a}`, "3:43", `expected a command, and at most 5m for it`},
		{`{name: a, from: {login: gemini}, host: a.example, header: a}`, "3:27", `expected one of claude-code, codex, found "gemini"`},
		{`{name: a, from: {env: A}, header: a}`, "3:3", `the credential "a" names no host; it would never be used`},
		{`{name: a, from: {env: A}, hosts: [], header: a}`, "3:3", `the credential "a" names no host; it would never be used`},
		{`{name: a, from: {env: A}, host: a.example, hosts: [b.example], header: a}`, "3:53", `host and hosts are both set; expected exactly one of them`},
		{`{name: a, from: {env: A}, host: "*.a.example", header: a}`, "3:35", `expected a host's name in lower case, without a wildcard, found "*.a.example"`},
		{`{name: a, from: {env: A}, host: A.example, header: a}`, "3:35", `expected a host's name in lower case, without a wildcard, found "A.example"`},
		{`{name: a, from: {env: A}, host: 192.0.2.1, header: a}`, "3:35", `expected a host's name in lower case, without a wildcard, found "192.0.2.1"`},
		{`{name: a, from: {env: A}, host: a.example}`, "3:3", `expected exactly one of header, basic and query, found 0`},
		{`{name: a, from: {env: A}, host: a.example, header: a, query: b}`, "3:3", `expected exactly one of header, basic and query, found 2`},
		{`{name: a, from: {env: A}, host: a.example, query: b, prefix: c}`, "3:64", `a prefix stands before the secret in a header; expected header beside it`},
		{`{name: a, from: {env: A}, host: a.example, header: Host}`, "3:54", `expected a header's name in lower case such as authorization or x-api-key, found "Host"`},
		{`{name: a, from: {env: A}, host: a.example, header: host}`, "3:54", `expected another header: host says how a request is sent or by whom, found "host"`},
		{`{name: a, from: {env: A}, host: a.example, header: proxy-authorization}`, "3:54", `expected another header: proxy-authorization says how a request is sent or by whom, found "proxy-authorization"`},
		{`{name: a, from: {env: A}, host: a.example, header: a, prefix: "x\r\ny"}`, "3:65", `expected at most 64 printable ASCII characters that do not begin with a space such as "Bearer ", found "x\r\ny"`},
		{`{name: a, from: {env: A}, host: a.example, basic: "a:b"}`, "3:53", `expected a user name of at most 64 printable ASCII characters without a colon, found "a:b"`},
		{`{name: a, from: {env: A}, host: a.example, query: "a&b"}`, "3:53", `expected the name of a query parameter such as key, found "a&b"`},
		{`{name: a, from: {env: A}, host: a.example, query: a, env: LD_PRELOAD}`, "3:61", `expected another variable: names that begin with LD_ are refused, found "LD_PRELOAD"`},
		{`{name: a, from: {env: A}, host: a.example, query: a, env: HTTPS_PROXY}`, "3:61", `expected another variable: HTTPS_PROXY is set by Sallyport, found "HTTPS_PROXY"`},
		{`{name: a, from: {env: A}, host: a.example, query: a, file: etc/x}`, "3:62", `expected the path of a file below the home folder such as ~/.config/tool/token, found "etc/x"`},
		{`{name: a, from: {login: codex}, host: a.example, header: a, env: A}`, "3:3", `the agent is given the login's own file with placeholders; expected neither env, file nor placeholder-prefix`},
		{`{name: a, from: {env: A}, host: a.example, header: a, secret: x}`, "3:57", `unknown key "secret"; expected one of name, from, host, hosts, header, prefix, basic, query, env, file, placeholder-prefix`},
		{`{name: a, from: {github-app: {app: 1, installation: 1, key: /k}}, host: a.example, header: a}`, "3:32", `"repositories" is missing; expected a list`},
		{`{name: a, from: {github-app: {app: 1, installation: 1, key: /k, repositories: []}}, host: a.example, header: a}`, "3:81", `expected 1 to 500 repositories, found 0: a token without a list reaches all of them`},
		{`{name: a, from: {github-app: {app: 1, installation: 1, key: /k, repositories: [o/r]}}, host: a.example, header: a}`, "3:82", `expected a repository's name without its owner, found "o/r"`},
		{`{name: a, from: {github-app: {app: 1, installation: 1, key: /k, repositories: [r], permissions: {contents: write}}}, host: a.example, header: a}`, "3:110", `expected read: a token that can write is not given to an agent, found "write"`},
		{`{name: a, from: {github-app: {app: 1, installation: 1, key: /k, repositories: [r], permissions: {}}}, host: a.example, header: a}`, "3:99", `expected at least one permission, found a mapping`},
		{`{name: a, from: {github-app: {app: 1, installation: x, key: /k, repositories: [r]}}, host: a.example, header: a}`, "3:55", `expected the installation's number, found "x"`},
		{`{name: a, from: {github-app: {app: 1, installation: 1, key: /k, repositories: [r], url: "http://forge.example"}}, host: a.example, header: a}`, "3:91", `expected an https URL such as https://github.example/api/v3, found "http://forge.example"`},
		{"{name: a, from: {env: A}, host: a.example, header: a}\n- {name: a, from: {env: B}, host: b.example, header: a}", "4:10", `a credential named "a" is already defined at config.yaml:3:10; expected another name`},
	} {
		_, err := ParseOperator("config.yaml", []byte(def+w.entry+"\n"))
		var e *sallyport.Error
		if !errors.As(err, &e) || e.Code != sallyport.CodeInvalid || e.Subject != "config.yaml:"+w.subject || e.Message != w.message {
			t.Errorf("%s:\n got %v\nwant config.yaml:%s: %s", w.entry, err, w.subject, w.message)
		}
	}
	for _, w := range []struct{ file, subject, message string }{
		{"credentials: npm\n", "s:2:14", `expected a list, found "npm"`},
		{"credentials: [a, a]\n", "s:2:18", `"a" is in the list already; expected it once`},
		{"credentials:\n- {name: a, from: {env: A}, host: a.example, header: a}\n", "s:3:3", `expected a name of at most 64 lower-case letters, digits and inner dashes such as npm-token, found a mapping`},
	} {
		_, err := ParseRepository("s", []byte("version: 1\n"+w.file))
		var e *sallyport.Error
		if !errors.As(err, &e) || e.Subject != w.subject || e.Message != w.message {
			t.Errorf("%q:\n got %v\nwant %s: %s", w.file, err, w.subject, w.message)
		}
	}
}

// TestCredentialsCompile: a repository asks by name, a person grants or lends, and every binding is whole.
func TestCredentialsCompile(t *testing.T) {
	const etc = "/etc/sallyport/policy.yaml"
	rule := func(hosts ...string) string {
		lines := []string{}
		for _, h := range hosts {
			lines = append(lines, fmt.Sprintf(`{host: %q, methods: ["*"], own-auth: true}`, h))
		}
		return "egress: [" + strings.Join(lines, ", ") + "]\n"
	}
	define := func(name, host, more string) string {
		return fmt.Sprintf("- {name: %s, from: {env: T}, host: %s, header: authorization%s}\n", name, host, more)
	}
	config := rule("*.corp.example") + "credentials:\n" + define("one", "a.corp.example", ", env: ONE") + define("two", "b.corp.example", "") + define("same", "a.corp.example", "")
	with := func(rep, user string) Input {
		var in Input
		if rep == "" {
			in = input(nil)
		} else {
			in = input(repository(t, rep))
		}
		in.User = operator(t, "config.yaml", user)
		return in
	}
	lend := func(names ...string) sallyport.WorkOrder { return sallyport.WorkOrder{Lend: names} }
	for _, w := range []struct {
		name string
		in   Input
		want string // names, or the error
		code sallyport.Code
	}{
		{"defined and not asked for", with("", config), "", 0},
		{"asked for and granted", with("credentials: [one, two]\n", config), "one two", 0},
		{"asked for and not granted", func() Input {
			in := with("credentials:\n- one\n", config)
			in.Granted = ""
			return in
		}(), "sallyport.yaml:3:3 the repository asks for credential one, which nobody has granted", sallyport.CodeDenied},
		{"granted for another name", func() Input {
			in := with("credentials:\n- one\n", config)
			in.Granted = AsksDigest(*repository(t, "credentials: [two]\n"))
			return in
		}(), "sallyport.yaml:3:3 the repository asks for credential one, which nobody has granted", sallyport.CodeDenied},
		{"asked for where nobody defines it", with("credentials:\n- one\n- nine\n", config), `sallyport.yaml:4:3 no credential "nine" is defined on this machine`, sallyport.CodeInvalid},
		{"lent", flags(with("", config), lend("two")), "two", 0},
		{"lent beside what is asked", flags(with("credentials: [one]\n", config), lend("two", "one")), "one two", 0},
		{"lent and nowhere defined", flags(with("", config), lend("nine")), `flag credential no credential "nine" is defined on this machine`, sallyport.CodeInvalid},
		{"lent where grants are forbidden", func() Input {
			in := flags(with("", config), lend("one"))
			in.Ceiling = operator(t, etc, "grants: forbid\n")
			return in
		}(), `flag credential the credential "one" goes beyond policy, and the policy at ` + etc + ":2:9 forbids grants", sallyport.CodeDenied},
		{"narrowed", order(t, with("credentials: [one, two]\n", config), "credentials: [two]\n"), "two", 0},
		{"narrowed to nothing", order(t, with("credentials: [one, two]\n", config), "credentials: []\n"), "", 0},
		{"widened by a work order", order(t, with("credentials: [one]\n", config), "credentials: [two]\n"), `w.yaml:3:15 the agent may not use the credential "two" by policy; a work order can only narrow`, sallyport.CodeDenied},
		{"the operator defines", func() Input {
			in := flags(with("", rule("c.corp.example")), lend("host-wide"))
			in.Ceiling = operator(t, etc, "credentials:\n"+define("host-wide", "c.corp.example", ""))
			return in
		}(), "host-wide", 0},
		{"two files define one name", func() Input {
			in := flags(with("", config), lend("one"))
			in.Ceiling = operator(t, etc, "credentials:\n"+define("one", "c.corp.example", ""))
			return in
		}(), `config.yaml:4:10 the credential "one" is defined at ` + etc + `:3:10 as well; expected another name`, sallyport.CodeInvalid},
		{"its host is not listed", flags(with("", "credentials:\n"+define("one", "a.corp.example", "")), lend("one")), `config.yaml:3:10 the credential "one" is for a.corp.example, which no https or git rule of egress lists; nothing could be sent there`, sallyport.CodeInvalid},
		{"its host is listed without TLS", flags(with("", "egress: [{host: a.corp.example, protocol: http}]\ncredentials:\n"+define("one", "a.corp.example", "")), lend("one")),
			`config.yaml:4:10 the credential "one" is for a.corp.example, which no https or git rule of egress lists; nothing could be sent there`, sallyport.CodeInvalid},
		{"two for one host", flags(with("", config), lend("one", "same")), `config.yaml:6:10 the credentials one and same are both for the host a.corp.example; expected one`, sallyport.CodeInvalid},
		{"two for one variable", flags(with("", rule("*.corp.example")+"credentials:\n"+define("one", "a.corp.example", ", env: T")+define("two", "b.corp.example", ", env: T")), lend("one", "two")),
			`config.yaml:5:10 the credentials one and two are both for the variable T; expected one`, sallyport.CodeInvalid},
		{"two for one file", flags(with("", rule("*.corp.example")+"credentials:\n"+define("one", "a.corp.example", ", file: ~/t")+define("two", "b.corp.example", ", file: /home/ann/t")), lend("one", "two")),
			`config.yaml:5:10 the credentials one and two are both for the file /home/ann/t; expected one`, sallyport.CodeInvalid},
		{"a file outside the home folder", flags(with("", rule("*.corp.example")+"credentials:\n"+define("one", "a.corp.example", ", file: /etc/t")), lend("one")),
			`config.yaml:4:10 the credential "one" puts its placeholder into /etc/t; expected a path below the home folder`, sallyport.CodeInvalid},
		{"its variable is set by env", flags(with("", config), sallyport.WorkOrder{Lend: []string{"one"}, Env: map[string]string{"ONE": "x"}}),
			`config.yaml:4:10 the credential "one" puts its placeholder into ONE, which env sets as well`, sallyport.CodeInvalid},
		{"its variable is the agent's", func() Input {
			in := flags(with("", config), sallyport.WorkOrder{Lend: []string{"one"}, Agent: "claude-code", Task: "x"})
			in.WorkOrder.Command = nil
			in.Agent = sallyport.Agent{Name: "claude-code", Command: []string{"claude"}, Env: map[string]string{"ONE": "{{placeholder}}"}}
			return in
		}(), `config.yaml:4:10 the credential "one" puts its placeholder into ONE, which the agent claude-code needs for its model`, sallyport.CodeInvalid},
	} {
		m, err := Compile(w.in)
		names := []string{}
		for _, c := range m.Credentials {
			names = append(names, c.Name)
		}
		got := strings.Join(names, " ")
		var e *sallyport.Error
		if errors.As(err, &e) {
			got = e.Subject + " " + e.Message
		}
		if got != w.want || sallyport.CodeOf(err) != w.code {
			t.Errorf("%s:\n got %s (%s)\nwant %s (%s)", w.name, got, sallyport.CodeOf(err), w.want, w.code)
		}
	}
	in := flags(with("", config), lend("one"))
	m, err := Compile(in)
	if err != nil {
		t.Fatal(err)
	}
	in.User.Credentials[0].Hosts[0] = "changed.corp.example"
	if m.Credentials[0].Hosts[0] != "a.corp.example" {
		t.Error("the Manifest shares its lists with the operator's file")
	}
	if len(m.Notices) == 0 || !strings.Contains(strings.Join(m.Notices, "\n"), "the agent's requests to a.corp.example carry the credential one: granted by flag") {
		t.Errorf("notices: %q", m.Notices)
	}
}
