package review

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestPatch(t *testing.T) {
	diffs, _, err := Patch(strings.NewReader(patch))
	if err != nil || len(diffs) != 2 {
		t.Fatal(len(diffs), err)
	}
	// "--- b" within a hunk is a removed line "-- b", not the head of a file.
	if d := diffs[0]; d.Path != "x.go" || d.Added != 1 || d.Taken != 1 || d.Lines[4].Text() != " a" || d.Lines[4].Kind != "" || d.Lines[5].Text() != "--- b" || d.Lines[5].Kind != "del" {
		t.Errorf("%+v", d)
	}
	if d := diffs[1]; d.Path != "y" || d.Added != 1 || d.Taken != 0 || d.Lines[len(d.Lines)-1].Kind != "meta" {
		t.Errorf("%+v", d)
	}
	many, left, err := Patch(strings.NewReader("diff --git a/z b/z\n@@ -0,0 +1,30000 @@\n" + strings.Repeat("+l\n", 30000)))
	if err != nil || left != 30002-maxPatchLines || len(many[0].Lines) != maxPatchLines-1 {
		t.Errorf("%d left, %v", left, err)
	}
	for _, letter := range []string{"x", "é", "日"} {
		n := 1 << 20
		long, _, err := Patch(strings.NewReader("diff --git a/z b/z\n@@ -0,0 +1,2 @@\n+" + strings.Repeat(letter, n) + "\n+next\n"))
		if err != nil || len(long[0].Lines) != 3 || long[0].Lines[2].Text() != "+next" {
			t.Fatalf("a long line: %d lines, %v", len(long[0].Lines), err)
		}
		if l := long[0].Lines[1]; len(l.Text()) > maxLineBytes || strings.Trim(l.Text(), letter) != "+" || l.Cut < n*len(letter)+1-maxLineBytes || l.Cut > n*len(letter) {
			t.Errorf("a long line of %s: %d bytes shown, %d cut, %q", letter, len(l.Text()), l.Cut, strings.Trim(l.Text(), letter))
		}
	}
}

func TestPathOf(t *testing.T) {
	for in, want := range map[string]string{
		"a/x.go b/x.go": "x.go", "a/x y b/x y": "x y", `"a/x\"y" "b/x\"y"`: `"x\"y"`, "a/x b/y": "a/x b/y", "": "", "a/ b/": "", " ": " ", "nonsense here": "nonsense here",
	} {
		if got := pathOf(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// Whatever the bytes are: no line is lost without being counted, and nothing is counted twice.
func TestPatchLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := anyPatch().Draw(t, "lines")
		diffs, left, err := Patch(strings.NewReader(strings.Join(append(lines, ""), "\n")))
		if err != nil {
			t.Fatal(err)
		}
		heads, shown := 0, 0
		for i, d := range diffs {
			if i > 0 || d.Path != "" {
				heads++
			}
			shown += len(d.Lines)
		}
		if heads+shown+left != len(lines) {
			t.Fatalf("%d lines became %d heads, %d lines, %d left", len(lines), heads, shown, left)
		}
	})
}

func anyPatch() *rapid.Generator[[]string] {
	return rapid.SliceOfN(rapid.SampledFrom([]string{"diff --git a/p b/p", "@@ -1 +1 @@", "@@ -2,3 +1,3 @@", "@@ -2,3 +1,99999999999 @@", "+x = f(1, 2)", "-x = f(1)", "-  y", "+    y", " z", "", "+", "-", "\\ No newline", "--- a", "+é日", "-[-a-] {+b+}"}), 0, 60)
}

// TestPainterOnlyAdds: without colour and marks it changes nothing; with them, taking them away gives the text
// back, however it was cut.
func TestPainterOnlyAdds(t *testing.T) {
	sgr := regexp.MustCompile("\x1b\\[[0-9]+m")
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(append(anyPatch().Draw(t, "lines"), ""), "\n")
		o := PaintOptions{Colour: rapid.Bool().Draw(t, "colour"), Words: rapid.Bool().Draw(t, "words")}
		var b bytes.Buffer
		w := NewPainter(&b, o)
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "write")
			if _, err := w.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		got := b.String()
		if o.Colour {
			got = sgr.ReplaceAllString(got, "")
		}
		if o.Words && !o.Colour { // the marks are text here; without them it is as long as it was, so compare what is left
			for _, mark := range []string{"[-", "-]", "{+", "+}"} {
				got, text = strings.ReplaceAll(got, mark, ""), strings.ReplaceAll(text, mark, "")
			}
		}
		if got != text {
			t.Fatalf("%q became %q", text, got)
		}
	})
}

