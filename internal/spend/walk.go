package spend

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// The bounds of one body. Real requests stay far below: agents nest tool schemas to about 15 levels.
const (
	maxDepth = 100
	maxKeys  = 10_000 // of one object
	// maxTokens bounds every number of tokens, so that sums of costs stay exact.
	maxTokens = 1_000_000_000
)

// walk reads one JSON value that is known to be well-formed, and refuses what two readers could take differently: a key
// twice. It copies nothing but names and short texts.
type walk struct {
	b     []byte
	i     int
	depth int
	ahead int // bytes that were read ahead of time
	facts
}

// facts are what a walk found out about a request.
type facts struct {
	model     string
	output    []int64 // every maximum that the body names
	thinking  bool
	images    int64
	imageData int64 // bytes of pictures, which are no text
	cache     cacheUse
}

type cacheUse int

const (
	cacheNone cacheUse = iota
	cacheShort
	cacheHour
)

// begin checks that body is one JSON object in UTF-8.
func begin(body []byte) (*walk, *Refusal) {
	switch {
	case !utf8.Valid(body):
		return nil, refuse(ReasonBody, "expected the body as UTF-8")
	case !json.Valid(body):
		return nil, refuse(ReasonBody, "expected the body as one JSON object and nothing behind it")
	}
	w := &walk{b: body}
	if w.kind() != '{' {
		return nil, refuse(ReasonBody, "expected the body as one JSON object")
	}
	return w, nil
}

// kind is the first byte of the value that comes next.
func (w *walk) kind() byte {
	for w.i < len(w.b) && isSpace(w.b[w.i]) {
		w.i++
	}
	return w.b[w.i]
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// ends reports whether c ends a number or a word.
func ends(c byte) bool { return c == ',' || c == ']' || c == '}' || isSpace(c) }

func (w *walk) deeper() *Refusal {
	if w.depth++; w.depth > maxDepth {
		return refuse(ReasonBody, "the body is nested deeper than %d levels", maxDepth)
	}
	return nil
}

// object hands out each key; f must consume its value. Any other value: an error that names what.
func (w *walk) object(what string, f func(key string) *Refusal) *Refusal {
	if w.kind() != '{' {
		return refuse(ReasonBody, "expected %s as an object", what)
	}
	if no := w.deeper(); no != nil {
		return no
	}
	defer func() { w.depth-- }()
	var seen map[string]struct{}
	for w.i++; w.kind() != '}'; {
		if w.kind() == ',' {
			w.i++
			w.kind()
		}
		key, _ := w.text()
		if _, twice := seen[key]; twice {
			return refuse(ReasonBody, "the key %s stands twice in one object", shown(key))
		}
		if seen == nil {
			seen = map[string]struct{}{}
		}
		if seen[key] = struct{}{}; len(seen) > maxKeys {
			return refuse(ReasonBody, "an object has more than %d keys", maxKeys)
		}
		w.kind()
		w.i++ // the colon
		w.kind()
		if no := f(key); no != nil {
			return no
		}
	}
	w.i++
	return nil
}

// list hands out each element's turn; f must consume it.
func (w *walk) list(what string, f func() *Refusal) *Refusal {
	if w.kind() != '[' {
		return refuse(ReasonBody, "expected %s as a list", what)
	}
	if no := w.deeper(); no != nil {
		return no
	}
	defer func() { w.depth-- }()
	for w.i++; w.kind() != ']'; {
		if w.kind() == ',' {
			w.i++
			w.kind()
		}
		if no := f(); no != nil {
			return no
		}
	}
	w.i++
	return nil
}

// skip passes over any value, and still refuses a key that stands twice in it. What a cache control says is noted
// wherever it stands.
func (w *walk) skip() *Refusal {
	switch w.kind() {
	case '{':
		return w.object("a value", func(key string) *Refusal {
			if key == "cache_control" {
				return w.cacheControl()
			}
			return w.skip()
		})
	case '[':
		return w.list("a value", w.skip)
	case '"':
		w.pass()
		return nil
	}
	for w.i < len(w.b) && !ends(w.b[w.i]) {
		w.i++
	}
	return nil
}

// cacheControl takes any time to live that is not five minutes for the dearest.
func (w *walk) cacheControl() *Refusal {
	if w.null() {
		return nil
	}
	w.cache = max(w.cache, cacheShort)
	if w.kind() != '{' {
		return w.skip()
	}
	return w.object("cache_control", func(key string) *Refusal {
		if ttl, ok := w.peekText(); key == "ttl" && (!ok || ttl != "5m") {
			w.cache = cacheHour
		}
		return w.skip()
	})
}

// pass moves over a string and returns it as it stands, with its quotes.
func (w *walk) pass() []byte {
	from := w.i
	for w.i++; w.b[w.i] != '"'; w.i++ {
		if w.b[w.i] == '\\' {
			w.i++
		}
	}
	w.i++
	return w.b[from:w.i]
}

// text reads a string; false, and nothing consumed, for any other value.
func (w *walk) text() (string, bool) {
	if w.kind() != '"' {
		return "", false
	}
	raw := w.pass()
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), true
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err == nil
}

