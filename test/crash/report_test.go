//go:build amd64

package crash_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport/test/crash/fault"
)

// result is what is kept of a trial, a line each, so that a run of all of them can be done in parts.
type result struct {
	Scene, Party, Function, Point string
	Time                          int
	Column                        fault.Column
	End                           string
	Seconds                       float64
	Each                          bool // each time is another step
}

var keeping sync.Mutex

func (c *trial) keep(t *testing.T) {
	if *results == "" {
		return
	}
	keeping.Lock()
	defer keeping.Unlock()
	f, err := os.OpenFile(*results, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := json.NewEncoder(f).Encode(c.record()); err != nil {
		t.Fatal(err)
	}
}

// record is what is kept of a trial; of one that is yet to come, its key.
func (c *trial) record() result {
	return result{c.name, string(c.Point.Party), c.Point.Function(), c.Point.String(), c.Time, c.Column, c.end, c.seconds, isCommit(c.Point)}
}

// kept are the results so far, the last one of each trial.
func kept(t *testing.T) map[string]result {
	t.Helper()
	all := map[string]result{}
	b, err := os.ReadFile(*results)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var r result
		if json.Unmarshal([]byte(line), &r) == nil { // the last line may be cut
			all[r.key()] = r
		}
	}
	return all
}

// key leaves out how often a point is come to, which is not the same each time; only the first from the others.
func (r result) key() string {
	when := "later"
	if r.Time == 1 {
		when = "first"
	} else if r.Each {
		when = fmt.Sprint(r.Time)
	}
	return strings.Join([]string{r.Scene, r.Point, when, string(r.Column)}, "\t")
}

// report tells how the trials ended, and after a run of all writes it into the page.
func report(t *testing.T, every, trials []*trial, took time.Duration) {
	t.Helper()
	count := map[string]int{}
	for _, c := range trials {
		count[fmt.Sprintf("%-10s %-9s %s", c.Point.Party, c.Column, c.end)]++
	}
	t.Logf("%d trials in %v", len(trials), took.Round(time.Second))
	for _, k := range slices.Sorted(maps.Keys(count)) {
		t.Logf("%s: %d", k, count[k])
	}
	if *whole {
		writeTable(t, every, trials)
	}
}

const (
	page  = "../../docs/RELIABILITY.md"
	opens = "<!-- the crash matrix, written by make crash -->\n"
	ends  = "<!-- end of the crash matrix -->\n"
)

// cell is what came of some trials.
type cell struct {
	all int
	end map[string]int // of those that were tried
}

// asIf are ends that are those of a run that nothing happened to.
var asIf = []string{"accepted", "cancelled"}

func (c cell) String() string {
	if c.all == 0 {
		return "–"
	}
	tried, well := 0, 0
	var rest []string
	for _, e := range slices.Sorted(maps.Keys(c.end)) {
		tried += c.end[e]
		if slices.Contains(asIf, e) {
			well += c.end[e]
		} else {
			rest = append(rest, fmt.Sprintf("%d %s", c.end[e], e))
		}
	}
	var words []string
	if well > 0 {
		words = append(words, fmt.Sprint(well))
	}
	words = append(words, rest...)
	if n := c.all - tried; n > 0 {
		words = append(words, fmt.Sprintf("%d not tried", n))
	}
	return strings.Join(words, ", ")
}

// writeTable puts figures and table between their marks in the page.
func writeTable(t *testing.T, every, trials []*trial) {
	t.Helper()
	have := map[string]result{}
	if *results != "" {
		have = kept(t)
	}
	for _, c := range trials {
		r := c.record()
		have[r.key()] = r
	}
	type row struct {
		points map[string]bool
		cells  map[fault.Column]*cell
	}
	rows := map[string]*row{}
	sum := map[string]*row{}
	tried, seconds := 0, 0.0
	ends1 := map[string]int{}
	for _, c := range every {
		r, ok := have[c.record().key()]
		if ok {
			tried++
			seconds += r.Seconds
			ends1[r.End]++
		}
		for _, at := range []struct {
			in  map[string]*row
			key string
		}{{rows, fmt.Sprintf("%d%s | `%s`", slices.Index(fault.Parties, c.Point.Party), c.Point.Party, c.Point.Function())}, {sum, fmt.Sprintf("%d%s", slices.Index(fault.Parties, c.Point.Party), c.Point.Party)}} {
			x := at.in[at.key]
			if x == nil {
				x = &row{map[string]bool{}, map[fault.Column]*cell{}}
				at.in[at.key] = x
			}
			x.points[c.Point.String()] = true
			y := x.cells[c.Column]
			if y == nil {
				y = &cell{end: map[string]int{}}
				x.cells[c.Column] = y
			}
			y.all++
			if ok {
				y.end[r.End]++
			}
		}
	}
	var b strings.Builder
	table := func(first string, rows map[string]*row) {
		fmt.Fprintf(&b, "%s | points | before | after | lost | not done |\n%s|---|---|---|---|---|\n", first, strings.Repeat("|---", strings.Count(first, "|")))
		for _, k := range slices.Sorted(maps.Keys(rows)) {
			fmt.Fprintf(&b, "| %s | %d |", k[1:], len(rows[k].points))
			for _, col := range fault.Columns {
				y := rows[k].cells[col]
				if y == nil {
					y = &cell{}
				}
				fmt.Fprintf(&b, " %v |", y)
			}
			b.WriteString("\n")
		}
	}
	var u unix.Utsname
	_ = unix.Uname(&u)
	fmt.Fprintf(&b, "\n%s, `make crash`, Linux %s: %d of %d trials at %d points, %.0f minutes of trials, several at once.\n", time.Now().UTC().Format("2006-01-02 15:04 UTC"), unix.ByteSliceToString(u.Release[:]), tried, len(every), len(uniquePoints(every)), seconds/60)
	if n := len(every) - tried; n > 0 {
		fmt.Fprintf(&b, "%d were not tried: the run was ended before.\n", n)
	}
	b.WriteString("\n| how it ended | trials |\n|---|---|\n")
	for _, e := range slices.SortedFunc(maps.Keys(ends1), func(a, b string) int { return ends1[b] - ends1[a] }) {
		fmt.Fprintf(&b, "| %s | %d |\n", e, ends1[e])
	}
	b.WriteString("\n")
	table("| party", sum)
	b.WriteString("\n")
	table("| party | function", rows)
	b.WriteString("\n")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), opens)
	_, tail, ok2 := strings.Cut(rest, ends)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", page)
	}
	if err := os.WriteFile(page, []byte(head+opens+b.String()+ends+tail), 0o644); err != nil {
		t.Fatal(err)
	}
}

func uniquePoints(all []*trial) map[string]bool {
	m := map[string]bool{}
	for _, c := range all {
		m[c.Point.String()] = true
	}
	return m
}
