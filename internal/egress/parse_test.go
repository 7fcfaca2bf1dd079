package egress

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sallyport.dev/sallyport"
)

var reading, everywhere = []string{"GET", "HEAD"}, []string{"/**"}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Rule
	}{
		{"- Registry.Example.com.", Rule{Host: "registry.example.com", Port: 443, Protocol: HTTPS, Methods: reading, Paths: everywhere}},
		{"- registry.example.com:8443", Rule{Host: "registry.example.com", Port: 8443, Protocol: HTTPS, Methods: reading, Paths: everywhere}},
		{"- '*.Example.com'", Rule{Host: "*.example.com", Port: 443, Protocol: HTTPS, Methods: reading, Paths: everywhere}},
		{"- 192.0.2.1", Rule{Host: "192.0.2.1", Port: 443, Protocol: HTTPS, Methods: reading, Paths: everywhere}},
		{"- '2001:DB8::1'", Rule{Host: "2001:db8::1", Port: 443, Protocol: HTTPS, Methods: reading, Paths: everywhere}},
		{"- '[2001:db8::1]:80'", Rule{Host: "2001:db8::1", Port: 80, Protocol: HTTPS, Methods: reading, Paths: everywhere}},
		{"- '::ffff:192.0.2.1'", Rule{Host: "192.0.2.1", Port: 443, Protocol: HTTPS, Methods: reading, Paths: everywhere}},
		{"- {host: forge}", Rule{Host: "forge", Port: 443, Protocol: HTTPS, Methods: reading, Paths: everywhere}},
		{"- {host: forge, protocol: http}", Rule{Host: "forge", Port: 80, Protocol: HTTP, Methods: reading, Paths: everywhere}},
		{"- {host: forge, protocol: git, paths: [/o/*]}", Rule{Host: "forge", Port: 443, Protocol: Git, Paths: []string{"/o/*"}}},
		{"- {host: forge, protocol: tcp, port: 22}", Rule{Host: "forge", Port: 22, Protocol: TCP}},
		{"- {host: forge, methods: [], paths: []}", Rule{Host: "forge", Port: 443, Protocol: HTTPS, Methods: []string{}, Paths: []string{}}},
		{"- {host: forge, own-auth: true, methods: ['*'], limits: {requests: 3, up: 2KiB, down: 1GiB, rate: 2/s}}",
			Rule{Host: "forge", Port: 443, Protocol: HTTPS, Methods: []string{"*"}, Paths: everywhere, OwnAuth: true, Limits: Limits{Requests: 3, Up: 2048, Down: 1 << 30, Rate: 120}}},
	} {
		if got := rules(t, c.in); !reflect.DeepEqual(got, []Rule{c.want}) {
			t.Errorf("%s\n got %+v\nwant %+v", c.in, got, c.want)
		}
	}
	if got := rules(t, "[]"); got == nil || len(got) != 0 {
		t.Errorf("an empty list is %#v", got)
	}
	if got := rules(t, "[npm, go]"); len(got) != 3 {
		t.Errorf("two presets are %d rules", len(got))
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ in, says string }{
		{"- 3", "a number; expected a preset, a host or a mapping"},
		{"- null", "a null; expected"},
		{"- [a.example]", "a list; expected"},
		{"- nosuchpreset", `"nosuchpreset" is no preset; expected one of: anthropic, cargo,`},
		{"- ''", "no preset"},
		{"- https://a.example/b", "looks like a URL"},
		{"- a.example:0", "host: expected a host name"},
		{"- exa_mple.com", "host: expected a host name"},
		{"- 127.1", "a number; expected a preset"},
		{"- '127.1'", "host: expected a host name"},
		{"- '*.com'", "anybody can have a name below com"},
		{"- '*.co.uk'", "anybody can have a name below co.uk"},
		{"- '*.github.io'", "anybody can have a name below github.io"},
		{"- '*.1.2.3.4'", "not before an address"},
		{"- '*'", "no preset"},
		{"- '*.*.example.com'", "host: expected a host name"},
		{"- 'a.*.example.com'", "host: expected a host name"},
		{"- '*example.com'", "host: expected a host name"},
		{"- 0.0.0.0", "no single host"},
		{"- '::'", "no single host"},
		{"- '[::]:443'", "no single host"},
		{"- {host: '::'}", "no single host"},
		{"- 224.0.0.1", "no single host"},
		{"- 255.255.255.255", "no single host"},
		{"- {host: a.example, prot: tcp}", `unknown key "prot"; expected one of: host, limits, methods`},
		{"- {port: 443}", "host: expected a host name"},
		{"- {host: 3}", "host: a number; expected a word"},
		{"- {host: a.example, port: 65536}", "port: expected a number"},
		{"- {host: a.example, port: '443'}", "port: expected a number"},
		{"- {host: a.example, port: 1.5}", "port: expected a number"},
		{"- {host: a.example, protocol: quic}", `"quic" is none; expected https, http, tcp or git`},
		{"- {host: a.example, protocol: tcp}", "port: expected 1 to 65535"},
		{"- {host: a.example, protocol: tcp, port: 22, paths: []}", "tcp has no paths"},
		{"- {host: a.example, protocol: tcp, port: 22, methods: [GET]}", "only http and https have methods"},
		{"- {host: a.example, protocol: tcp, port: 22, own-auth: true}", "tcp is not read"},
		{"- {host: a.example, protocol: git, methods: [GET]}", "only http and https have methods"},
		{"- {host: a.example, protocol: git, paths: [/o/r.git]}", "without .git"},
		{"- {host: a.example, methods: [get]}", `methods[0]: "get": expected an upper-case method`},
		{"- {host: a.example, methods: [CONNECT]}", "methods[0]"},
		{"- {host: a.example, methods: GET}", `methods: a text "GET"; expected a list`},
		{"- {host: a.example, methods: [GET, GET]}", `methods[1]: "GET" is said twice`},
		{"- {host: a.example, paths: [a]}", `paths[0]: "a": expected a path`},
		{"- {host: a.example, paths: [/a, /a/../b]}", "paths[1]"},
		{"- {host: a.example, own-auth: 1}", "expected true or false"},
		{"- {host: a.example, limits: 3}", "limits: a number; expected a mapping"},
		{"- {host: a.example, limits: {req: 3}}", `unknown key "req"; expected one of: down, rate, requests, up`},
		{"- {host: a.example, limits: {requests: 0}}", "limits.requests: expected a whole number above 0"},
		{"- {host: a.example, limits: {requests: -1}}", "limits.requests"},
		{"- {host: a.example, limits: {up: 10}}", "limits.up: expected a size"},
		{"- {host: a.example, limits: {up: 9999999999TiB}}", "limits.up: expected a size"},
		{"- {host: a.example, limits: {down: MiB}}", "limits.down: expected a size"},
		{"- {host: a.example, limits: {rate: 60}}", "limits.rate: expected a rate"},
		{"- {host: a.example, limits: {rate: 1/h}}", "limits.rate: expected a rate"},
	} {
		_, err := readYAML("- a.example\n" + c.in)
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "egress[1]") {
			t.Errorf("%s: %v; want %q", c.in, err, c.says)
		} else if code := sallyport.CodeOf(err); code != sallyport.CodeInvalid && code != sallyport.CodeNotFound {
			t.Errorf("%s: code %v", c.in, code)
		}
	}
}

