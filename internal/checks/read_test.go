package checks

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"sallyport.dev/sallyport"
)

// holdFolder compares what the files of a folder say: format, tests, passed, failed, skipped. Empty: nothing.
func holdFolder(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != len(want) {
		t.Errorf("%s holds %d files, and %d are expected", dir, len(entries), len(want))
	}
	for _, e := range entries {
		f, err := os.Open(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Read("", f)
		_ = f.Close()
		if err != nil {
			t.Errorf("%s: %v", e.Name(), err)
			continue
		}
		said := ""
		if got != nil {
			said = fmt.Sprint(got.Format, " ", got.Tests, got.Passed, got.Failed, got.Skipped)
		}
		if w, ok := want[e.Name()]; !ok || said != w {
			t.Errorf("%s: %q, expected %q", e.Name(), said, w)
		}
	}
}

// What the runners themselves wrote (testdata/output).
func TestReadOfRunners(t *testing.T) {
	holdFolder(t, "testdata/output", map[string]string{
		"cargo-build.txt": "", "cargo-none.txt": "cargo 0 0 0 0", "cargo.txt": "cargo 3 2 1 1",
		"go-build.txt": "go 0 0 0 0", "go-json-build.txt": "go-json 0 0 0 0", "go-json-testmain.txt": "go-json 0 0 0 0", "go-json.txt": "go-json 5 4 1 1",
		"go-none.txt": "go 0 0 0 0", "go-testmain.txt": "go 1 1 0 0", "go-v-none.txt": "go 0 0 0 0", "go-v-testmain.txt": "go 1 1 0 0", "go-v.txt": "go 5 4 1 1", "go-vet.txt": "", "go.txt": "go 2 1 1 0",
		"jest-none.txt": "jest 0 0 0 0", "jest-syntax.txt": "jest 0 0 0 0", "jest.txt": "jest 2 1 1 2",
		"mocha-none.txt": "mocha 0 0 0 0", "mocha-tap.txt": "tap 2 1 1 1", "mocha.txt": "mocha 2 1 1 1", "mocha.xml": "junit 2 1 1 1",
		"node-exit.txt": "tap 0 0 0 0", "node-none.txt": "tap 0 0 0 0", "node-spec.txt": "node 6 5 1 2", "node-syntax.txt": "tap 0 0 0 0", "node-tap.txt": "tap 5 4 1 2", "node.xml": "junit 5 4 1 2",
		"pytest-exit-in-conftest.txt": "", "pytest-exit-in-import.txt": "pytest 0 0 0 0", "pytest-import-error.txt": "pytest 1 0 1 0", "pytest-none.txt": "pytest 0 0 0 0", "pytest-q.txt": "pytest 1 1 0 0", "pytest-syntax-error.txt": "pytest 1 0 1 0", "pytest.txt": "pytest 3 2 1 2", "pytest.xml": "junit 3 2 1 2",
		"tape.txt": "tap 2 2 0 0", "unittest-none.txt": "unittest 0 0 0 0", "unittest-syntax-error.txt": "", "unittest.txt": "unittest 2 1 1 1",
		"vitest-none.txt": "vitest 0 0 0 0", "vitest-syntax.txt": "vitest 0 0 0 0", "vitest-tap.txt": "tap 2 1 1 2", "vitest.txt": "vitest 2 1 1 2",
	})
}

// What a cheat wrote over a runner's shoulder (testdata/cheats): the fewest tests count.
func TestReadOfCheats(t *testing.T) {
	holdFolder(t, "testdata/cheats", map[string]string{
		"go-json-events-nobody-began.txt": "go-json 1 0 1 0", "go-passes-nobody-began.txt": "go 1 0 1 0", "go-passes-of-nothing.txt": "go 0 0 0 0", "go-testmain-left-at-once.txt": "go 1 1 0 0",
		"junit-more-cases-than-named.txt": "junit 1 1 0 0", "junit-cut-off.txt": "junit 2 1 1 0", "tap-more-than-planned.txt": "tap 1 1 0 0",
		"pytest-closing-before-the-session.txt": "pytest 0 0 0 0", "pytest-more-than-collected.txt": "pytest 2 2 0 0", "pytest-left-at-once.txt": "pytest 0 0 0 0", "pytest-two-closings.txt": "pytest 2 1 1 0",
		"unittest-two-closings.txt": "unittest 0 0 0 0", "node-two-closings.txt": "node 1 1 0 0", "node-file-left-at-once.txt": "node 0 0 0 0",
		"jest-two-closings.txt": "jest 0 0 0 1", "jest-more-than-total.txt": "jest 2 2 0 0", "vitest-two-closings.txt": "vitest 2 1 1 0", "mocha-two-closings.txt": "mocha 2 1 1 0",
		"cargo-closing-nobody-began.txt": "cargo 0 0 0 0", "cargo-more-than-announced.txt": "cargo 2 2 0 0", "cargo-left-at-once.txt": "cargo 0 0 0 0",
		"rspec-two-closings.txt": "rspec 2 1 1 0", "minitest-two-closings.txt": "minitest 1 0 1 1", "phpunit-closing-before-the-run.txt": "phpunit 0 0 0 0",
		"maven-two-closings.txt": "maven 2 1 1 0", "gradle-two-closings.txt": "gradle 2 1 1 0", "dotnet-two-closings.txt": "dotnet 2 1 1 0", "ctest-two-closings.txt": "ctest 2 1 1 0", "exunit-two-closings.txt": "exunit 2 1 1 0",
		"other-runner-imitated.txt": "pytest 0 0 0 0", "overwritten-by-return.txt": "pytest 3 3 0 0",
	})
}

// Runs that announce themselves are summed, as with several packages in one check.
func TestReadSumsRuns(t *testing.T) {
	for _, c := range []struct {
		format, text string
		want         int
	}{
		{"cargo", "running 2 tests\ntest result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\nrunning 3 tests\ntest result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n", 5},
		{"cargo", "    Starting 3 tests across 1 binary\n     Summary [   0.006s] 3 tests run: 3 passed, 1 skipped\n", 3},
		{"jest", "> a@1.0.0 test\n> jest\nTests:       2 passed, 2 total\n> @s/b@1.0.0 test\n> jest\nTests:       3 passed, 3 total\n", 5},
		{"pytest", "=== test session starts ===\ncollected 4 items / 2 deselected / 2 selected\n=== 2 passed, 2 deselected in 0.1s ===\n=== test session starts ===\ncollected 1 item\n=== 1 passed in 0.1s ===\n", 3},
		{"pytest", "===== 2 xfailed, 1 xpassed, 1 rerun, 3 warnings in 61.02s (0:01:01) =====\n", 3},
		{"phpunit", "PHPUnit 9.6 by S\nTests: 5, Assertions: 6, Errors: 1, Failures: 1, Skipped: 1.\nPHPUnit 9.6 by S\nOK (2 tests, 2 assertions)\n", 6},
		{"maven", " T E S T S\nTests run: 2, Failures: 0, Errors: 0, Skipped: 1\n T E S T S\nTests run: 3, Failures: 0, Errors: 1, Skipped: 0\n", 4},
		{"tap", "1..2\nok 1\nnot ok 2 - x # TODO later\n", 1},
		{"tap", "TAP version 14\n# Subtest: a\n    ok 1 - b\n    not ok 2 - c\n    1..2\nnot ok 1 - a\nok 2 - d # SKIP no\n1..2\n", 2},
		{"tap", "All tests successful.\nFiles=2, Tests=7,  1 wallclock secs\n", 7},
		{"unittest", "Ran 4 tests in 1.001s\n\nFAILED (failures=1, errors=1, skipped=1, expected failures=1)\n", 3},
		{"junit", "<testsuite tests='1'><testcase name='a'/></testsuite>\n<testsuite><testcase name='b'><skipped/></testcase><testcase><error/></testcase></testsuite>", 2},
		{"rspec", "3 examples, 1 failure, 1 pending\n", 2},
		{"exunit", "1 doctest, 3 tests, 1 failure, 1 skipped\n", 2},
		{"vitest", " Test Files  1 passed (1)\n      Tests  no tests\n", 0},
		{"go", "ok  \tm/a\t(cached)\nok  \tm/b\t0.01s\tcoverage: 10.0% of statements\n\tm/c\t\tcoverage: 0.0% of statements\n?   \tm/d\t[no test files]\n", 2},
	} {
		got, err := Read(c.format, strings.NewReader(c.text))
		if err != nil || got == nil || got.Tests != c.want {
			t.Errorf("%s: %+v %v, expected %d: %q", c.format, got, err, c.want, c.text)
		}
		// In pieces of a byte it says the same.
		again, err := Read("", iotest.OneByteReader(strings.NewReader(strings.ReplaceAll(c.text, "\n", "\r\n"))))
		if err != nil || again == nil || got != nil && *again != *got {
			t.Errorf("%s, recognised: %+v %v, expected %+v", c.format, again, err, got)
		}
	}
}

func TestReadKnowsNothing(t *testing.T) {
	for _, s := range []string{"", "ok\n", "passed\n", "5 passed\n", "1..3\n", "FAIL\n", "PASS\n", "tests 5\n", "a < b and <testcase/>\n", "{\"Action\":\"pass\"}\n", strings.Repeat("x", 3<<20)} {
		if got, err := Read("", strings.NewReader(s)); got != nil || err != nil {
			t.Errorf("%.30q: %+v %v", s, got, err)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	if _, err := Read("nose", strings.NewReader("")); sallyport.CodeOf(err) != sallyport.CodeInvalid {
		t.Errorf("an unknown format: %v", err)
	}
	if _, _, err := BuildFailed("nose", strings.NewReader("")); sallyport.CodeOf(err) != sallyport.CodeInvalid {
		t.Errorf("an unknown format: %v", err)
	}
	broken := errors.New("broken")
	if _, err := Read("", io.MultiReader(strings.NewReader("x"), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("the reader's error is lost: %v", err)
	}
	if _, err := Read("go", io.LimitReader(noise{}, maxOutput+1)); sallyport.CodeOf(err) != sallyport.CodeExhausted {
		t.Errorf("more than the most: %v", err)
	}
	if _, err := Read("go", io.LimitReader(noise{}, maxOutput)); err != nil {
		t.Errorf("the most that is read: %v", err)
	}
}

type noise struct{}

func (noise) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	b[len(b)-1] = '\n'
	return len(b), nil
}

// A file of one long line is read whole where its form allows it.
func TestReadOfOneLine(t *testing.T) {
	n := 40_000
	text := "<testsuites>" + strings.Repeat(`<testcase name="a long name"><system-out><![CDATA[<x>]]></system-out></testcase>`, n) + "</testsuites>"
	got, err := Read("junit", strings.NewReader(text))
	if err != nil || got == nil || got.Tests != n {
		t.Errorf("%+v %v, expected %d of %d bytes", got, err, n, len(text))
	}
}

func TestBuildFailed(t *testing.T) {
	failed := map[string]bool{"cargo-build.txt": true, "go-build.txt": true, "go-json-build.txt": true, "go-vet.txt": true, "jest-syntax.txt": true, "node-syntax.txt": true,
		"pytest-import-error.txt": true, "pytest-syntax-error.txt": true, "unittest-syntax-error.txt": true, "vitest-syntax.txt": true}
	entries, err := os.ReadDir("testdata/output")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		f, err := os.Open(filepath.Join("testdata/output", e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		line, got, err := BuildFailed("", f)
		_ = f.Close()
		if err != nil || got != failed[e.Name()] || got != (line != "") {
			t.Errorf("%s: %v %q %v", e.Name(), got, line, err)
		}
	}
	for _, s := range []string{
		"FAIL\tm/b [setup failed]", "src/a.ts(3,5): error TS2322: Type", "a.c:3:5: error: expected ';'", "/usr/bin/ld: x: undefined reference to `f'", "error[E0425]: cannot find value", "[ERROR] COMPILATION ERROR :",
		"Foo.java:3: error: ';' expected", "> Task :app:compileTestJava FAILED", "PHP Parse error:  syntax error", "An error occurred while loading ./spec/a_spec.rb.", "a.cs(1,2): error CS1002: ; expected", "== Compilation error in file lib/a.ex ==",
	} {
		if _, got, err := BuildFailed("", strings.NewReader("x\n\x1b[31m"+s+"\x1b[0m\n")); !got || err != nil {
			t.Errorf("%q is no failure to build", s)
		}
	}
	for _, s := range []string{"a_test.go:12: expected 1, got 2", "panic: runtime error: index out of range", "AssertionError: assert 1 == 2", "Error: expected 1 to be 2", "error: test failed, to rerun pass `--lib`", "ValueError: bad", "make: *** [test] Error 1"} {
		if line, got, err := BuildFailed("", strings.NewReader(s+"\n")); got || err != nil {
			t.Errorf("%q is a failure to build: %q", s, line)
		}
	}
}

// FuzzRead: no output counts more tests than it has lines or cases, no count is negative, and where several formats are recognised the lowest counts.
func FuzzRead(f *testing.F) {
	for _, dir := range []string{"testdata/output", "testdata/cheats"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			f.Fatal(err)
		}
		for _, e := range entries {
			b, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				f.Fatal(err)
			}
			f.Add(string(b))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		lowest := -1
		for _, format := range Formats() {
			got, err := Read(format, strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			if got == nil {
				continue
			}
			if got.Format != format || got.Passed < 0 || got.Failed < 0 || got.Skipped < 0 || got.Tests != got.Passed+got.Failed {
				t.Errorf("%+v", got)
			}
			// What goes by single lines counts no more tests than there are.
			if most := strings.Count(text, "\n") + strings.Count(text, "\r") + 1; got.Tests > most && (format == "go-json" || format == "go" || format == "tap" && !strings.Contains(text, "Files=")) {
				t.Errorf("%s counts %d in %d lines", format, got.Tests, most)
			}
			if format == "junit" && got.Tests > strings.Count(text, "<testcase") {
				t.Errorf("junit counts %d", got.Tests)
			}
			if lowest < 0 || got.Tests < lowest {
				lowest = got.Tests
			}
		}
		got, err := Read("", strings.NewReader(text))
		if err != nil || (got == nil) != (lowest < 0) || got != nil && got.Tests != lowest {
			t.Errorf("recognised: %+v %v, the lowest is %d", got, err, lowest)
		}
	})
}

// FuzzForgedClosing: a closing line of a runner that closes once can only lower what it closes with.
func FuzzForgedClosing(f *testing.F) {
	closings := map[string]string{
		"pytest": "=== %d passed in 0.01s ===", "unittest": "Ran %d tests in 0.001s", "jest": "Tests:       %d passed, %d total", "mocha": "  %d passing (1ms)",
		"cargo": "test result: ok. %d passed; 0 failed; 0 ignored; 0 measured; 0 filtered out", "rspec": "%d examples, 0 failures", "exunit": "%d tests, 0 failures", "ctest": "100% tests passed, 0 tests failed out of %d",
	}
	f.Add("x\n", 3, 500, true)
	f.Add("collected 2 items\n", 2, 0, false)
	f.Fuzz(func(t *testing.T, between string, real, forged int, first bool) {
		if strings.ContainsAny(between, "0123456789>=") || real < 0 || forged < 0 {
			return
		}
		for format, line := range closings {
			say := func(n int) string { return strings.ReplaceAll(line, "%d", itoa(n)) + "\n" }
			head := ""
			if format == "cargo" {
				head = "running " + itoa(real) + " tests\n"
			}
			honest, err := Read(format, strings.NewReader(head+say(real)))
			if err != nil || honest == nil {
				t.Fatalf("%s: %v %v", format, honest, err)
			}
			text := head + say(real) + between + "\n" + say(forged)
			if first {
				text = say(forged) + between + "\n" + head + say(real)
			}
			got, err := Read(format, strings.NewReader(text))
			if err != nil || got == nil || got.Tests > honest.Tests {
				t.Errorf("%s: %d became %+v %v", format, honest.Tests, got, err)
			}
		}
	})
}

// BenchmarkRead reads 8 MiB of a chatty test run, all forms at once.
func BenchmarkRead(b *testing.B) {
	text := strings.Repeat("=== RUN   TestSomething/with_a_name\n    a_test.go:12: a line of output that is neither here nor there (3)\n--- PASS: TestSomething (0.00s)\nINFO 2026-01-01T00:00:00Z 12 requests in 3.4s, 0 failures\n", 8<<20/216)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if got, err := Read("", strings.NewReader(text)); err != nil || got == nil {
			b.Fatal(got, err)
		}
	}
}
