package inspect

import (
	"strings"
)

// wildmatch is a pattern of .gitattributes, compiled. It matches in time linear in pattern and text: the
// pattern comes from the change, and what git's own matcher needs for "*a*a*a*b" is exponential.
type wildmatch struct {
	head  string // literal beginning
	tail  string // of "*tail", the commonest form
	stars bool   // it is "*tail"
	rest  []token
}

type token struct {
	op  op
	set [4]uint64 // of one: the bytes that match
}

type op byte

const (
	one  op = iota // one byte of a set
	star           // any bytes but "/"
	deep           // any bytes
	skip           // what follows, up to after the next "/", or nothing
)

// compileWild follows git: "*" and "?" never match "/"; "**" does where slashes or an end enclose it.
func compileWild(pattern string) wildmatch {
	n := strings.IndexAny(pattern, `*?[\`)
	if n < 0 {
		return wildmatch{head: pattern}
	}
	w := wildmatch{head: pattern[:n]}
	p := pattern[n:]
	if p[0] == '*' && n == 0 && !strings.ContainsAny(p[1:], `*?[\/`) {
		w.stars, w.tail = true, p[1:]
		return w
	}
	for at := 0; at < len(p); {
		switch p[at] {
		case '*':
			at = w.star(p, at)
		case '?':
			t := token{op: one}
			t.addRange(0, 255)
			t.drop('/')
			w.rest = append(w.rest, t)
			at++
		case '[':
			t, end := class(p, at)
			w.rest = append(w.rest, t)
			at = end
		case '\\':
			t := token{op: one}
			if at++; at < len(p) {
				t.add(p[at])
			}
			w.rest = append(w.rest, t)
			at++
		default:
			w.literal(p[at])
			at++
		}
	}
	return w
}

func (w *wildmatch) literal(c byte) {
	t := token{op: one}
	t.add(c)
	w.rest = append(w.rest, t)
}

func (w *wildmatch) star(p string, at int) (end int) {
	end = at
	for end < len(p) && p[end] == '*' {
		end++
	}
	enclosed := (at == 0 || p[at-1] == '/') && (end == len(p) || p[end] == '/' || strings.HasPrefix(p[end:], `\/`))
	switch {
	case end-at == 1 || !enclosed:
		w.rest = append(w.rest, token{op: star})
	case end < len(p) && p[end] == '/':
		w.rest = append(w.rest, token{op: skip}, token{op: deep})
		w.literal('/')
		end++
	default:
		w.rest = append(w.rest, token{op: deep})
	}
	return end
}

// class reads "[...]"; one that is never closed matches nothing.
func class(p string, at int) (t token, end int) {
	t.op = one
	nothing := token{op: one}
	at++
	negated := at < len(p) && (p[at] == '!' || p[at] == '^')
	if negated {
		at++
	}
	last, first := -1, true
	for ; ; at++ {
		if at >= len(p) {
			return nothing, len(p)
		}
		c := p[at]
		switch {
		case c == ']' && !first:
			if negated {
				for i := range t.set {
					t.set[i] = ^t.set[i]
				}
			}
			t.drop('/')
			return t, at + 1
		case c == '\\':
			if at++; at >= len(p) {
				return nothing, len(p)
			}
			t.add(p[at])
			last = int(p[at])
		case c == '-' && last > 0 && at+1 < len(p) && p[at+1] != ']':
			if at++; p[at] == '\\' {
				if at++; at >= len(p) {
					return nothing, len(p)
				}
			}
			t.addRange(last, int(p[at]))
			last = -1
		case c == '[' && at+1 < len(p) && p[at+1] == ':':
			close := strings.IndexByte(p[at+2:], ']')
			if close < 0 {
				return nothing, len(p)
			}
			name := p[at+2 : at+2+close]
			if !strings.HasSuffix(name, ":") {
				t.add('[') // no ":]": an ordinary set
				last = '['
				break
			}
			if !t.addNamed(strings.TrimSuffix(name, ":")) {
				return nothing, len(p)
			}
			at += 2 + close
			last = -1
		default:
			t.add(c)
			last = int(c)
		}
		first = false
	}
}

func (t *token) add(c byte)  { t.set[c/64] |= 1 << (c % 64) }
func (t *token) drop(c byte) { t.set[c/64] &^= 1 << (c % 64) }
func (t *token) has(c byte) bool {
	return t.set[c/64]&(1<<(c%64)) != 0
}

func (t *token) addRange(from, to int) {
	for c := from; c <= to; c++ {
		t.add(byte(c))
	}
}

// addNamed adds "[:name:]" as the C locale has it; false: there is none of that name.
func (t *token) addNamed(name string) bool {
	named := map[string][][2]int{
		"alnum": {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}, "alpha": {{'A', 'Z'}, {'a', 'z'}}, "blank": {{' ', ' '}, {'\t', '\t'}}, "cntrl": {{0, 31}, {127, 127}}, "digit": {{'0', '9'}},
		"graph": {{33, 126}}, "lower": {{'a', 'z'}}, "print": {{32, 126}}, "punct": {{33, 47}, {58, 64}, {91, 96}, {123, 126}}, "space": {{' ', ' '}, {'\t', '\n'}, {'\r', '\r'}}, "upper": {{'A', 'Z'}}, "xdigit": {{'0', '9'}, {'A', 'F'}, {'a', 'f'}},
	}
	ranges, ok := named[name]
	for _, r := range ranges {
		t.addRange(r[0], r[1])
	}
	return ok
}

func (w wildmatch) match(text string) bool {
	rest, ok := strings.CutPrefix(text, w.head)
	switch {
	case !ok:
		return false
	case w.stars:
		return strings.HasSuffix(rest, w.tail) && !strings.Contains(rest, "/")
	case w.rest == nil:
		return rest == ""
	}
	now, then := make([]bool, len(w.rest)+1), make([]bool, len(w.rest)+1)
	w.enter(now, 0)
	for i := 0; i < len(rest); i++ {
		clear(then)
		alive := false
		for at, t := range w.rest {
			if !now[at] {
				continue
			}
			switch {
			case t.op == one && t.has(rest[i]):
				w.enter(then, at+1)
				alive = true
			case t.op == deep, t.op == star && rest[i] != '/':
				w.enter(then, at)
				alive = true
			}
		}
		if !alive {
			return false
		}
		now, then = then, now
	}
	return now[len(w.rest)]
}

// enter marks a place in the pattern and those that are reached from it without a byte.
func (w wildmatch) enter(places []bool, at int) {
	for ; !places[at]; at++ {
		places[at] = true
		if at == len(w.rest) || w.rest[at].op == one {
			return
		}
		if w.rest[at].op == skip {
			w.enter(places, at+3)
		}
	}
}