func (w *walk) peekText() (string, bool) {
	at := w.i
	defer func() { w.i = at }()
	return w.text()
}

// null consumes a null, and nothing else.
func (w *walk) null() bool {
	if w.kind() != 'n' {
		return false
	}
	w.i += len("null")
	return true
}

// number reads a whole number of 0 or more; anything else is left and reported.
func (w *walk) number() (int64, bool) {
	w.kind()
	from := w.i
	to := from
	for to < len(w.b) && !ends(w.b[to]) {
		to++
	}
	n, err := strconv.ParseInt(string(w.b[from:min(to, from+20)]), 10, 64)
	if err != nil || n < 0 {
		return 0, false
	}
	w.i = to
	return n, true
}

// isTrue consumes a boolean; anything else is left and reported as not ok.
func (w *walk) isTrue() (value, ok bool) {
	switch w.kind() {
	case 't':
		w.i += len("true")
		return true, true
	case 'f':
		w.i += len("false")
		return false, true
	}
	return false, false
}

// maxAhead is how often a body may be read ahead of time in all: blocks within blocks read it once each.
const maxAhead = 6

// tired reports that a body made of blocks within blocks cost more than it should; what member said is then void.
func (w *walk) tired() bool { return w.ahead > maxAhead*len(w.b) }

// member is the text at key in the object that comes next, "" without one. Nothing is consumed.
func (w *walk) member(key string) string {
	at, depth, found := w.i, w.depth, w.facts
	defer func() { w.ahead += w.i - at; w.i, w.depth, w.facts = at, depth, found }()
	value := ""
	if w.kind() != '{' || w.tired() {
		return ""
	}
	_ = w.object("", func(k string) *Refusal {
		if k == key {
			value, _ = w.peekText()
		}
		return w.skip()
	})
	return value
}

// weigh is the most tokens that text of these bytes can become: none is less than a byte. Two things can make it longer
// before it is cut into tokens: it is written anew with spaces and escapes (a tool's schema), or brought into a normal form.
func weigh(body []byte) int64 {
	var n int64
	for i := 0; i < len(body); {
		c := body[i]
		if c < utf8.RuneSelf {
			n++
			switch c {
			case ',', ':', '{', '}', '[', ']':
				n++
			}
			if c == '\\' && i+5 < len(body) && body[i+1] == 'u' {
				if r, err := strconv.ParseUint(string(body[i+2:i+6]), 16, 16); err == nil {
					n += max(0, widest(rune(r))-6)
				}
			}
			i++
			continue
		}
		r, size := utf8.DecodeRune(body[i:])
		n += widest(r)
		i += size
	}
	return n
}

// widest is the most bytes that r takes: as an escape, or as its longest normal form.
func widest(r rune) int64 {
	n := int64(6)
	if r > 0xFFFF {
		n = 12
	}
	var b [utf8.UTFMax]byte
	return max(n, int64(len(norm.NFKD.Properties(b[:utf8.EncodeRune(b[:], r)]).Decomposition())))
}
