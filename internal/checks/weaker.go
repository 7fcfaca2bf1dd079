package checks

import (
	"strconv"
	"strings"
)

// hunk weighs lines against those whose place they took: each with the one most like it.
func (w *weigher) hunk(l *language, u unit, h hunk) {
	used := make([]bool, len(h.now))
	for _, a := range h.was {
		best, at := 0, -1
		for j, b := range h.now {
			if s := likeness(a, b); !used[j] && s > best {
				best, at = s, j
			}
		}
		if at >= 0 {
			used[at] = true
			w.lines(l, u, a, h.now[at])
		}
	}
}

// likeness is how many hundredths of the tokens two lines share; 0 below a third.
func likeness(a, b codeLine) int {
	have := map[string]int{}
	for _, t := range a.toks {
		have[t.text]++
	}
	n := 0
	for _, t := range b.toks {
		if have[t.text] > 0 {
			have[t.text]--
			n++
		}
	}
	if s := 100 * n / max(len(a.toks), len(b.toks)); s > 33 || len(a.toks) == len(b.toks) {
		return s + 1
	}
	return 0
}

// lines weighs one line against what it was.
func (w *weigher) lines(l *language, u unit, was, now codeLine) {
	detail := short(was.text) + " became " + short(now.text)
	asserts := assertions(l, was) > 0 || assertions(l, now) > 0
	if asserts && weakerMatcher(was, now) {
		w.add(u, WeakerAssertion, now.number, detail)
		return
	}
	if len(was.toks) != len(now.toks) {
		return
	}
	bounded := false
	for i := range now.toks {
		bounded = bounded || now.toks[i].kind == tokenWord && bound.MatchString(now.toks[i].text)
	}
	for i, b := range now.toks {
		a := was.toks[i]
		if a.text == b.text {
			continue
		}
		switch {
		case a.kind == tokenMark && b.kind == tokenMark && comparisons[a.text] > 0 && comparisons[b.text] > 0:
			if asserts && !strings.HasPrefix(now.text, "if ") && comparisons[b.text] < comparisons[a.text] {
				continue // it is stricter
			}
			w.add(u, WeakerAssertion, now.number, detail)
		case timeUnits[a.text] > 0 && timeUnits[b.text] > timeUnits[a.text]:
			w.add(u, LooserBound, now.number, detail)
		case a.kind == tokenNumber && b.kind == tokenNumber && bounded:
			if looser(a.text, b.text, now) {
				w.add(u, LooserBound, now.number, detail)
			}
		case literal(a) && literal(b) && (u.test || asserts):
			w.add(u, ExpectedChanged, now.number, detail)
		}
	}
}

// comparisons by how much they let pass.
var comparisons = map[string]int{"===": 1, "==": 1, "<": 2, ">": 2, "<=": 3, ">=": 3, "!=": 4, "!==": 4}

func literal(t lexeme) bool {
	return t.kind == tokenNumber || t.kind == tokenString || oneOf(t.text, "true false True False nil None null undefined")
}

// looser reports whether a bound grew; of digits, fewer are looser.
func looser(was, now string, line codeLine) bool {
	a, errA := strconv.ParseFloat(strings.ReplaceAll(was, "_", ""), 64)
	b, errB := strconv.ParseFloat(strings.ReplaceAll(now, "_", ""), 64)
	if errA != nil || errB != nil {
		return true
	}
	for _, t := range line.toks {
		if t.kind == tokenWord && places.MatchString(t.text) {
			return b < a
		}
	}
	return b > a
}

// weakerMatcher reports whether an assertion lost its comparison, or exchanged it for one that more satisfy.
func weakerMatcher(was, now codeLine) bool {
	a, b := matchers(was), matchers(now)
	if a.strong > b.strong && (b.weak > a.weak || b.strong+b.weak == 0) {
		return true
	}
	// assert x == 5 became assert x
	return a.compared > 0 && b.compared == 0 && b.strong <= a.strong
}

type matcherCount struct{ strong, weak, compared int }

func matchers(c codeLine) matcherCount {
	var m matcherCount
	for _, t := range c.toks {
		switch {
		case t.kind == tokenWord && strong.MatchString(t.text):
			m.strong++
		case t.kind == tokenWord && weak.MatchString(t.text):
			m.weak++
		case t.kind == tokenMark && comparisons[t.text] > 0:
			m.compared++
		}
	}
	return m
}