func TestCheckWantsTheCanonicalForm(t *testing.T) {
	good := rules(t, "- a.example")[0]
	for _, h := range []string{"A.example", "a.example.", "[2001:db8::1]", "2001:DB8::1", "::ffff:192.0.2.1", "*.A.example"} {
		r := good
		if r.Host = h; Check(r) == nil {
			t.Errorf("%q passes", h)
		}
	}
	if Check(Rule{}) == nil {
		t.Error("the zero rule passes")
	}
	for i, l := range []Limits{{Requests: -1}, {Up: -1}, {Down: -1}, {Rate: -1}} {
		r := good
		if r.Limits = l; Check(r) == nil {
			t.Errorf("negative limit %d passes", i)
		}
	}
}

// anyRule draws a rule that passes Check.
func anyRule(t *rapid.T) Rule {
	hosts := []string{"a.example", "*.b.example", "forge", "null", "on", "1e3", "0o7", "3com", "x-y.example", "192.0.2.1", "2001:db8::1", "xn--bcher-kva.example"}
	r := Rule{
		Host:     rapid.SampledFrom(hosts).Draw(t, "host"),
		Port:     rapid.SampledFrom([]uint16{443, 80, 22, 1, 65535}).Draw(t, "port"),
		Protocol: rapid.SampledFrom([]Protocol{HTTPS, HTTP, TCP, Git}).Draw(t, "protocol"),
		Limits: Limits{Requests: rapid.Int64Range(0, 9).Draw(t, "requests"), Up: rapid.Int64Range(0, 1<<42).Draw(t, "up"),
			Down: rapid.SampledFrom([]int64{0, 1, 1 << 10, 3 << 20, 1 << 30, 1 << 40}).Draw(t, "down"), Rate: rapid.Int64Range(0, 99).Draw(t, "rate")},
	}
	list := func(name string, of []string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(of), 0, 4, rapid.ID).Draw(t, name)
	}
	if r.Protocol != TCP {
		r.Paths = list("paths", []string{"/", "/**", "/a/*", "/@*%2F*", "/a:b", "/a,b]", "/{x}", "/a'b", "/'a%20b\"", "/-", "/~&!"})
		r.OwnAuth = rapid.Bool().Draw(t, "own-auth")
	}
	if r.Protocol == HTTPS || r.Protocol == HTTP {
		r.Methods = list("methods", []string{"GET", "HEAD", "POST", "*", "WEBSOCKET", "NULL", "NO", "M-SEARCH"})
	}
	return r
}

