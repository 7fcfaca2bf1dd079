package screen

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text renders hostile bytes for a person. The result is UTF-8 made of visible characters, spaces, line feeds
// and tabs only:
//
//   - control characters (C0 but LF and TAB, DEL, C1) and whole control sequences (CSI, OSC, DCS, …), also in
//     8-bit form and unterminated, are dropped
//   - CR LF is LF; a CR alone, with which a line can overwrite itself, is <CR>
//   - what is invisible or reorders text (bidi controls, format characters, line and paragraph separators,
//     Hangul fillers, tags, variation selectors, unassigned code points) is <U+XXXX>
//   - bytes that are not UTF-8 are <XX>
//
// Text of a result is the result.
func Text(b []byte) string {
	var s scrubber
	out := s.feed(make([]byte, 0, len(b)), b)
	return string(s.finish(out))
}

// Line is Text for one line: a line feed is <LF>, a tab a space.
func Line(s string) string {
	return strings.NewReplacer("\n", "<LF>", "\t", " ").Replace(Text([]byte(s)))
}

// NewWriter returns a writer that renders like Text and remembers across writes: the sum of what it writes to
// w equals Text of the sum. It holds back at most an incomplete character, a CR or a control sequence, the
// latter without storing it. Close writes what is left and does not close w. Not safe for concurrent use.
func NewWriter(w io.Writer) io.WriteCloser { return &textWriter{w: w} }

type textWriter struct {
	w io.Writer
	s scrubber
}

