package egress

import (
	"encoding/json"
	"testing"
)

func TestForgeRead(t *testing.T) {
	n, _ := Host("forge.example")
	for _, c := range []struct {
		method, path, query string
		body                string
		want                bool
	}{
		{"GET", "/api/v1/repos/a/b", "", "", true},
		{"HEAD", "/a/b", "", "", true},
		{"GET", "/a/b.git/info/refs", "service=git-upload-pack", "", true},
		{"POST", "/a/b.git/git-upload-pack", "", "", true},
		{"POST", "/a/b.git/git-receive-pack", "", "", false},
		{"POST", "/api/v1/repos/a/b/pulls", "", "{}", false},
		{"PUT", "/x", "", "", false},
		{"DELETE", "/x", "", "", false},
		{MethodWebSocket, "/x", "", "", false},
		{"POST", "/graphql", "", `{"query":"{ viewer { login } }"}`, true},
		{"POST", "/api/graphql", "", `{"query":"query A { a }","variables":{"x":1},"operationName":"A"}`, true},
		{"POST", "/graphql", "", `{"query":"mutation { a }"}`, false},
		{"POST", "/graphql/", "", `{"query":"{a}"}`, false},
		{"POST", "/%67raphql", "", `{"query":"mutation{a}"}`, false},
		{"POST", "/graphql", "", `{"query":"{a}","query":"mutation{a}"}`, false},
		{"POST", "/graphql", "", `{"query":"{a}","Query":"mutation{a}"}`, false},
		{"POST", "/graphql", "", `{"query":"{a}"} {"query":"mutation{a}"}`, false},
		{"POST", "/graphql", "", `[{"query":"{a}"},{"query":"mutation{a}"}]`, false},
		{"POST", "/graphql", "", `{"extensions":{"persistedQuery":{"sha256Hash":"x"}}}`, false},
		{"POST", "/graphql", "", ``, false},
	} {
		if got := ForgeRead(Request{n, 443, HTTPS, c.method, c.path, c.query}, []byte(c.body)); got != c.want {
			t.Errorf("%s %s?%s %s: reads %v", c.method, c.path, c.query, c.body, got)
		}
	}
}

func TestOnlyQueries(t *testing.T) {
	for doc, want := range map[string]bool{
		`{a}`: true,
		`query($a: I = {b: "mutation"}) @d(x: {y: 1}) { a(b: {c: "}"}) } fragment F on T { b }`: true,
		"# mutation\n{ a }":                     true,
		"\ufeff{a}":                             true,
		`{ mutation }`:                          true, // a field of that name
		`query mutation { a }`:                  true,
		`{ a(b: """ \""" } mutation { x """) }`: true,
		`query A { a } mutation B { b }`:        false,
		`{a} mutation{b}`:                       false,
		`fragment F on T {a} mutation { ...F }`: false,
		"{ a # }\n} mutation {b}":               false,
		"{a(b: \"\\\"\")} mutation {b}":         false,
		`subscription { a }`:                    false,
		`extend type A { a }`:                   false,
		`{a`:                                    false,
		`{a}}`:                                  false,
		`query`:                                 false,
		``:                                      false,
		`# only a comment`:                      false,
		`{ a(b: "`:                              false,
		"\u00e9":                                false,
	} {
		if got := onlyQueries(doc); got != want {
			t.Errorf("%q: only queries %v", doc, got)
		}
	}
}

// FuzzOnlyQueries: whatever stands before it, an operation that is no query, at the end, is seen.
func FuzzOnlyQueries(f *testing.F) {
	f.Add("{a}")
	f.Add(`query A($b: C = {d: "}"}) { a } # x`)
	f.Fuzz(func(t *testing.T, doc string) {
		if onlyQueries(doc) && onlyQueries(doc+"\nmutation { a }") {
			t.Fatalf("%q hides a mutation", doc)
		}
		b, _ := json.Marshal(map[string]string{"query": doc})
		queryOnly(b)
		queryOnly([]byte(doc))
	})
}

func TestRemoteHost(t *testing.T) {
	for remote, want := range map[string]string{
		"https://git.corp.example/team/lib.git":           "git.corp.example",
		"https://me:secret@Git.Corp.example:8443/lib.git": "git.corp.example",
		"ssh://git@git.corp.example:2222/lib.git":         "git.corp.example",
		"git@git.corp.example:team/lib.git":               "git.corp.example",
		"git.corp.example:lib.git":                        "git.corp.example",
		"https://[2001:db8::1]:8443/lib.git":              "2001:db8::1",
		"git://192.0.2.1/lib.git":                         "192.0.2.1",
		"/srv/git/lib.git":                                "",
		"./a:b":                                           "",
		"file:///srv/git/lib.git":                         "",
		"../lib.git":                                      "",
		"https:///lib.git":                                "",
		"":                                                "",
	} {
		got, ok := RemoteHost(remote)
		if got.String() != want || ok != (want != "") {
			t.Errorf("%s: %q, %v", remote, got, ok)
		}
	}
}

func TestRepositoryAddress(t *testing.T) {
	for remote, want := range map[string]string{
		"git@forge.example:acme/shop.git":              "https://forge.example/acme/shop",
		"https://forge.example/acme/shop.git":          "https://forge.example/acme/shop",
		"https://me:pw@forge.example:8443/acme/shop/":  "https://forge.example:8443/acme/shop",
		"http://127.0.0.1:3000/acme/shop":              "http://127.0.0.1:3000/acme/shop",
		"ssh://git@forge.example:2222/group/sub/x.git": "https://forge.example/group/sub/x",
		"FORGE.example:x":                              "https://forge.example/x",
		"/srv/git/x.git":                               "",
		"file:///srv/git/x.git":                        "",
		"https://forge.example":                        "",
		"https://forge.example/a?b":                    "",
		"git@forge.example:a b":                        "",
	} {
		got, ok := RepositoryAddress(remote)
		if got != want || ok != (want != "") {
			t.Errorf("%q: %q %v, expected %q", remote, got, ok, want)
		}
	}
}
