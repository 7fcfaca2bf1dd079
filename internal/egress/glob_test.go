package egress

import (
	"net/url"
	"path"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCanonicalPath(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"/", "/"},
		{"/v1/messages", "/v1/messages"},
		{"/v1/messages/", "/v1/messages/"},
		{"/%76%31/m", "/v1/m"},
		{"/@babel%2fcore", "/@babel%2Fcore"},
		{"/a%20b", "/a%20b"},
		{"/%c3%BC", "/%C3%BC"},
		{"/100%25", "/100%25"},
		{"/a*b", "/a%2Ab"},
		{"/a%2ab", "/a%2Ab"},
		{"/...", "/..."},
		{"/a.git/info/refs", "/a.git/info/refs"},
		{"/m:generate", "/m:generate"},
		{"/a;b", "/a;b"},
		{"", ""}, {"v1", ""}, {"*", ""}, {"http://h/", ""},
		{"/.", ""}, {"/..", ""}, {"/a/../b", ""}, {"/a/./b", ""}, {"/a/%2e%2E/b", ""}, {"/a/.%2e/b", ""}, {"/a/..%2fb", ""},
		{"/a/%252e%252e/b", ""}, {"/a/%25%32%65./b", ""}, {"/a/..;/b", ""}, {"/a/..%3bx/b", ""}, {"/a/.;x", ""},
		{"//a", ""}, {"/a//b", ""}, {"/a/%2fb", ""}, {"/a%2f%2fb", ""},
		{"/a\\b", ""}, {"/a%5cb", ""}, {"/a%5C..%5Cb", ""},
		{"/a\x00", ""}, {"/a%00", ""}, {"/a%0d%0aHost:x", ""}, {"/a b", ""}, {"/ü", ""}, {"/a%7f", ""},
		{"/a%", ""}, {"/a%2", ""}, {"/a%zz", ""}, {"/a?b", ""}, {"/a#b", ""},
		{"/" + strings.Repeat("a", maxPath), ""},
	} {
		got, ok := canonicalPath(c.in)
		if ok != (c.want != "") || ok && got != c.want {
			t.Errorf("canonicalPath(%.60q) = %q, %v; want %q", c.in, got, ok, c.want)
		}
	}
}

// FuzzCanonicalPath: what is admitted means the same as before, means itself, and holds nothing to walk up or merge.
func FuzzCanonicalPath(f *testing.F) {
	for _, s := range []string{"/", "/a/b", "/@a%2fb", "/a%2e%2e", "/%61*", "/a;b/..;c", "/%25%32%65", "//", "/a\\b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, ok := canonicalPath(s)
		if !ok {
			return
		}
		before, err := url.PathUnescape(s)
		if err != nil {
			t.Fatalf("%q is admitted, and net/url says %v", s, err)
		}
		if after, err := url.PathUnescape(c); err != nil || after != before {
			t.Fatalf("%q becomes %q: %q is not %q (%v)", s, c, after, before, err)
		}
		if again, ok := canonicalPath(c); !ok || again != strings.ReplaceAll(c, "*", "%2A") {
			t.Fatalf("%q is not its own form: %q, %v", c, again, ok)
		}
		if clean := path.Clean(before); clean != before && clean+"/" != before {
			t.Fatalf("%q is admitted and means %q", s, clean)
		}
		if twice, err := url.PathUnescape(before); err == nil && path.Clean(twice) != path.Clean(before) && strings.Contains(twice, "..") && !strings.Contains(before, "..") {
			t.Fatalf("%q walks up when it is unescaped twice", s)
		}
	})
}

// globAsRegexp is the other reading of a glob, in which a star is whole characters of a canonical path, an escaped slash none.
func globAsRegexp(glob string) *regexp.Regexp {
	const character = `(?:[^/%]|%[013-9A-F][0-9A-F]|%2[0-9A-E])`
	var b strings.Builder
	b.WriteString("^")
	for _, s := range strings.Split(glob, "/")[1:] {
		if s == "**" {
			b.WriteString("(?:/" + character + "*)*")
			continue
		}
		b.WriteString("/")
		for i, lit := range strings.Split(s, "*") {
			if i > 0 {
				b.WriteString(character + "*")
			}
			b.WriteString(regexp.QuoteMeta(lit))
		}
	}
	return regexp.MustCompile(b.String() + "$")
}

func TestGlobAgreesWithRegexp(t *testing.T) {
	yes := 0
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string, pieces ...string) string {
			return "/" + strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 8).Draw(t, name), "")
		}
		glob := draw("glob", "a", "b", "*", "/", "/**/", "/*/", "%2F", "/**", "%20", "2", "0", "F")
		if checkGlob(glob) != "" {
			return
		}
		p, ok := canonicalPath(draw("path", "a", "b", "/", "%2F", "ab", "/a", "/b", "%20", "%C0", "2F", "0"))
		if !ok {
			return
		}
		got, want := matchPath(glob, p), globAsRegexp(glob).MatchString(p)
		if got != want {
			t.Fatalf("matchPath(%q, %q) = %v", glob, p, got)
		}
		if got {
			yes++
		}
	})
	if yes == 0 {
		t.Error("nothing ever matched")
	}
}

func TestGlobMatches(t *testing.T) {
	for _, c := range []struct {
		glob, path string
		want       bool
	}{
		{"/b/**", "/b/a%2F", false}, {"/b/**", "/b/a", true}, {"/b/**", "/b", true}, {"/@*%2F*", "/@a%2Fb", true}, {"/@*", "/@a%2Fb", false},
		{"/*0", "/a%20", false}, {"/*2F", "/a%2F", false}, {"/%2*", "/%20", false}, {"/*%20", "/a%20", true}, {"/*%20*", "/%20%20", true}, {"/a*", "/a%20", true},
	} {
		if got := matchPath(c.glob, c.path); got != c.want {
			t.Errorf("matchPath(%q, %q) = %v", c.glob, c.path, got)
		}
	}
}

func TestGlobCost(t *testing.T) {
	glob := "/" + strings.Repeat("*a", 200) + "b"
	if matchPath(glob, "/"+strings.Repeat("a", maxPath-1)) {
		t.Error("matched")
	}
	if matchPath(strings.Repeat("/**/a", 200)+"/b", strings.Repeat("/a", maxPath/2)) {
		t.Error("matched")
	}
}

func TestGlobForm(t *testing.T) {
	for glob, good := range map[string]bool{
		"/": true, "/**": true, "/*": true, "/a/**/b": true, "/a*b/*.tgz": true, "/@*%2F*": true, "/a%2Ab": true, "/a/": true,
		"": false, "a": false, "**": false, "/a**": false, "/***": false, "/a//b": false, "/..": false, "/a/../b": false,
		"/@*%2f*": false, "/%61": false, "/a?b": false, "/a b": false, "/ü": false, "/a\\b": false,
	} {
		if why := checkGlob(glob); (why == "") != good {
			t.Errorf("checkGlob(%q) = %q", glob, why)
		}
	}
}
