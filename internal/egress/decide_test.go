package egress

import (
	"testing"

	"pgregory.net/rapid"
)

const shop = `
- api.example
- {host: api.example, methods: [POST], paths: [/v1/messages]}
- {host: '*.cdn.example', paths: [/pkg/*]}
- {host: plain.example, protocol: http}
- {host: forge.example, protocol: git, paths: [/o/r, /team/**]}
- {host: db.example, protocol: tcp, port: 5432}
- {host: nothing.example, methods: [], paths: []}
- {host: 192.0.2.1}
- {host: ws.example, methods: [GET, WEBSOCKET], paths: [/live]}
- {host: open.example, methods: ['*']}
`

func TestDecide(t *testing.T) {
	list := rules(t, shop)
	for _, c := range []struct {
		name     string
		port     uint16
		protocol Protocol
		method   string
		path     string
		query    string
		rule     int // -1: no
		reason   Reason
		line     string
	}{
		{"api.example", 443, HTTPS, "GET", "/", "", 0, "", ""},
		{"api.example", 443, HTTPS, "POST", "/v1/messages", "beta=true", 1, "", ""},
		{"api.example", 443, HTTPS, "POST", "/v1/files", "", -1, ReasonPath, "{host: api.example, methods: [POST], paths: [/v1/files]}"},
		{"api.example", 443, HTTPS, "PUT", "/v1/messages", "", -1, ReasonMethod, "{host: api.example, methods: [PUT], paths: [/v1/messages]}"},
		{"api.example", 443, HTTPS, "get", "/", "", -1, ReasonMethod, ""},
		{"api.example", 443, HTTPS, "*", "/", "", -1, ReasonMethod, ""},
		{"api.example", 443, HTTPS, "WEBSOCKET", "/x", "", -1, ReasonMethod, "{host: api.example, methods: [WEBSOCKET], paths: [/x]}"},
		{"api.example", 80, HTTP, "GET", "/x", "", -1, ReasonPort, "{host: api.example, protocol: http, paths: [/x]}"},
		{"api.example", 443, HTTP, "GET", "/x", "", -1, ReasonProtocol, "{host: api.example, protocol: http, port: 443, paths: [/x]}"},
		{"api.example", 443, TCP, "", "", "", -1, ReasonProtocol, "{host: api.example, protocol: tcp, port: 443}"},
		{"api.example", 443, Git, "GET", "/x", "", -1, ReasonProtocol, ""},
		{"api.example", 443, "", "GET", "/x", "", -1, ReasonProtocol, ""},
		{"www.api.example", 443, HTTPS, "GET", "/x", "", -1, ReasonHost, "{host: www.api.example, paths: [/x]}"},
		{"evilapi.example", 443, HTTPS, "GET", "/x", "", -1, ReasonHost, "{host: evilapi.example, paths: [/x]}"},
		{"api.example", 443, HTTPS, "GET", "/a/../b", "", -1, ReasonAmbiguousPath, ""},
		{"api.example", 443, HTTPS, "GET", "/a/%2e%2e/b", "", -1, ReasonAmbiguousPath, ""},
		{"api.example", 443, HTTPS, "OPTIONS", "*", "", -1, ReasonAmbiguousPath, ""},
		{"api.example", 443, HTTPS, "GET", "", "", -1, ReasonAmbiguousPath, ""},
		// Below the suffix, not the suffix.
		{"eu.cdn.example", 443, HTTPS, "GET", "/pkg/a", "", 2, "", ""},
		{"a.b.cdn.example", 443, HTTPS, "GET", "/pkg/a", "", 2, "", ""},
		{"cdn.example", 443, HTTPS, "GET", "/pkg/a", "", -1, ReasonHost, "{host: cdn.example, paths: [/pkg/a]}"},
		{"evilcdn.example", 443, HTTPS, "GET", "/pkg/a", "", -1, ReasonHost, "{host: evilcdn.example, paths: [/pkg/a]}"},
		{"eu.cdn.example", 443, HTTPS, "GET", "/pkg/a/b", "", -1, ReasonPath, "{host: eu.cdn.example, paths: [/pkg/a/b]}"},
		{"eu.cdn.example", 443, HTTPS, "GET", "/pkg/a%2fb", "", -1, ReasonPath, "{host: eu.cdn.example, paths: [/pkg/a%2Fb]}"},
		{"eu.cdn.example", 443, HTTPS, "GET", "/%70kg/%61", "", 2, "", ""},
		{"eu.cdn.example", 443, HTTPS, "GET", "/pkg/a*", "", 2, "", ""},
		{"eu.cdn.example", 443, HTTPS, "GET", "/x/*", "", -1, ReasonPath, "{host: eu.cdn.example, paths: [/x/%2A]}"},
		{"plain.example", 80, HTTP, "HEAD", "/x", "", 3, "", ""},
		{"plain.example", 80, HTTPS, "HEAD", "/x", "", -1, ReasonProtocol, "{host: plain.example, port: 80, paths: [/x]}"},
		// git: reads of listed repositories.
		{"forge.example", 443, HTTPS, "GET", "/o/r/info/refs", "service=git-upload-pack", 4, "", ""},
		{"forge.example", 443, HTTPS, "GET", "/o/r.git/info/refs", "service=git-upload-pack", 4, "", ""},
		{"forge.example", 443, HTTPS, "POST", "/o/r.git/git-upload-pack", "", 4, "", ""},
		{"forge.example", 443, HTTPS, "POST", "/team/a/b.git/git-upload-pack", "", 4, "", ""},
		{"forge.example", 443, HTTPS, "GET", "/o/x.git/info/refs", "service=git-upload-pack", -1, ReasonPath, "{host: forge.example, protocol: git, paths: [/o/x]}"},
		{"forge.example", 443, HTTPS, "GET", "/o/r.git/info/refs", "service=git-receive-pack", -1, ReasonGitPush, ""},
		{"forge.example", 443, HTTPS, "POST", "/o/r.git/git-receive-pack", "", -1, ReasonGitPush, ""},
		{"forge.example", 443, HTTPS, "POST", "/o/r.git/git%2dreceive%2dpack", "", -1, ReasonGitPush, ""},
		{"forge.example", 443, HTTPS, "GET", "/o/r.git/info/refs", "", -1, ReasonGitDumb, "{host: forge.example, paths: [/o/r.git/info/refs]}"},
		{"forge.example", 443, HTTPS, "POST", "/o/r.git/info/lfs/objects/batch", "", -1, ReasonGitRead, "{host: forge.example, methods: [POST], paths: [/o/r.git/info/lfs/objects/batch]}"},
		{"forge.example", 443, HTTPS, "GET", "/o/r", "", -1, ReasonGitRead, "{host: forge.example, paths: [/o/r]}"},
		{"forge.example", 443, HTTP, "GET", "/o/r/info/refs", "service=git-upload-pack", -1, ReasonProtocol, "{host: forge.example, protocol: http, port: 443, paths: [/o/r/info/refs]}"},
		// No rule lets a push through, however wide.
		{"open.example", 443, HTTPS, "POST", "/o/r/git-receive-pack", "", -1, ReasonGitPush, ""},
		{"open.example", 443, HTTPS, "POST", "/o/r/git-receive-pack/", "", -1, ReasonGitPush, ""},
		{"open.example", 443, HTTPS, "POST", "/o/r/git-upload-pack", "", 9, "", ""},
		{"open.example", 443, HTTPS, "PROPFIND", "/o/r", "", 9, "", ""},
		{"db.example", 5432, TCP, "", "", "", 5, "", ""},
		{"db.example", 5432, HTTPS, "GET", "/x", "", -1, ReasonProtocol, "{host: db.example, port: 5432, paths: [/x]}"},
		{"db.example", 22, TCP, "", "", "", -1, ReasonPort, "{host: db.example, protocol: tcp, port: 22}"},
		{"nothing.example", 443, HTTPS, "GET", "/", "", -1, ReasonMethod, "{host: nothing.example, paths: [/]}"},
		{"192.0.2.1", 443, HTTPS, "GET", "/", "", 7, "", ""},
		{"::ffff:192.0.2.1", 443, HTTPS, "GET", "/", "", 7, "", ""},
		{"192.0.2.2", 443, HTTPS, "GET", "/", "", -1, ReasonHost, "{host: 192.0.2.2, paths: [/]}"},
		{"ws.example", 443, HTTPS, "WEBSOCKET", "/live", "", 8, "", ""},
	} {
		q := Request{host(t, c.name), c.port, c.protocol, c.method, c.path, c.query}
		got := Decide(list, q)
		if want := (Decision{c.rule >= 0, c.rule, c.reason, c.line}); got != want {
			t.Errorf("%+v\n got %+v\nwant %+v", q, got, want)
		}
	}
}

