package inspect

import (
	"bytes"
	"strings"
)

// setting is one "key = value" of a file in git's configuration format.
type setting struct {
	full  string // "submodule.a b.url": all but the quoted middle in lower case
	value string // "true" where the key stands alone
}

// split takes the name apart at its first and its last dot, as git does: what is between may hold dots. named
// is false where nothing is between.
func (s setting) split() (section, name, key string, named bool) {
	last := strings.LastIndexByte(s.full, '.')
	if last < 0 {
		return "", "", s.full, false
	}
	section, name, named = strings.Cut(s.full[:last], ".")
	return section, name, s.full[last+1:], named
}

// parseConfig reads git's configuration format as git does, without includes. bad is the line at which git
// would give up, 0 if it reads all. A file with NUL bytes is bad, since what git makes of one depends on
// where it is used.
func parseConfig(b []byte) (settings []setting, bad int) {
	p := configReader{b: bytes.TrimPrefix(b, []byte("\ufeff")), line: 1}
	if bytes.IndexByte(b, 0) >= 0 {
		return nil, 1
	}
	prefix := ""
	for {
		c, ok := p.next()
		switch {
		case !ok:
			return settings, 0
		case blank(c):
		case c == '#' || c == ';':
			p.skipLine()
		case c == '[':
			if prefix, ok = p.header(); !ok {
				return settings, p.place()
			}
		case asciiLetter(c):
			key, value, ok := p.pair(c)
			if !ok {
				return settings, p.place()
			}
			settings = append(settings, setting{prefix + key, value})
		default:
			return settings, p.place()
		}
	}
}

// configReader hands out bytes, with CR LF as LF.
type configReader struct {
	b    []byte
	at   int
	line int
}

func (p *configReader) next() (c byte, ok bool) {
	if p.at >= len(p.b) {
		return '\n', false // git reads the end as a line's end
	}
	c = p.b[p.at]
	p.at++
	if c == '\r' && p.at < len(p.b) && p.b[p.at] == '\n' {
		c = '\n'
		p.at++
	}
	if c == '\n' {
		p.line++
	}
	return c, true
}

// place is the line of the byte that was handed out last.
func (p *configReader) place() int {
	if p.at > 0 && p.b[p.at-1] == '\n' {
		return p.line - 1
	}
	return p.line
}

func (p *configReader) skipLine() {
	for c, ok := p.next(); ok && c != '\n'; c, ok = p.next() {
	}
}

// header reads what follows "[", up to "]", as the prefix of the names below it: `submodule.a b.`.
func (p *configReader) header() (prefix string, ok bool) {
	var b strings.Builder
	for {
		c, ok := p.next()
		switch {
		case !ok:
			return "", false
		case c == ']':
			return b.String() + ".", b.Len() > 0
		case blank(c):
			name, ok := p.subsection(c)
			return b.String() + "." + name + ".", ok
		case !keyByte(c) && c != '.':
			return "", false
		}
		b.WriteByte(lower(c))
	}
}

func (p *configReader) subsection(c byte) (name string, ok bool) {
	for blank(c) {
		if c == '\n' {
			return "", false
		}
		c, _ = p.next()
	}
	if c != '"' {
		return "", false
	}
	var b strings.Builder
	for {
		c, _ = p.next()
		if c == '"' {
			break
		}
		if c == '\\' {
			c, _ = p.next()
		}
		if c == '\n' {
			return "", false
		}
		b.WriteByte(c)
	}
	c, _ = p.next()
	return b.String(), c == ']'
}

func (p *configReader) pair(first byte) (key, value string, ok bool) {
	name := []byte{lower(first)}
	c, more := p.next()
	for ; more && keyByte(c); c, more = p.next() {
		name = append(name, lower(c))
	}
	for c == ' ' || c == '\t' {
		c, _ = p.next()
	}
	switch c {
	case '\n':
		return string(name), "true", true
	case '=':
		value, ok = p.value()
		return string(name), value, ok
	}
	return "", "", false
}

func (p *configReader) value() (string, bool) {
	var b strings.Builder
	quoted, comment, spaces := false, false, 0
	for {
		c, _ := p.next()
		switch {
		case c == '\n':
			return b.String(), !quoted
		case comment:
			continue
		case blank(c) && !quoted:
			if b.Len() > 0 {
				spaces++
			}
			continue
		case !quoted && (c == '#' || c == ';'):
			comment = true
			continue
		}
		b.WriteString(strings.Repeat(" ", spaces))
		spaces = 0
		switch c {
		case '"':
			quoted = !quoted
		case '\\':
			e, _ := p.next()
			at := strings.IndexByte("\ntbn\\\"", e)
			if at < 0 {
				return "", false
			}
			if e != '\n' {
				b.WriteByte("\n\t\b\n\\\""[at])
			}
		default:
			b.WriteByte(c)
		}
	}
}

func blank(c byte) bool       { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
func asciiLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func keyByte(c byte) bool     { return alnum(c) || c == '-' }

func alnum(c byte) bool { return asciiLetter(c) || c >= '0' && c <= '9' }

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
