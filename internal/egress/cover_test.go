package egress

import (
	"testing"

	"pgregory.net/rapid"
)

func one(t *testing.T, v any) Rule {
	t.Helper()
	rules, err := Parse(v)
	if err != nil || len(rules) != 1 {
		t.Fatalf("%v: %v, %v", v, rules, err)
	}
	return rules[0]
}

func TestCovers(t *testing.T) {
	type m = map[string]any
	list := func(s ...any) []any { return s }
	for _, w := range []struct {
		outer, inner any
		want         bool
	}{
		{"a.example.com", "a.example.com", true},
		{"*.example.com", "a.example.com", true},
		{"*.example.com", "*.a.example.com", true},
		{"*.example.com", "example.com", false},
		{"a.example.com", "*.example.com", false},
		{"*.example.com", "a.example.com.evil.net", false},
		{"a.example.com", "a.example.com:8443", false},
		{m{"host": "a.example.com", "methods": list("*")}, "a.example.com", true},
		{"a.example.com", m{"host": "a.example.com", "methods": list("*")}, false},
		{"a.example.com", m{"host": "a.example.com", "methods": list("GET")}, true},
		{"a.example.com", m{"host": "a.example.com", "methods": list("POST")}, false},
		{"a.example.com", m{"host": "a.example.com", "paths": list("/x/*")}, true},
		{m{"host": "a.example.com", "paths": list("/x/*")}, m{"host": "a.example.com", "paths": list("/x/*")}, true},
		{m{"host": "a.example.com", "paths": list("/x/*")}, m{"host": "a.example.com", "paths": list("/y")}, false},
		{"a.example.com", m{"host": "a.example.com", "protocol": "http", "port": 443}, false},
		{"a.example.com", m{"host": "a.example.com", "own-auth": true}, false},
		{m{"host": "a.example.com", "own-auth": true}, "a.example.com", true},
		{m{"host": "a.example.com", "limits": m{"down": "1MiB"}}, "a.example.com", false},
		{m{"host": "a.example.com", "limits": m{"down": "1MiB"}}, m{"host": "a.example.com", "limits": m{"down": "1KiB"}}, true},
		{"a.example.com", m{"host": "a.example.com", "limits": m{"down": "1KiB"}}, true},
	} {
		if got := Covers(one(t, w.outer), one(t, w.inner)); got != w.want {
			t.Errorf("%v covers %v: %t", w.outer, w.inner, got)
		}
	}
}

// TestCoversHolds: what a covered rule allows, the covering one allows.
func TestCoversHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) Rule {
			r := Rule{Host: rapid.SampledFrom([]string{"a.example.com", "*.example.com", "b.a.example.com", "*.a.example.com"}).Draw(t, name),
				Port: 443, Protocol: HTTPS,
				Methods: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"GET", "HEAD", "POST", "*"}), 0, 3, rapid.ID).Draw(t, name+" methods"),
				Paths:   rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"/**", "/a/*", "/a/b", "/c"}), 0, 3, rapid.ID).Draw(t, name+" paths")}
			return r
		}
		outer, inner := draw("outer"), draw("inner")
		host, err := Host(rapid.SampledFrom([]string{"a.example.com", "b.a.example.com", "c.example.com"}).Draw(t, "host"))
		if err != nil {
			t.Fatal(err)
		}
		q := Request{Name: host, Port: 443, Protocol: HTTPS, Method: rapid.SampledFrom([]string{"GET", "POST"}).Draw(t, "method"),
			Path: rapid.SampledFrom([]string{"/a/b", "/a/c", "/c", "/"}).Draw(t, "path")}
		if Covers(outer, inner) && Decide([]Rule{inner}, q).Allowed && !Decide([]Rule{outer}, q).Allowed {
			t.Fatalf("%+v covers %+v, and only the covered one allows %+v", outer, inner, q)
		}
	})
}

func TestUnread(t *testing.T) {
	type m = map[string]any
	for _, w := range []struct {
		rule   any
		unread bool
	}{
		{"a.example.com", false},
		{m{"host": "a.example.com", "methods": []any{"*"}}, false},
		{m{"host": "a.example.com", "methods": []any{"*"}, "own-auth": true}, true},
		{m{"host": "a.example.com", "methods": []any{"*"}, "own-auth": true, "limits": m{"up": "1MiB"}}, true},
		{m{"host": "a.example.com", "methods": []any{"*"}, "own-auth": true, "paths": []any{"/x"}}, false},
		{m{"host": "a.example.com", "methods": []any{"*"}, "own-auth": true, "limits": m{"requests": 3}}, false},
		{m{"host": "a.example.com", "methods": []any{"*"}, "own-auth": true, "limits": m{"rate": "3/m"}}, false},
		{m{"host": "a.example.com", "protocol": "git"}, false},
		{m{"host": "a.example.com", "protocol": "http", "methods": []any{"*"}, "own-auth": true}, false},
		{m{"host": "a.example.com", "protocol": "tcp", "port": 22}, true},
	} {
		if got := Unread(one(t, w.rule)); got != w.unread {
			t.Errorf("%v: unread %v", w.rule, got)
		}
	}
}
