package testkit

import (
	"fmt"
	"testing"
)

// told is a test that only remembers what it is told.
type told struct {
	testing.TB
	logs, errors []string
}

func (x *told) Helper()                      {}
func (x *told) Logf(f string, args ...any)   { x.logs = append(x.logs, fmt.Sprintf(f, args...)) }
func (x *told) Errorf(f string, args ...any) { x.errors = append(x.errors, fmt.Sprintf(f, args...)) }

func TestSkips(t *testing.T) {
	const out = "=== RUN   TestA\n--- SKIP: TestA (0.00s)\n    --- SKIP: TestB/part (0.00s)\n--- PASS: TestC (0.00s)\n"
	for ci, want := range map[string]int{"true": 1, "": 0} {
		t.Setenv("CI", ci)
		x := &told{TB: t}
		Skips(x, out, "TestA", "TestC")
		if len(x.errors) != want || len(x.logs)+len(x.errors) != 2 {
			t.Errorf("CI=%q: %q, %q", ci, x.errors, x.logs)
		}
	}
}
