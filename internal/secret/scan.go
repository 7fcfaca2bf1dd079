package secret

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"time"
)

// Hit is one credential in a text. It says where and of what kind, and never what.
type Hit struct {
	Rule string // secret.github-token, RuleFormat, …
	Kind string // for a person: "github token"
	Line int    // from 1
	// Start and End are its bytes in the text; both 0 where it stands there in another form: encoded, broken
	// over lines, with terminal sequences inside.
	Start, End int
}

// Scan lists the credentials in a text by place; one that stands there in another form once per rule and line. path, slash-separated, is where the
// text stands: some rules are for some files. It ends at the deadline: then done is false. Equal input gives equal
// hits. Safe for concurrent use.
func Scan(path string, text []byte, deadline time.Time) (hits []Hit, done bool) {
	s := scan{k: known(), path: path, deadline: deadline}
	s.text(plain(text), 0)
	slices.SortStableFunc(s.hits, func(a, b Hit) int { return cmp.Or(a.Line-b.Line, a.Start-b.Start) })
	return s.hits, !s.late
}

// scan is one call of Scan.
type scan struct {
	k        *knowledge
	path     string
	deadline time.Time
	hits     []Hit
	late     bool
}

// text looks at v, at what v reads as, and at what is encoded in it.
func (s *scan) text(v view, depth int) {
	s.look(v, depth == 0, true)
	if q, changed := v.quiet(); changed {
		s.look(q, false, true)
		v = q
	}
	views := []view{v}
	if j := v.joined(); len(j.lines) > 1 {
		// Only what has a form of its own: lines that do not belong together make many names and values.
		s.look(j, false, false)
		views = append(views, j)
	}
	for _, in := range views {
		if depth == maxDepth || s.overdue() {
			return
		}
		encodedRuns(in.text, func(at int, decoded []byte) bool {
			s.text(view{text: decoded, lines: []int{0}, only: in.line(at)}, depth+1)
			return !s.overdue()
		})
	}
}

func (s *scan) overdue() bool {
	s.late = s.late || time.Now().After(s.deadline)
	return s.late
}

// found is a hit in one view.
type found struct {
	rule, kind string
	start, end int
}

// look lists what of v has the form of a credential, and with named also what only its name says is one.
func (s *scan) look(v view, placed, named bool) {
	var list []found
	tried := map[int]int{} // rule: up to where
	n := 0
	s.k.finder.each(v.text, func(word, end int) bool {
		if n++; n%64 == 0 && s.overdue() {
			return false
		}
		w := &s.k.byWord[word]
		list = w.own(list, v.text, end-w.length)
		if named {
			for _, r := range w.rules {
				list = s.try(list, tried, r, v.text, end-w.length, end)
			}
		}
		return true
	})
	s.keep(v, list, placed)
}

// own are the credentials of our own table that the word at begins.
func (w *wanted) own(list []found, text []byte, at int) []found {
	for _, f := range w.formats {
		if end := f.match(text, at); end > 0 {
			list = append(list, found{f.rule, "", f.begin(text, at), end})
		}
	}
	if w.key {
		if end := keyBlock(text, at); end > 0 {
			list = append(list, found{"secret.private-key", "", at, end})
		}
	}
	if w.label {
		if rule, start, end := labelled(text, at); rule != "" {
			list = append(list, found{rule, "", start, end})
		}
	}
	return list
}

// try applies a rule of the data around its keyword.
func (s *scan) try(list []found, tried map[int]int, n int, text []byte, at, end int) []found {
	r := &s.k.rules[n]
	start, stop, ok := r.piece(text, at, end)
	if !ok || stop <= tried[n] || r.path != nil && !r.path().MatchString(s.path) {
		return list
	}
	tried[n] = stop
	r.find(text[start:stop], s.path, s.k.allow, func(a, b int) {
		list = append(list, found{r.report(), r.service, start + a, start + b})
	})
	return list
}

// order is how much a rule knows: of two that say something of the same bytes the one that knows more is kept.
func order(rule string) int { return slices.Index([]string{RuleFormat, RuleAssigned}, rule) }

// keep takes over a view's hits. placed: the view's offsets are the text's.
func (s *scan) keep(v view, list []found, placed bool) {
	slices.SortStableFunc(list, func(a, b found) int {
		return cmp.Or(order(a.rule)-order(b.rule), a.start-b.start, b.end-a.end)
	})
	for i, f := range list {
		covered := slices.ContainsFunc(list[:i], func(o found) bool {
			inside := o.start <= f.start && f.end <= o.end
			return inside || order(o.rule) < order(f.rule) && o.start < f.end && f.start < o.end
		})
		h := Hit{Rule: f.rule, Kind: f.kind, Line: v.line(f.start)}
		if placed {
			h.Start, h.End = f.start, f.end
		}
		if h.Kind == "" {
			h.Kind = strings.ReplaceAll(strings.TrimPrefix(f.rule, "secret."), "-", " ")
		}
		again := !placed && slices.ContainsFunc(s.hits, func(o Hit) bool { return o.Rule == h.Rule && o.Line == h.Line })
		if !covered && !again {
			s.hits = append(s.hits, h)
		}
	}
}

// Rules lists every rule that Scan can report, sorted.
func Rules() []string {
	all := []string{RuleFormat, RuleAssigned, "secret.private-key"}
	for _, f := range formats {
		all = append(all, f.rule)
	}
	for _, l := range labels {
		all = append(all, l.rule)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Redact replaces the credentials in a short text, such as a file's name, that stand there as they are.
func Redact(text string) string {
	var list []Hit
	hits, _ := Scan("", []byte(text), time.Now().Add(time.Second))
	for _, h := range hits {
		if h.End > 0 && h.Rule != RuleAssigned {
			list = append(list, h)
		}
	}
	var b bytes.Buffer
	at := 0
	for _, h := range list {
		if h.Start >= at {
			b.WriteString(text[at:h.Start] + "<redacted>")
		}
		at = max(at, h.End)
	}
	b.WriteString(text[at:])
	return b.String()
}
