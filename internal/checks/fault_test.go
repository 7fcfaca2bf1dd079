package checks

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// Each line of a file, as the only one that is new, and what its best faults are.
func TestFaults(t *testing.T) {
	for _, c := range []struct{ path, file, line, want string }{
		{"a.go", "package p\nfunc f(a, b int) bool {\n\tif a == b {\n\t\treturn true\n\t}\n\treturn false\n}\n", "if a == b {", "if !(a == b) {|if a != b {"},
		{"a.go", "package p\nfunc f(a, b int) bool {\n\treturn a < b && !g(a)\n}\n", "return a < b && !g(a)", "return a >= b && !g(a)|return a < b || !g(a)|return a < b && g(a)"},
		{"a.go", "package p\nfunc f() bool {\n\treturn true\n}\n", "return true", "return false"},
		{"a.go", "package p\nfunc f() error {\n\tif err := g(); err != nil {\n\t\treturn err\n\t}\n\treturn nil\n}\n", "return err", "return nil"},
		{"a.go", "package p\nfunc f(n int) int {\n\tn++\n\treturn n - 1\n}\n", "n++", "n--"},
		{"a.go", "package p\nfunc f(n int) int {\n\treturn n - 1\n}\n", "return n - 1", "return n + 1|return n - 2"},
		{"a.go", "package p\nfunc f(m map[string]int) {\n\tdelete(m, \"a\")\n}\n", "delete(m, \"a\")", "if false { delete(m, \"a\") }"},
		{"a.go", "package p\nfunc f(s string) string {\n\treturn s + \"x\"\n}\n", "return s + \"x\"", ""},
		{"a.go", "package p\nfunc f(x int) bool {\n\treturn x == 1 || x == 2\n}\n", "return x == 1 || x == 2", "return x != 1 || x == 2|return x == 1 || x != 2|return x == 2 || x == 2|return x == 1 || x == 3"},
		{"a.go", "package p\nconst a = 1\nvar b [2]int\n", "const a = 1", ""},
		{"a.go", "package p\nfunc f(x int) int {\n\tswitch x {\n\tcase 1:\n\t\treturn 2\n\t}\n\treturn 0\n}\n", "case 1:", ""},
		{"a_windows.go", "package p\nfunc f() bool {\n\treturn true\n}\n", "return true", ""},
		{"a.go", "//go:build ignore\n\npackage p\nfunc f() bool {\n\treturn true\n}\n", "return true", ""},
		{"a.go", "package p\nfunc f() bool {\n\treturn true\n", "return true", ""},

		{"a.py", "def f(a, b):\n    if a == b:\n        return a\n", "if a == b:", "if not (a == b):|if a != b:"},
		{"a.py", "def f(a):\n    return a and not b\n", "return a and not b", "return a or not b|return a and b|return None"},
		{"a.py", "def f(a):\n    return a is None\n", "return a is None", "return a is not None|return None"},
		{"a.py", "def f(a):\n    a.save(1)\n", "a.save(1)", "if False: a.save(1)"},
		{"a.py", "x = [\n    f(1),\n]\n", "f(1),", ""},
		{"a.py", "def f():\n    \"\"\"\n    return True\n    \"\"\"\n", "return True", ""},
		{"a.py", "def f(n):\n    return n + 1  # == 2\n", "return n + 1  # == 2", "return None  # == 2|return n - 1  # == 2|return n + 2  # == 2"},
		{"a.py", "def f(a=True): return a\n", "def f(a=True): return a", "def f(a=False): return a"},
		{"a.js", "function f(a) {\n  if (a === 1 && !b) {\n  }\n}\n", "if (a === 1 && !b) {", "if (!(a === 1 && !b)) {|if (a !== 1 && !b) {|if (a === 1 || !b) {|if (a === 1 && b) {|if (a === 2 && !b) {"},
		{"a.js", "const r = /a == b/.test(x) // c < d\n", "const r = /a == b/.test(x) // c < d", ""},
		{"a.js", "function f(s) {\n  s.push(`a == ${b}`);\n}\n", "s.push(`a == ${b}`);", "if (false) s.push(`a == ${b}`);"},
		{"a.ts", "const x: Array<string> = f<number>(y)\n", "const x: Array<string> = f<number>(y)", ""},
		{"a.rs", "fn f<'a>(a: &'a u8) -> bool {\n    if *a >= 3 {\n        return true;\n    }\n    false\n}\n", "if *a >= 3 {", "if !(*a >= 3) {|if *a < 3 {|if *a >= 4 {"},
		{"a.rs", "fn f(a: Option<u8>) -> bool {\n    if let Some(x) = a && x == 1 {\n    }\n}\n", "if let Some(x) = a && x == 1 {", ""},
		{"a.rs", "match x {\n    true => 1,\n    false => 2,\n}\n", "true => 1,", ""},
		{"A.java", "class A {\n  boolean f(int a) {\n    while (true) {\n    }\n  }\n}\n", "while (true) {", ""},
		{"A.java", "class A {\n  boolean f(int a) {\n    return a > 1;\n  }\n}\n", "return a > 1;", "return a <= 1;|return a > 2;"},
		{"A.java", "class A {\n  Map<String, List<Integer>> m;\n}\n", "Map<String, List<Integer>> m;", ""},
		{"a.c", "#define A (b == c)\nint f(int a) {\n  return a != 0;\n}\n", "#define A (b == c)", ""},
		{"a.c", "#define A \\\n  (b == c)\nint x;\n", "(b == c)", ""},
		{"a.rb", "def f(a)\n  a == 1 && b # c == d\nend\n", "a == 1 && b # c == d", "a != 1 && b # c == d|a == 1 || b # c == d|a == 2 && b # c == d"},
		{"a.txt", "a == b\n", "a == b", ""},
	} {
		at := strings.Index(c.file, c.line)
		from := strings.LastIndexByte(c.file[:at], '\n') + 1
		end := from + strings.IndexByte(c.file[from:]+"\n", '\n') + 1
		base := c.file[:from] + c.file[min(end, len(c.file)):]
		var got []string
		for _, f := range Faults(c.path, []byte(base), []byte(c.file)) {
			if f.Was == c.line {
				got = append(got, f.Now)
			}
		}
		if strings.Join(got, "|") != c.want {
			t.Errorf("%s: %s: %q, expected %q", c.path, c.line, strings.Join(got, "|"), c.want)
		}
	}
}