func paint(t *testing.T, in string, o PaintOptions) string {
	t.Helper()
	var b bytes.Buffer
	w := NewPainter(&b, o)
	if _, err := w.Write([]byte(in)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestWords(t *testing.T) {
	head := "diff --git a/x b/x\n@@ -1,9 +1,9 @@\n"
	for _, c := range []struct{ name, in, want string }{
		{"a word", "-return x[1] + y\n+return x[2] + y\n", "-return x[[-1-]] + y\n+return x[{+2+}] + y\n"},
		{"white space counts", "-    return x\n+        return x\n", "-[-    -]return x\n+{+        +}return x\n"},
		{"so does the end of a line", "-# note evil()\n+# note\n+evil()\n", "-# note[- -]evil()\n+# note\n+evil()\n"},
		{"nothing in common", "-alpha beta gamma delta\n+one two three four\n", "-alpha beta gamma delta\n+one two three four\n"},
		{"only added", "+one\n", "+one\n"},
		{"two blocks", "-a b c d\n+a b c e\n a\n-f(1)\n+f(2)\n", "-a b c [-d-]\n+a b c {+e+}\n a\n-f([-1-])\n+f({+2+})\n"},
		{"letters stay whole", "-naïve = 1\n+naïvé = 1\n", "-[-naïve-] = 1\n+{+naïvé+} = 1\n"},
	} {
		if got := paint(t, head+c.in, PaintOptions{Words: true}); got != head+c.want {
			t.Errorf("%s:\n%s", c.name, strings.TrimPrefix(got, head))
		}
	}
	big := head + strings.Repeat("-"+strings.Repeat("a b ", 500)+"\n", 9) + strings.Repeat("+"+strings.Repeat("a c ", 500)+"\n", 9)
	if got := paint(t, big, PaintOptions{Words: true}); got != big {
		t.Error("two large blocks were changed")
	}
}

func TestLongLinesAreKept(t *testing.T) {
	text := "diff --git a/x b/x\n@@ -0,0 +1,2 @@\n+" + strings.Repeat("日本", 100_000) + "\n+next\n"
	for _, o := range []PaintOptions{{}, {Words: true}} {
		if got := paint(t, text, o); got != text {
			t.Errorf("%+v: %d bytes of %d", o, len(got), len(text))
		}
	}
	if got := paint(t, text, PaintOptions{Colour: true, Words: true}); strings.Count(got, "\x1b[32m") != 2 || !strings.Contains(got, "本\x1b[0m\n\x1b[32m+next\x1b[0m\n") {
		t.Error("a long line is not coloured as one")
	}
}

// TestHunksAgreeWithGit: what we count as added and removed is what git counts, in a patch of real files whose
// lines look like heads of files and hunks.
func TestHunksAgreeWithGit(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) string {
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.invalid"}, args...)...)
		cmd.Env = append(cmd.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git %q: %v", args, err)
		}
		return string(out)
	}
	git("init", "-q")
	write(t, dir, "tricky", "-- a/x\n++ b/x\n@@ -1 +1 @@\ndiff --git a/q b/q\nsame\n\n- \n")
	write(t, dir, "sp ace", "one\ntwo\n")
	git("add", "-A")
	git("commit", "-qm", "base")
	write(t, dir, "tricky", "++ b/y\n-- a/y\nsame\ndiff --git a/r b/r\n@@ -5,5 +5,5 @@\n\n+ \n+")
	write(t, dir, "sp ace", "")
	write(t, dir, "new", "diff --git a/n b/n\n")
	git("add", "-A")
	diffs, _, err := Patch(strings.NewReader(git("diff", "--cached", "--no-renames", "--full-index")))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range diffs {
		got = append(got, fmt.Sprintf("%d\t%d\t%s", d.Added, d.Taken, d.Path))
	}
	if want := strings.Split(strings.TrimSpace(git("diff", "--cached", "--no-renames", "--numstat")), "\n"); !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, git says %q", got, want)
	}
}

// FuzzPatch: whatever a patch holds, what is shown of it has no control or direction character, and nothing is cut without a count.
func FuzzPatch(f *testing.F) {
	f.Add([]byte(patch))
	f.Add([]byte("@@ -1 +1 @@\n-\xff\x1b]0;\n+\u202e"))
	f.Fuzz(func(t *testing.T, in []byte) {
		diffs, _, err := Patch(bytes.NewReader(in))
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range diffs {
			for _, l := range d.Lines {
				if strings.ContainsAny(l.Text(), "\x1b\n\r\x00\u202e") || l.Cut < 0 {
					t.Fatalf("%+q, %d cut", l.Text(), l.Cut)
				}
			}
		}
	})
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