// TestLineIsReadBack: what is proposed to a person is what that person's file then says; and JSON loses nothing.
func TestLineIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRule(t)
		if err := Check(r); err != nil {
			t.Fatalf("%+v: %v", r, err)
		}
		if got := rules(t, "- "+Line(r)); len(got) != 1 || !same(got[0], r) {
			t.Fatalf("%s\n got %+v\nwant %+v", Line(r), got, r)
		}
		if strings.Contains(Line(r), "\n") {
			t.Fatalf("%q is not one line", Line(r))
		}
		b, err := json.Marshal(r)
		var back Rule
		if err != nil || json.Unmarshal(b, &back) != nil || !same(back, r) {
			t.Fatalf("JSON %s: %+v", b, back)
		}
	})
}

// same takes nil and empty lists as one: both mean nothing.
func same(a, b Rule) bool {
	norm := func(r Rule) Rule {
		r.Methods, r.Paths = append([]string{}, r.Methods...), append([]string{}, r.Paths...)
		return r
	}
	return reflect.DeepEqual(norm(a), norm(b))
}

// FuzzParse: whatever is decoded is refused with a code or is rules that pass Check. It decodes JSON: the YAML decoder
// itself panics on some inputs, which is for internal/manifest's reader to keep out.
func FuzzParse(f *testing.F) {
	for _, s := range []string{`["a.example"]`, `[{"host": "*.a.example", "paths": ["/x/**"], "limits": {"up": "1MiB", "rate": "1/s"}}]`, `["npm", {"host": "x", "protocol": "tcp", "port": 22}]`, `[[]]`, `[{"host": "a.example", "port": 1e3}]`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var entries []any
		if json.Unmarshal([]byte(s), &entries) != nil {
			return
		}
		rules, err := ParseAll(entries)
		for _, r := range rules {
			if err := Check(r); err != nil {
				t.Fatalf("%q is read as %+v: %v", s, r, err)
			}
		}
		if err != nil && (rules != nil || sallyport.CodeOf(err) == sallyport.CodeUnknown) {
			t.Fatalf("%q: %v, and %d rules", s, err, len(rules))
		}
	})
}