func TestFaultsComeInTurns(t *testing.T) {
	src := []byte("package p\n\nfunc f(a, b int) int {\n\tif a == b && a < 3 {\n\t\treturn a + 1\n\t}\n\tlog.Print(a == b)\n\treturn b - 1\n}\n")
	var lines []int
	for _, f := range Faults("a.go", nil, src) {
		lines = append(lines, f.Line)
	}
	if len(lines) < 7 || !slices.Equal(lines[:4], []int{4, 5, 8, 7}) || lines[4] != 4 {
		t.Errorf("lines %v: the best of each line comes before the second of any, and what is logged last", lines)
	}
	if got := Faults("a.go", src, src); len(got) != 0 {
		t.Errorf("faults where nothing changed: %+v", got)
	}
	many := []byte("package p\n" + strings.Repeat("func f(a, b int) bool {\n\treturn a == b\n}\n", 100))
	if got := Faults("a.go", nil, many); len(got) != 0 {
		// Equal names are a mistake that every fault inherits; it is not held against them.
		if len(got) != MaxFaults {
			t.Errorf("%d faults, expected %d", len(got), MaxFaults)
		}
	}
}

// FuzzFaults: a planted fault changes exactly the line that it names, which is one of the change's and not the base's; at most MaxFaults; twice the same gives the same.
func FuzzFaults(f *testing.F) {
	f.Add("a.go", "package p\n", "package p\nfunc f() bool { return 1 == 2 }\n")
	f.Add("a.py", "", "def f(a):\n  if a and not b: return 'x' + 1\n")
	f.Add("a.js", "x", "if (a === /[/]/) { x.y(`\n`); }\n")
	f.Add("a.rs", "", "fn f() { r#\"a\"#; 'a'; if x < 1 {} }")
	f.Add("a.c", "", "#if a \\\n b\n x != y /*")
	f.Add("a.rb", "", "a == 1\r\nb and c")
	f.Add("a.ts", "", "\"\\")
	f.Fuzz(func(t *testing.T, path, base, changed string) {
		now, was := splitLines([]byte(changed)), fresh([]byte(base), []byte(changed))
		got := Faults(path, []byte(base), []byte(changed))
		if len(got) > MaxFaults {
			t.Errorf("%d faults", len(got))
		}
		for _, f := range got {
			lines := splitLines(f.Content)
			if len(lines) != len(now) {
				t.Fatalf("%d lines became %d", len(now), len(lines))
			}
			for i := range lines {
				if (lines[i] != now[i]) != (i == f.Line-1) {
					t.Fatalf("line %d of %+v", i+1, f)
				}
			}
			if !was[f.Line-1] {
				t.Errorf("line %d is the base's", f.Line)
			}
			if !bytes.Contains(f.Content, []byte(f.Now)) || strings.Contains(f.Was+f.Now, "\n") {
				t.Errorf("%+v", f)
			}
		}
		if !slices.EqualFunc(got, Faults(path, []byte(base), []byte(changed)), func(a, b Fault) bool { return bytes.Equal(a.Content, b.Content) }) {
			t.Error("twice the same gives not the same")
		}
	})
}

// FuzzPair: the pairing of two texts is a common subsequence, as long as that of a plain table: what is paired is equal, in order, and what is not makes
// one into the other.
func FuzzPair(f *testing.F) {
	f.Add("a\nb\nc\n", "a\nc\nd\n")
	f.Add("", "x")
	f.Add("a\na\nb\na\nb\nb\na\n", "b\na\nb\na\na\nb\n")
	f.Fuzz(func(t *testing.T, left, right string) {
		a, b := splitLines([]byte(left)), splitLines([]byte(right))
		p := pair(a, b)
		last, n := -1, 0
		for i, j := range p.a {
			if j < 0 {
				continue
			}
			if a[i] != b[j] || p.b[j] != i || j <= last {
				t.Fatalf("%v of %q %q", p, a, b)
			}
			last = j
			n++
		}
		if len(a)*len(b) < 10_000 && n != common(a, b) {
			t.Errorf("%d lines paired of %d: %q %q", n, common(a, b), a, b)
		}
	})
}

// common is the length of the longest common subsequence, by the plain table.
func common(a, b []string) int {
	row := make([]int, len(b)+1)
	for _, x := range a {
		diagonal := 0
		for j, y := range b {
			up := row[j+1]
			if x == y {
				row[j+1] = diagonal + 1
			} else {
				row[j+1] = max(row[j+1], row[j])
			}
			diagonal = up
		}
	}
	return row[len(b)]
}
