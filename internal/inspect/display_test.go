package inspect

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"sallyport.dev/sallyport"
)

func TestDisplay(t *testing.T) {
	for in, want := range map[string]string{
		"plain/ü.go": "plain/ü.go", "a\x1b[2Jb": "a<U+001B>[2Jb", "x\u202egnp": "x<U+202E>gnp", "a\u200bb": "a<U+200B>b", "caf\xe9": "caf<0xE9>", "a\u00a0b": "a<U+00A0>b", "a\nb": "a<U+000A>b",
		"k/ghp_" + body36 + "/x": "k/<redacted>/x",
	} {
		if got := Display(in); got != want {
			t.Errorf("%q: %q, expected %q", in, got, want)
		}
	}
	if got := Display(strings.Repeat("ü", 5000)); len(got) > displayBytes || !utf8.ValidString(got) {
		t.Errorf("%d bytes, valid %v", len(got), utf8.ValidString(got))
	}
}

// FuzzInspect: whatever the names and contents, there is a verdict, every finding is of the table and safe to
// show, and a secret planted in content, name or link never appears in one.
func FuzzInspect(f *testing.F) {
	for _, values := range credentials() {
		f.Add("dir/file.go", "120000", values[0], values[0], "old")
	}
	f.Add("a\u202e/.g\u200cit/x", "100755", "{", "\x00\xff\xfe", "")
	f.Add("package.json", "100644", `{"scripts":{"install":1}}`, "", `{}`)
	f.Add("go.mod", "100644", "replace (\n", "..", "x")
	f.Add("AWS_SECRET_ACCESS_KEY=", "100644", body36+"/+a9", "-----BEGIN ", "PRIVATE KEY-----")
	secret := "ghp_" + body36
	f.Fuzz(func(t *testing.T, path, mode, content, target, before string) {
		if path == target {
			return
		}
		tr := newTree("README", strings.ToUpper(path))
		tr.add(path, mode, content+"\n"+secret+"\n").add(target+"/"+secret, modeLink, target+"\x20"+secret)
		tr.edit("p/"+path, before, content)
		if path == target+"/"+secret || "p/"+path == target+"/"+secret {
			return
		}
		found, err := Inspect(context.Background(), tr.in)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range found {
			if _, known := byID[x.Rule]; !known || x.Message == "" {
				t.Fatalf("finding %+v is not of the table", x)
			}
			for _, s := range []string{x.Path, x.Message, x.Todo} {
				if strings.Contains(s, secret) || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || bidi(r) }) {
					t.Fatalf("unsafe text in %+v", x)
				}
				if redact(s) != s {
					t.Fatalf("a credential is left in %q", s)
				}
			}
		}
	})
}

func BenchmarkInspect(b *testing.B) {
	tr := newTree("o")
	line := "func (r *resolver) keepLinks(links []Link) error { return fmt.Errorf(\"link %s: %w\", l.Path, err) }\n"
	tr.add("a.go", modeFile, strings.Repeat(line, 4<<20/len(line)))
	b.SetBytes(4 << 20)
	for b.Loop() {
		tr.inspect(b)
	}
}

// BenchmarkChange is a change of 5,000 files of a kilobyte or two in a repository of 20,000, with the files that
// are read one by one: attributes, submodules, a lock file.
func BenchmarkChange(b *testing.B) {
	var base []string
	for n := range 20000 {
		base = append(base, fmt.Sprintf("src/pkg%d/file%d.go", n%300, n))
	}
	tr := newTree(base...)
	known := map[string]bool{}
	for _, p := range base {
		known[p] = true
	}
	tr.in.BaseHas = func(p string) bool { return known[p] }
	line := "func (r *resolver) keepLinks(links []Link) error { return fmt.Errorf(\"link %s: %w\", l.Path, err) }\n"
	for n := range 5000 {
		content := fmt.Sprintf("package p%d\n", n) + strings.Repeat(line, 10+n%10)
		if n%5 == 0 {
			p := base[n]
			tr.in.Changes = append(tr.in.Changes, sallyport.Change{Path: p, Status: sallyport.ChangeModified, OldMode: modeFile, NewMode: modeFile, OldID: tr.put(line + content), NewID: tr.put(content), Size: int64(len(content))})
			continue
		}
		tr.add(fmt.Sprintf("src/new%d/file%d.go", n%300, n), modeFile, content)
	}
	tr.add(".gitattributes", modeFile, "*.go text\n*.png binary\nsrc/**/gen_*.go linguist-generated\n/docs/* export-ignore\n")
	tr.add(".gitmodules", modeFile, gitmodules("a", "path = a", "url = https://h/a"))
	tr.add("yarn.lock", modeFile, strings.Repeat("a@1:\n  version \"1\"\n  resolved \"https://r.example/a.tgz\"\n  integrity sha512-A\n", 2000))
	b.ResetTimer()
	for b.Loop() {
		if found := tr.inspect(b); !slices.Contains(rulesOf(found), "size.count") {
			b.Fatal("nothing is found")
		}
	}
}
