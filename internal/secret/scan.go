package secret

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/zricethezav/gitleaks/v8/detect"
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

// Warm makes what the first Scan would wait for: the rules take some 40 ms to be read. Repeat: nothing.
func Warm() { _, _ = loaded() }

// Scan lists the credentials in a text by place; one that stands there in another form once per rule and line.
// path, slash-separated, is where the text stands: some rules are for some files. It ends at the deadline; then,
// and where the library failed on a part of the text, done is false. Equal input gives equal hits. Safe for
// concurrent use.
func Scan(path string, text []byte, deadline time.Time) (hits []Hit, done bool) {
	e, err := loaded()
	if err != nil {
		return nil, false
	}
	return e.scan(path, text, deadline)
}

func (e *engine) scan(path string, text []byte, deadline time.Time) (hits []Hit, done bool) {
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	s := scan{engine: e, path: path, seen: map[Hit]int{}}
	s.text(ctx, plain(text), 0)
	slices.SortFunc(s.hits, func(a, b Hit) int {
		return cmp.Or(a.Line-b.Line, a.Start-b.Start, a.End-b.End, strings.Compare(a.Rule, b.Rule), strings.Compare(a.Kind, b.Kind))
	})
	return s.hits, !s.missed && ctx.Err() == nil
}

// scan is one call of Scan.
type scan struct {
	*engine
	path   string
	hits   []Hit
	seen   map[Hit]int // number of the hit, by rule, line and Start, and by rule and line with Start -1
	missed bool        // a part of the text was not searched
}

// text looks at v, at what v reads as, and at what is encoded in it.
func (s *scan) text(ctx context.Context, v view, depth int) {
	s.look(ctx, s.all, v, depth == 0)
	if q, changed := v.quiet(); changed {
		s.look(ctx, s.all, q, false)
		v = q
	}
	j := v.joined()
	if len(j.marks) > 1 {
		// Only what has a form of its own: lines that do not belong together make many names and values.
		s.look(ctx, s.own, j, false)
	}
	if depth == maxDepth {
		return
	}
	var decoded view
	take := func(from view, lines bool) {
		encodedRuns(from.text, func(start, end int, text []byte) bool {
			if line := from.line(start); !lines || line != from.line(end-1) {
				decoded.add(append(text, '\n'), line)
			}
			return ctx.Err() == nil
		})
	}
	take(v, false)
	take(j, true)
	if len(decoded.text) > 0 && ctx.Err() == nil {
		s.text(ctx, decoded, depth+1)
	}
}

// look hands v to d piece by piece. placed: the view's offsets are the text's.
func (s *scan) look(ctx context.Context, d *detect.Detector, v view, placed bool) {
	for start, end := range pieces(v.text) {
		list, err := s.find(ctx, d, s.path, string(v.text[start:end]))
		s.missed = s.missed || err != nil
		s.keep(v, start, list, placed)
		if ctx.Err() != nil {
			return
		}
	}
}

// order is how much a rule knows: of two that say something of the same bytes the one that knows more is kept.
func order(rule string) int { return slices.Index([]string{RuleFormat, RuleAssigned}, rule) }

// keep takes over the hits in the piece of a view that begins at from.
func (s *scan) keep(v view, from int, list []found, placed bool) {
	slices.SortFunc(list, func(a, b found) int {
		return cmp.Or(order(a.rule)-order(b.rule), a.start-b.start, b.end-a.end, strings.Compare(a.rule, b.rule), strings.Compare(a.kind, b.kind))
	})
	for i, f := range list {
		covered := slices.ContainsFunc(list[:i], func(o found) bool {
			inside := o.start <= f.start && f.end <= o.end
			return inside || order(o.rule) < order(f.rule) && o.start < f.end && f.start < o.end
		})
		if covered {
			continue
		}
		h := Hit{Rule: f.rule, Line: v.line(from + f.start)}
		line := Hit{Rule: h.Rule, Line: h.Line, Start: -1}
		if placed {
			h.Start = from + f.start
		}
		// What stands there as it is is not said again for another reading of it, nor for two pieces that
		// overlap: the first may have held the beginning only.
		if n, ok := s.seen[h]; ok && placed {
			s.hits[n].End = max(s.hits[n].End, from+f.end)
			continue
		}
		if _, ok := s.seen[line]; ok && !placed {
			continue
		}
		s.seen[h], s.seen[line] = len(s.hits), len(s.hits)
		if h.Kind = f.kind; placed {
			h.End = from + f.end
		}
		s.hits = append(s.hits, h)
	}
}

// Rules lists every rule that Scan can report, sorted.
func Rules() []string {
	all := []string{RuleFormat, RuleAssigned}
	for _, f := range formats {
		all = append(all, f.rule)
	}
	for _, o := range others {
		all = append(all, o[0])
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// redactTime is far more than a name needs.
const redactTime = 10 * time.Second

// Redact replaces the credentials in a short text, such as a file's name, that stand there as they are. A text
// that could not be searched is replaced as a whole.
func Redact(text string) string {
	_, _ = loaded() // outside of the time
	hits, done := Scan("", []byte(text), time.Now().Add(redactTime))
	if !done {
		return "<redacted>"
	}
	var b bytes.Buffer
	at := 0
	for _, h := range slices.DeleteFunc(hits, func(h Hit) bool { return h.End == 0 || h.Rule == RuleAssigned }) {
		if h.Start >= at {
			b.WriteString(text[at:h.Start] + "<redacted>")
		}
		at = max(at, h.End)
	}
	b.WriteString(text[at:])
	return b.String()
}