func (t *textWriter) Write(p []byte) (int, error) {
	if out := t.s.feed(nil, p); len(out) > 0 {
		if _, err := t.w.Write(out); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

func (t *textWriter) Close() error {
	out := t.s.finish(nil)
	if len(out) == 0 {
		return nil
	}
	_, err := t.w.Write(out)
	return err
}

// maxSequence bounds how much text a CSI sequence, and maxString how much a control string, can hide: what
// follows is shown, as inert text. Without the bound one unterminated sequence would blank all later output.
const (
	maxSequence = 256
	maxString   = 64 << 10
)

type scrubState uint8

const (
	ground       scrubState = iota
	afterEscape             // ESC
	intermediate            // ESC and 0x20–0x2F
	inCSI
	inString // OSC, DCS, SOS, PM, APC
	inOSC    // as inString, and BEL ends it
)

// scrubber is the machine behind Text. It stores no text but an incomplete character.
type scrubber struct {
	state   scrubState
	length  int // of the sequence so far
	cr      bool
	broken  bool // the unit before was a byte that is not UTF-8
	source  bool // nothing is dropped (Source)
	partial decoder
}

func (s *scrubber) feed(out, in []byte) []byte {
	for len(in) > 0 {
		// Most output is plain ASCII between sequences; it need not go through the machine.
		if s.state == ground && !s.cr && s.partial.n == 0 {
			if n := plainPrefix(in); n > 0 {
				s.broken = false
				out, in = append(out, in[:n]...), in[n:]
				continue
			}
		}
		n := min(len(in), 16)
		s.partial.each(in[:n], func(r rune, raw byte) { out = s.unit(out, r, raw) })
		in = in[n:]
	}
	return out
}

// plainPrefix is how many bytes at the start of b mean themselves.
func plainPrefix(b []byte) int {
	for i, c := range b {
		if (c < 0x20 || c > 0x7e) && c != '\n' && c != '\t' {
			return i
		}
	}
	return len(b)
}

func (s *scrubber) finish(out []byte) []byte {
	s.partial.flush(func(r rune, raw byte) { out = s.unit(out, r, raw) })
	if s.cr {
		out = append(out, "<CR>"...)
	}
	*s = scrubber{source: s.source}
	return out
}

// unit takes one character, or one byte that is not UTF-8 (r is utf8.RuneError and raw is not 0).
func (s *scrubber) unit(out []byte, r rune, raw byte) []byte {
	if s.source {
		return sourceUnit(out, r, raw)
	}
	broken := s.broken
	s.broken = raw != 0
	if raw >= 0x80 && raw <= 0x9f && !broken {
		r = rune(raw) // an 8-bit control, where it cannot be the rest of a cut character
	}
	if s.state != ground {
		again := false
		if again = s.sequence(r); !again {
			return out
		}
	}
	if s.cr && r != '\r' {
		s.cr = false
		if r != '\n' {
			out = append(out, "<CR>"...)
		}
	}
	switch {
	case r == '\n' || r == '\t':
		return append(out, byte(r))
	case r == '\r':
		s.cr = true
		return out
	case r == 0x1b:
		s.enter(afterEscape)
		return out
	case s.introduce(r):
		return out
	case raw != 0:
		return fmt.Appendf(out, "<%02X>", raw)
	case r < 0x20 || r >= 0x7f && r <= 0x9f:
		return out
	case !visible(r):
		return fmt.Appendf(out, "<U+%04X>", r)
	}
	return utf8.AppendRune(out, r)
}

func (s *scrubber) enter(state scrubState) { s.state, s.length = state, 0 }

// introduce enters the sequence that an 8-bit control begins.
func (s *scrubber) introduce(r rune) bool {
	switch r {
	case 0x9b:
		s.enter(inCSI)
	case 0x9d:
		s.enter(inOSC)
	case 0x90, 0x98, 0x9e, 0x9f:
		s.enter(inString)
	default:
		return false
	}
	return true
}

// sequence takes one unit inside a control sequence. True: the sequence ended before this unit, which is to
// be read as text.
func (s *scrubber) sequence(r rune) (again bool) {
	s.length++
	if r == 0x18 || r == 0x1a { // CAN and SUB end any sequence
		s.enter(ground)
		return false
	}
	if r == 0x1b {
		s.enter(afterEscape)
		return false
	}
	switch s.state {
	case afterEscape:
		return s.escape(r)
	case intermediate:
		if r >= 0x20 && r <= 0x2f && s.length < maxSequence {
			return false
		}
		s.enter(ground)
		return r < 0x30 || r > 0x7e
	case inCSI:
		if r >= 0x20 && r <= 0x3f && s.length < maxSequence {
			return false
		}
		s.enter(ground)
		return r < 0x40 || r > 0x7e
	default: // a string ends at ST; also at a line feed, since hiding lines is worse than showing noise
		switch {
		case r == 0x9c, r == 0x07 && s.state == inOSC:
			s.enter(ground)
			return false
		case r == '\n' || s.length > maxString:
			s.enter(ground)
			return true
		}
		return false
	}
}

func (s *scrubber) escape(r rune) (again bool) {
	switch {
	case r == '[':
		s.enter(inCSI)
	case r == ']':
		s.enter(inOSC)
	case r == 'P' || r == 'X' || r == '^' || r == '_':
		s.enter(inString)
	case r >= 0x20 && r <= 0x2f:
		s.enter(intermediate)
	default:
		s.enter(ground)
		return r < 0x30 || r > 0x7e
	}
	return false
}

// visible reports whether r has a shape or width of its own and stays where it is written.
func visible(r rune) bool {
	switch {
	case r >= 0x20 && r < 0x7f:
		return true
	case r == 0x115f || r == 0x1160 || r == 0x3164 || r == 0xffa0: // Hangul fillers: letters without a shape
		return false
	case unicode.In(r, unicode.Bidi_Control, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point):
		return false
	}
	return unicode.IsGraphic(r)
}

// decoder splits a stream into characters and bytes that belong to none, whatever the writes' borders.
type decoder struct {
	held [utf8.UTFMax]byte
	n    int
}

func (d *decoder) each(in []byte, f func(r rune, raw byte)) {
	for d.n > 0 && len(in) > 0 {
		d.held[d.n] = in[0]
		d.n++
		in = in[1:]
		d.drain(f, false)
	}
	for len(in) > 0 {
		if !utf8.FullRune(in) {
			d.n = copy(d.held[:], in)
			return
		}
		r, size := utf8.DecodeRune(in)
		emit(f, r, size, in[0])
		in = in[size:]
	}
}

func (d *decoder) drain(f func(r rune, raw byte), last bool) {
	for d.n > 0 && (last || utf8.FullRune(d.held[:d.n])) {
		r, size := utf8.DecodeRune(d.held[:d.n])
		first := d.held[0]
		d.n = copy(d.held[:], d.held[size:d.n])
		emit(f, r, size, first)
	}
}

func (d *decoder) flush(f func(r rune, raw byte)) { d.drain(f, true) }

func emit(f func(r rune, raw byte), r rune, size int, first byte) {
	if r == utf8.RuneError && size == 1 {
		f(r, first)
		return
	}
	f(r, 0)
}
