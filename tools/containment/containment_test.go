package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sallyport.dev/sallyport/internal/testkit"
)

func page(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../../docs/CONTAINMENT.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// isOurs tells our columns from those of others.
func isOurs(c column) bool { return strings.HasPrefix(c.id, "sallyport") }

// title is a column's, as read has it.
func title(c column) string { return strings.ReplaceAll(c.title, "*", "") }

// TestPageIsOfThisProgram: the page has the rows of the program, in its order, and all columns; each is filled or says that it was not run.
func TestPageIsOfThisProgram(t *testing.T) {
	cells, rows := read(page(t))
	var want []string
	ids := map[string]bool{}
	for _, f := range facts {
		want = append(want, f.what)
	}
	for _, g := range groups {
		for _, r := range g.rows {
			want = append(want, r.what)
			if ids[r.id] || ids[r.what] {
				t.Errorf("%s is there twice", r.id)
			}
			ids[r.id], ids[r.what] = true, true
		}
	}
	if !slices.Equal(rows, want) {
		t.Errorf("docs/CONTAINMENT.md is not of this program: make containment\nthe page %q\nthe program %q", rows, want)
	}
	for _, c := range columns {
		if len(cells[title(c)]) != len(want) {
			t.Errorf("%s has %d rows, want %d", c.title, len(cells[title(c)]), len(want))
		}
		if !strings.Contains(page(t), "`"+c.how+"`") {
			t.Errorf("the page lacks the command line of %s", c.title)
		}
	}
	for _, id := range alone {
		if _, ok := rowOf(id); !ok {
			t.Errorf("no row %q", id)
		}
	}
}

// TestControlsWork: where there is no sandbox each effect is seen outside, or the other columns would say nothing.
func TestControlsWork(t *testing.T) {
	cells, _ := read(page(t))
	for _, g := range groups {
		for _, r := range g.rows {
			if r.seen != nil && r.id != "http-proxy" && !strings.HasPrefix(cells[title(columns[0])][r.what], allowed) {
				t.Errorf("%s without a sandbox: %s", r.what, cells[title(columns[0])][r.what])
			}
		}
	}
}

// TestOurAllowedIsExplained: no effect of ours is seen outside, and each call that is let through has its reason on the page.
func TestOurAllowedIsExplained(t *testing.T) {
	text := page(t)
	cells, _ := read(text)
	_, reasons, _ := strings.Cut(text, "## What of ours reads ALLOWED")
	for _, c := range columns {
		if !isOurs(c) {
			continue
		}
		for _, g := range groups {
			for _, r := range g.rows {
				cell := cells[title(c)][r.what]
				switch {
				case !strings.HasPrefix(cell, allowed):
				case r.seen != nil:
					t.Errorf("%s: %s reads %s: it reaches what is outside", c.title, r.what, cell)
				case !strings.Contains(reasons, "- *"+r.what+"*"):
					t.Errorf("%s: %s reads %s, and no line %q says why that is no way out", c.title, r.what, cell, "- *"+r.what+"*: …")
				}
			}
		}
	}
}

// TestOurColumns runs our own columns, beside each other, and compares: the verdicts, and where the kernel is the page's, every word.
func TestOurColumns(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("missing capability: only root makes the namespaces that the table is made in")
	}
	bin := filepath.Join(testkit.Build(t, "sallyport.dev/sallyport/tools/containment"), "containment")
	programs, text := testkit.Programs(t), page(t)
	cells, _ := read(text)
	for _, c := range columns {
		if !isOurs(c) {
			continue
		}
		t.Run(c.id, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(bin, "-programs", programs, "-only", c.id)
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			if err := cmd.Run(); err != nil {
				t.Fatalf("%v\n%s", err, errs.String())
			}
			var f found
			if err := json.Unmarshal(out.Bytes(), &f); err != nil {
				t.Fatal(err)
			}
			same := strings.Contains(text, "Linux "+f.Kernel+".")
			for _, g := range groups {
				for _, r := range g.rows {
					got, want := f.Cells[c.id][r.id], cells[title(c)][r.what]
					if strings.HasPrefix(got, allowed) != strings.HasPrefix(want, allowed) || same && got != want {
						t.Errorf("%s: %q, the page says %q", r.what, got, want)
					}
				}
			}
		})
	}
}