func TestNothingListedNothingAllowed(t *testing.T) {
	q := get(t, "a.example", "/")
	for _, list := range [][]Rule{nil, {}, {{}}, {{Host: "a.example"}}, {{Host: "a.example", Port: 443, Protocol: HTTPS}}, {{Host: "*", Port: 443, Protocol: HTTPS, Methods: []string{"*"}, Paths: []string{"/**"}}}} {
		if d := Decide(list, q); d.Allowed || d.Rule != -1 || d.Reason == "" {
			t.Errorf("%+v: %+v", list, d)
		}
	}
	wide := rules(t, shop)
	if Decide(wide, Request{}).Allowed || Listed(wide, Name{}) || Reach(wide, Name{}, 443).Allowed {
		t.Error("the zero name is allowed")
	}
}

func TestListedAndReach(t *testing.T) {
	list := rules(t, shop)
	for name, want := range map[string]bool{"api.example": true, "x.cdn.example": true, "cdn.example": false, "db.example": true, "example": false, "192.0.2.1": true, "192.0.2.2": false} {
		if Listed(list, host(t, name)) != want {
			t.Errorf("Listed(%s) is not %v", name, want)
		}
	}
	for _, c := range []struct {
		name string
		port uint16
		want Decision
	}{
		{"api.example", 443, Decision{true, 0, "", ""}},
		{"db.example", 5432, Decision{true, 5, "", ""}},
		{"db.example", 443, Decision{false, -1, ReasonPort, "db.example"}},
		{"x.example", 443, Decision{false, -1, ReasonHost, "x.example"}},
		{"x.example", 80, Decision{false, -1, ReasonHost, "{host: x.example, protocol: http}"}},
		{"x.example", 22, Decision{false, -1, ReasonHost, "{host: x.example, protocol: tcp, port: 22}"}},
		{"forge", 443, Decision{false, -1, ReasonHost, "{host: forge}"}},
	} {
		if got := Reach(list, host(t, c.name), c.port); got != c.want {
			t.Errorf("Reach(%s, %d)\n got %+v\nwant %+v", c.name, c.port, got, c.want)
		}
	}
}

