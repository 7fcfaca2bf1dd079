package checks

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func kindsOf(ws []Weakening) string {
	var out []string
	for _, w := range ws {
		out = append(out, w.Kind+" "+w.Test)
	}
	return strings.Join(out, "; ")
}

// Each case is one test in a file, before and after, and what is told of it. Beside each trick stands the edit
// that looks like it and is none.
func TestWeakened(t *testing.T) {
	goTest := func(body string) string {
		return "package p\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {\n\t" + strings.ReplaceAll(body, "\n", "\n\t") + "\n}\n"
	}
	py := func(body string) string {
		return "import unittest\n\n\nclass TestX(unittest.TestCase):\n    def test_a(self):\n        " + strings.ReplaceAll(body, "\n", "\n        ") + "\n\n    def test_b(self):\n        self.assertEqual(f(2), 3)\n"
	}
	js := func(body string) string {
		return "describe('d', () => {\n  it('a', () => {\n    " + strings.ReplaceAll(body, "\n", "\n    ") + "\n  })\n  it('b', () => {\n    expect(f(2)).toBe(3)\n  })\n})\n"
	}
	rs := func(attribute, body string) string {
		return "#[cfg(test)]\nmod tests {\n    " + attribute + "\n    fn a() {\n        " + body + "\n    }\n}\n"
	}
	java := func(mark, body string) string {
		return "class ATest {\n  @Test\n" + mark + "  void a() {\n    " + body + "\n  }\n}\n"
	}
	for _, c := range []struct{ name, path, was, now, want string }{
		{"go removed", "a_test.go", goTest("f(t)") + "\nfunc TestB(t *testing.T) {\n\tif f() != 1 {\n\t\tt.Error()\n\t}\n}\n", goTest("f(t)"), "test-removed TestB"},
		{"go renamed", "a_test.go", goTest("f(t)\ng(t)\nh(t)"), strings.ReplaceAll(goTest("f(t)\ng(t)\nh(t)"), "TestA", "TestOther"), ""},
		{"go moved in its file", "a_test.go", "package p\nfunc TestA(t *testing.T) {\n\tf(t)\n}\nfunc TestB(t *testing.T) {\n\tg(t)\n}\n", "package p\nfunc TestB(t *testing.T) {\n\tg(t)\n}\nfunc TestA(t *testing.T) {\n\tf(t)\n}\n", ""},
		{"go skipped", "a_test.go", goTest("f(t)"), goTest("t.Skip(\"flaky\")\nf(t)"), "test-disabled TestA"},
		{"go skip was there", "a_test.go", goTest("t.Skip(\"a\")\nf(t)"), goTest("t.Skip(\"b\")\nf(t)"), "expected-changed TestA"},
		{"go skip in a comment", "a_test.go", goTest("f(t)"), goTest("f(t) // t.Skip()"), ""},
		{"go fewer assertions", "a_test.go", goTest("if f() != 1 {\n\tt.Error(1)\n}\nif g() != 2 {\n\tt.Fatal(2)\n}"), goTest("if f() != 1 {\n\tt.Error(1)\n}"), "fewer-assertions TestA"},
		{"go more assertions", "a_test.go", goTest("if f() != 1 {\n\tt.Error(1)\n}"), goTest("if f() != 1 {\n\tt.Error(1)\n}\nif g() != 2 {\n\tt.Fatal(2)\n}"), ""},
		{"go fewer cases", "a_test.go", goTest("for _, c := range []c{\n\t{1, 2},\n\t{3, 4},\n} {\n\tcheck(t, c)\n}"), goTest("for _, c := range []c{\n\t{1, 2},\n} {\n\tcheck(t, c)\n}"), "fewer-cases TestA"},
		{"go expected value", "a_test.go", goTest("if got := f(); got != 1 {\n\tt.Error(got)\n}"), goTest("if got := f(); got != 2 {\n\tt.Error(got)\n}"), "expected-changed TestA"},
		{"go comparison", "a_test.go", goTest("if got := f(); got != 1 {\n\tt.Error(got)\n}"), goTest("if got := f(); got < 1 {\n\tt.Error(got)\n}"), "weaker-assertion TestA"},
		{"go tolerance", "a_test.go", goTest("if math.Abs(f()-1) > tolerance*0.01 {\n\tt.Error()\n}"), goTest("if math.Abs(f()-1) > tolerance*0.5 {\n\tt.Error()\n}"), "looser-bound TestA"},
		{"go tighter", "a_test.go", goTest("if math.Abs(f()-1) > tolerance*0.5 {\n\tt.Error()\n}"), goTest("if math.Abs(f()-1) > tolerance*0.01 {\n\tt.Error()\n}"), ""},
		{"go time", "a_test.go", goTest("wait(t, 5*time.Second)"), goTest("wait(t, 5*time.Minute)"), "looser-bound TestA"},
		{"go never", "a_test.go", goTest("if f() != 1 {\n\tt.Error()\n}"), goTest("if false && f() != 1 {\n\tt.Error()\n}"), "trivial-assertion TestA"},
		{"go itself", "a_test.go", goTest("require.Equal(t, 1, f())"), goTest("x := f()\nrequire.Equal(t, x, x)"), "trivial-assertion TestA"},
		{"go testify", "a_test.go", goTest("require.Equal(t, 1, f())"), goTest("require.NotNil(t, f())"), "weaker-assertion TestA"},
		{"go recover", "a_test.go", goTest("f(t)"), goTest("defer func() { _ = recover() }()\nf(t)"), "swallowed-failure TestA"},
		{"go exit", "a_test.go", goTest("f(t)"), goTest("os.Exit(0)\nf(t)"), "swallowed-failure TestA"},
		{"go new and empty", "a_test.go", goTest("f(t)"), goTest("f(t)") + "\nfunc TestB(t *testing.T) {\n\tg()\n}\n", "fewer-assertions TestB"},
		{"go new", "a_test.go", goTest("f(t)"), goTest("f(t)") + "\nfunc TestB(t *testing.T) {\n\tcheck(t, 1)\n}\n", ""},
		{"go reformatted", "a_test.go", goTest("f(t,  1)"), goTest("f(t, 1)"), ""},

		{"python removed", "test_a.py", py("self.assertEqual(f(1), 2)"), strings.Split(py("self.assertEqual(f(1), 2)"), "\n    def test_b")[0] + "\n", "test-removed TestX > test_b"},
		{"python skipped", "test_a.py", "def test_a():\n    assert f() == 1\n", "@pytest.mark.skip(reason='x')\ndef test_a():\n    assert f() == 1\n", "test-disabled test_a"},
		{"python xfail", "test_a.py", "def test_a():\n    assert f() == 1\n", "@pytest.mark.xfail\ndef test_a():\n    assert f() == 1\n", "test-disabled test_a"},
		{"python decorated", "test_a.py", "def test_a():\n    assert f() == 1\n", "@pytest.mark.slow\ndef test_a():\n    assert f() == 1\n", ""},
		{"python weaker", "test_a.py", py("self.assertEqual(f(1), 2)"), py("self.assertTrue(f(1))"), "weaker-assertion TestX > test_a"},
		{"python stronger", "test_a.py", py("self.assertTrue(f(1))"), py("self.assertEqual(f(1), 2)"), ""},
		{"python comparison lost", "test_a.py", "def test_a():\n    assert f() == 1\n", "def test_a():\n    assert f()\n", "weaker-assertion test_a"},
		{"python at least", "test_a.py", "def test_a():\n    assert f() == 1\n", "def test_a():\n    assert f() >= 1\n", "weaker-assertion test_a"},
		{"python expected", "test_a.py", "def test_a():\n    assert f() == 'x'\n", "def test_a():\n    assert f() == 'y'\n", "expected-changed test_a"},
		{"python places", "test_a.py", py("self.assertAlmostEqual(f(1), 2, places=7)"), py("self.assertAlmostEqual(f(1), 2, places=1)"), "looser-bound TestX > test_a"},
		{"python true", "test_a.py", "def test_a():\n    assert f() == 1\n", "def test_a():\n    assert f() == 1 or True\n", "trivial-assertion test_a"},
		{"python itself", "test_a.py", py("self.assertEqual(f(1), 2)"), py("self.assertEqual(f(1), f(1))"), "trivial-assertion TestX > test_a"},
		{"python swallowed", "test_a.py", "def test_a():\n    check(f())\n", "def test_a():\n    try:\n        check(f())\n    except Exception:\n        pass\n", "swallowed-failure test_a"},
		{"python handled before", "test_a.py", "def test_a():\n    try:\n        check(f(1))\n    except Exception:\n        pass\n", "def test_a():\n    try:\n        check(g(1))\n    except ValueError:\n        pass\n", ""},
		{"python cases", "test_a.py", "@pytest.mark.parametrize('a', [\n    (1, 2),\n    (3, 4),\n])\ndef test_a(a):\n    assert f(a)\n", "@pytest.mark.parametrize('a', [\n    (1, 2),\n])\ndef test_a(a):\n    assert f(a)\n", "fewer-cases "},
		{"python renamed", "test_a.py", "def test_a():\n    x = f(1)\n    y = g(x)\n    assert y == 3\n", "def test_better():\n    x = f(1)\n    y = g(x)\n    assert y == 3\n", ""},

		{"js removed", "a.test.js", js("expect(f(1)).toBe(2)"), strings.Split(js("expect(f(1)).toBe(2)"), "\n  it('b'")[0] + "\n})\n", "test-removed d > b"},
		{"js skipped", "a.test.js", js("expect(f(1)).toBe(2)"), strings.Replace(js("expect(f(1)).toBe(2)"), "it('a'", "it.skip('a'", 1), "test-disabled d > a"},
		{"js xit", "a.test.ts", js("expect(f(1)).toBe(2)"), strings.Replace(js("expect(f(1)).toBe(2)"), "it('a'", "xit('a'", 1), "test-disabled d > a"},
		{"js suite skipped", "a.test.js", js("expect(f(1)).toBe(2)"), strings.Replace(js("expect(f(1)).toBe(2)"), "describe(", "describe.skip(", 1), "test-disabled d"},
		{"js focused", "a.test.js", js("expect(f(1)).toBe(2)"), strings.Replace(js("expect(f(1)).toBe(2)"), "it('a'", "it.only('a'", 1), "test-disabled d > a"},
		{"js unfocused", "a.test.js", strings.Replace(js("expect(f(1)).toBe(2)"), "it('a'", "it.only('a'", 1), js("expect(f(1)).toBe(2)"), ""},
		{"js weaker", "a.test.js", js("expect(f(1)).toBe(2)"), js("expect(f(1)).toBeTruthy()"), "weaker-assertion d > a"},
		{"js expected", "a.test.js", js("expect(f(1)).toBe(2)"), js("expect(f(1)).toBe(3)"), "expected-changed d > a"},
		{"js itself", "a.test.js", js("expect(f(1)).toBe(2)"), js("expect(true).toBe(true)"), "trivial-assertion d > a"},
		{"js swallowed", "a.test.js", js("check(f(1))"), js("try { check(f(1)) } catch (e) {}"), "swallowed-failure d > a"},
		{"js exit", "a.test.js", js("check(f(1))"), js("check(f(1))") + "process.exit(0)\n", "swallowed-failure "},
		{"js renamed variable", "a.test.js", js("const a = f(1)\nexpect(a).toBe(2)"), js("const b = f(1)\nexpect(b).toBe(2)"), ""},

		{"rust ignored", "lib.rs", rs("#[test]", "assert_eq!(f(1), 2);"), rs("#[test]\n    #[ignore]", "assert_eq!(f(1), 2);"), "test-disabled a"},
		{"rust no test", "lib.rs", rs("#[test]", "assert_eq!(f(1), 2);"), rs("#[allow(dead_code)]", "assert_eq!(f(1), 2);"), "test-removed a"},
		{"rust weaker", "lib.rs", rs("#[test]", "assert_eq!(f(1), 2);"), rs("#[test]", "assert!(f(1) > 0);"), "weaker-assertion a"},
		{"rust true", "lib.rs", rs("#[test]", "check(f(1));"), rs("#[test]", "assert!(true);"), "trivial-assertion a"},
		{"rust comment", "lib.rs", rs("#[test]", "assert_eq!(f(1), 2);"), rs("#[test]", "assert_eq!(f(1), 2); // #[ignore]"), ""},
		{"java disabled", "ATest.java", java("", "assertEquals(2, f(1));"), java("  @Disabled\n", "assertEquals(2, f(1));"), "test-disabled a"},
		{"java weaker", "ATest.java", java("", "assertEquals(2, f(1));"), java("", "assertNotNull(f(1));"), "weaker-assertion a"},
		{"java removed", "ATest.java", java("", "assertEquals(2, f(1));"), "class ATest {\n}\n", "test-removed a"},
		{"ruby skipped", "a_spec.rb", "it \"a\" do\n  expect(f(1)).to eq(2)\nend\n", "xit \"a\" do\n  expect(f(1)).to eq(2)\nend\n", "test-disabled a"},
		{"shell swallowed", "a.bats", "@test \"a\" {\n  run f\n}\n", "@test \"a\" {\n  run f || true\n}\n", "swallowed-failure a"},
		{"golden", "testdata/out.golden", "a\nb\n", "a\nc\n", "rewritten-expected "},
		{"snapshot", "src/__snapshots__/a.js.snap", "a\n", "", "rewritten-expected "},
	} {
		if got := kindsOf(Weakened(c.path, []byte(c.was), []byte(c.now))); got != c.want {
			t.Errorf("%s: %q, expected %q", c.name, got, c.want)
		}
		if got := Weakened(c.path, []byte(c.was), []byte(c.was)); len(got) != 0 {
			t.Errorf("%s: nothing changed and %v", c.name, got)
		}
	}
}

