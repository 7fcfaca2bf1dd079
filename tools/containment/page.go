package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// marks of the part of the page that is made.
const (
	begins = "<!-- made by `make containment`: do not edit -->"
	ends   = "<!-- end of what is made -->"
)

// write puts the table into the page.
func write(page string, f found) error {
	b, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(b), begins)
	_, after, ok2 := strings.Cut(rest, ends)
	if !ok || !ok2 {
		return fmt.Errorf("%s lacks the lines %q and %q", page, begins, ends)
	}
	return os.WriteFile(page, []byte(before+begins+"\n\n"+f.text(time.Now())+"\n"+ends+after), 0o644)
}

// text is the made part: when and on what, the command lines, and the tables.
func (f found) text(now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s UTC, Linux %s. %s.\n\n", now.UTC().Format("2006-01-02 15:04"), f.Kernel, strings.Join(f.Versions, "; "))
	fmt.Fprintf(&b, "| columns | command |\n|---|---|\n")
	said := map[string]bool{}
	for _, c := range columns {
		if said[c.how] {
			continue
		}
		said[c.how] = true
		var titles []string
		for _, d := range columns {
			if d.how == c.how {
				titles = append(titles, d.title)
			}
		}
		fmt.Fprintf(&b, "| %s | `%s` |\n", strings.Join(titles, "; "), c.how)
	}
	fmt.Fprintf(&b, "\nSETTINGS: `%s`. IMAGE has users, folders and one set-uid program. sallyport's operator grants 512 MiB, 256 processes and 256 MiB of disk.\n", srtSettings)
	for _, c := range columns {
		if why := f.Missing[c.id]; why != "" {
			fmt.Fprintf(&b, "\nNot run: %s: %s.\n", c.title, why)
		}
	}
	head := func(title string) {
		fmt.Fprintf(&b, "\n| %s |", title)
		for _, c := range columns {
			fmt.Fprintf(&b, " %s |", c.title)
		}
		fmt.Fprintf(&b, "\n|---|%s\n", strings.Repeat("---|", len(columns)))
	}
	line := func(id, what string) {
		fmt.Fprintf(&b, "| %s |", what)
		for _, c := range columns {
			cell, ok := f.Cells[c.id][id]
			if !ok {
				cell = "not run"
			}
			fmt.Fprintf(&b, " %s |", strings.Replace(cell, allowed, "**"+allowed+"**", 1))
		}
		b.WriteByte('\n')
	}
	head("what it is")
	for _, fact := range facts {
		line(fact.id, fact.what)
	}
	for _, g := range groups {
		head(g.title)
		for _, r := range g.rows {
			line(r.id, r.what)
		}
	}
	return b.String()
}

// read is the inverse: the cells of each column's title and row, in the order of the page.
func read(page string) (cells map[string]map[string]string, rows []string) {
	cells = map[string]map[string]string{}
	_, made, _ := strings.Cut(page, begins)
	made, _, _ = strings.Cut(made, ends)
	var titles []string
	for l := range strings.Lines(made) {
		l = strings.TrimSpace(l)
		if !strings.HasPrefix(l, "| ") {
			if l == "" {
				titles = nil
			}
			continue
		}
		f := strings.Split(strings.Trim(l, "|"), " | ")
		for i := range f {
			f[i] = strings.TrimSpace(f[i])
		}
		if titles == nil {
			for _, title := range f {
				titles = append(titles, strings.ReplaceAll(title, "*", ""))
			}
			continue
		}
		if len(titles) != len(columns)+1 || len(f) != len(titles) {
			continue // the table of command lines
		}
		rows = append(rows, f[0])
		for i := 1; i < len(f); i++ {
			if cells[titles[i]] == nil {
				cells[titles[i]] = map[string]string{}
			}
			cells[titles[i]][f[0]] = strings.ReplaceAll(f[i], "*", "")
		}
	}
	return cells, rows
}