// anyRequest draws what a client could ask.
func anyRequest(t *rapid.T) Request {
	q := Request{
		Name:     host(t, rapid.SampledFrom([]string{"a.example", "b.example", "x.b.example", "forge", "192.0.2.1", "2001:db8::1", "1e3"}).Draw(t, "name")),
		Port:     rapid.SampledFrom([]uint16{443, 80, 22}).Draw(t, "port"),
		Protocol: rapid.SampledFrom([]Protocol{HTTPS, HTTPS, HTTP, TCP}).Draw(t, "protocol"),
	}
	if q.Protocol == TCP {
		return q
	}
	q.Method = rapid.SampledFrom([]string{"GET", "HEAD", "POST", "PUT", "WEBSOCKET", "get", "*"}).Draw(t, "method")
	segments := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "@s%2fn", "*", "%61", "..", "", "r.git", "x y"}), 1, 4).Draw(t, "path")
	for _, s := range segments {
		q.Path += "/" + s
	}
	switch rapid.IntRange(0, 9).Draw(t, "git") {
	case 0:
		q.Path, q.Query = q.Path+"/info/refs", rapid.SampledFrom([]string{"", "service=git-upload-pack", "service=git-receive-pack", "service=git-upload-pack&x=1"}).Draw(t, "query")
	case 1:
		q.Path += "/git-upload-pack"
	case 2:
		q.Path += "/git-receive-pack"
	}
	return q
}