func TestWeakenedAcrossFiles(t *testing.T) {
	a, b := "package p\n\nfunc TestA(t *testing.T) {\n\tif f() != 1 {\n\t\tt.Error()\n\t}\n}\n", "package p\n\nfunc TestB(t *testing.T) {\n\tg(t)\n}\n"
	moved := []Edit{{"a_test.go", []byte(a), nil}, {"b_test.go", []byte(b), []byte(b + strings.TrimPrefix(a, "package p\n"))}}
	if got := kindsOf(WeakenedBy(moved)); got != "" {
		t.Errorf("a test that moved: %s", got)
	}
	gutted := []Edit{{"a_test.go", []byte(a), nil}, {"b_test.go", []byte(b), []byte(b + "func TestA(t *testing.T) {\n\tf()\n}\n")}}
	if got := WeakenedBy(gutted); kindsOf(got) != "fewer-assertions TestA" || got[0].Path != "b_test.go" {
		t.Errorf("a test that moved and lost its assertion: %+v", got)
	}
	if got := WeakenedBy([]Edit{{"a_test.go", []byte(a), nil}}); kindsOf(got) != "test-removed TestA" || got[0].Line != 3 {
		t.Errorf("a file that is gone: %+v", got)
	}
	if got := WeakenedBy([]Edit{{"a_test.go", nil, []byte(a)}}); len(got) != 0 {
		t.Errorf("a file that is new: %+v", got)
	}
}

// Real test files against themselves with one line left out: nothing is told of other tests.
func TestWeakenedTellsWhere(t *testing.T) {
	src, err := os.ReadFile("read_test.go")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(src), "\n")
	told := 0
	for _, u := range units("read_test.go", src) {
		if !u.test || len(u.lines) < 3 {
			continue
		}
		for _, c := range u.lines[1:] {
			if !strings.Contains(c.text, "t . Error") || strings.Count(c.text, "{") != strings.Count(c.text, "}") {
				continue
			}
			without := strings.Join(lines[:c.number-1], "") + strings.Join(lines[c.number:], "")
			for _, w := range Weakened("read_test.go", src, []byte(without)) {
				told++
				if w.Test != u.name {
					t.Errorf("line %d of %s is gone, and %+v", c.number, u.name, w)
				}
			}
		}
	}
	if told == 0 {
		t.Error("nothing is told")
	}
}

// FuzzWeakened: what did not change is not weakened; each finding is of the file, in its lines, in one line and said once.
func FuzzWeakened(f *testing.F) {
	f.Add("a_test.go", "package p\nfunc TestA(t *testing.T) { t.Error(1) }\n", "package p\nfunc TestA(t *testing.T) { t.Skip() }\n")
	f.Add("test_a.py", "@skip\ndef test_a():\n  assert 1 == 1", "")
	f.Add("a.test.js", "it('a', () => { expect(1).toBe(2) })", "it.only('a', () => {")
	f.Add("a.rs", "#[test]\nfn a() { assert!(x) }", "#[")
	f.Add("x.snap", "a", "b")
	f.Add("a.sh", "exit 0", "\x00")
	f.Fuzz(func(t *testing.T, path, was, now string) {
		for _, s := range []string{was, now} {
			if got := Weakened(path, []byte(s), []byte(s)); len(got) != 0 {
				t.Errorf("nothing changed and %v", got)
			}
		}
		seen := map[string]bool{}
		for _, w := range Weakened(path, []byte(was), []byte(now)) {
			key := fmt.Sprintf("%q %q", w.Test, w.Kind)
			if w.Path != path || w.Kind == "" || w.Detail == "" || strings.Contains(w.Detail, "\n") || w.Line < 0 || w.Line > strings.Count(was, "\n")+strings.Count(now, "\n")+2 || seen[key] {
				t.Errorf("%+v", w)
			}
			seen[key] = true
		}
	})
}