// TestTheLineAllows: the line that a refusal shows allows exactly that request when it is added, and a refusal that
// shows none has a reason that is final.
func TestTheLineAllows(t *testing.T) {
	lines := 0
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Custom(anyRule), 0, 3).Draw(t, "rules")
		q := anyRequest(t)
		d := Decide(list, q)
		if d.Allowed != (d.Reason == "") || d.Allowed != (d.Rule >= 0) || d.Allowed && d.Line != "" {
			t.Fatalf("%+v", d)
		}
		if d.Allowed || d.Line == "" {
			return
		}
		lines++
		added := rules(t, "- "+d.Line)
		if again := Decide(append(list, added...), q); !again.Allowed || again.Rule != len(list) {
			t.Fatalf("%+v\nrefused: %+v\nwith it: %+v", q, d, again)
		}
		if other := anyRequest(t); Decide(added, other).Allowed && (other.Name != q.Name || other.Port != q.Port) {
			t.Fatalf("%s allows %+v", d.Line, other)
		}
	})
	if lines == 0 {
		t.Error("no line was ever shown")
	}
}

// TestRulesOnlyAdd: a rule more never takes anything away.
func TestRulesOnlyAdd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Custom(anyRule), 0, 3).Draw(t, "rules")
		q := anyRequest(t)
		d, more := Decide(list, q), Decide(append(list, anyRule(t)), q)
		if d.Allowed && more != d {
			t.Fatalf("%+v became %+v", d, more)
		}
		if d.Allowed && (!Listed(list, q.Name) || !Reach(list, q.Name, q.Port).Allowed) {
			t.Fatalf("%+v is allowed, and its name or port is not", q)
		}
	})
}

func TestGitFetch(t *testing.T) {
	for _, c := range []struct {
		method, path, query string
		why                 Reason
	}{
		{"GET", "/o/r/info/refs", "service=git-upload-pack", ""},
		{"POST", "/o/r.git/git-upload-pack", "", ""},
		{"GET", "/o/r/info/refs", "service=git-receive-pack", ReasonGitPush},
		{"GET", "/o/r/info/refs", "service=git-upload-pack&service=git-receive-pack", ReasonGitPush},
		{"GET", "/o/r/info/refs", "service=git%2Dreceive-pack", ReasonGitPush},
		{"GET", "/o/r/info/refs", "SERVICE=GIT-RECEIVE-PACK", ReasonGitPush},
		{"GET", "/o/r/info/refs", "service=%", ReasonGitPush},
		{"GET", "/o/r/info/refs", "a;service=git-receive-pack", ReasonGitPush},
		{"GET", "/o/r/%69nfo/refs", "service=git-receive-pack", ReasonGitPush},
		{"GET", "/o/r/info/refs/", "service=git-receive-pack", ReasonGitPush},
		{"PUT", "/o/r/Git-Receive-Pack", "", ReasonGitPush},
		{"POST", "/o/r/git-receive-pack;x=1", "", ReasonGitPush},
		{"POST", "/o/r/git-receive-pack/x", "", ReasonGitPush},
		{"POST", "/o/r%2fgit-receive-pack", "", ReasonGitPush},
		{"GET", "/o/r/info/refs;x", "service=git-receive-pack", ReasonGitPush},
		{"GET", "/o/r/git-receive-pack.txt", "", ReasonGitRead},
		{"GET", "/o/r/info/refs", "service=git-upload-pack&x", ReasonGitRead},
		{"GET", "/o/r/info/refs", "service=git-upload-archive", ReasonGitRead},
		{"GET", "/o/r/info/refs", "", ReasonGitDumb},
		{"GET", "/o/r/HEAD", "", ReasonGitRead},
		{"GET", "/info/refs", "service=git-upload-pack", ReasonGitRead},
		{"HEAD", "/o/r/info/refs", "service=git-upload-pack", ReasonGitRead},
		{"GET", "/o/r/git-upload-pack", "", ReasonGitRead},
		{"POST", "/o/r/git-upload-pack", "x", ReasonGitRead},
		{"POST", "/o/r/../x/git-upload-pack", "", ReasonAmbiguousPath},
		{"POST", "/o/r.git/info/lfs/objects/batch", "", ReasonGitRead},
	} {
		ok, why := GitFetch(c.method, c.path, c.query)
		if why != c.why || ok != (c.why == "") {
			t.Errorf("%s %s?%s: %v %q; want %q", c.method, c.path, c.query, ok, why, c.why)
		}
	}
}

func TestReasonsHaveSentences(t *testing.T) {
	for _, r := range append(stages, ReasonAmbiguousPath, ReasonGitPush, ReasonMalformedName, ReasonNameMismatch, ReasonAddress, ReasonMalformedTLS) {
		if r.Sentence() == "" {
			t.Errorf("%s has no sentence", r)
		}
	}
}
