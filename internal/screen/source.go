package screen

import (
	"fmt"
	"io"
	"unicode/utf8"
)

// Source renders hostile bytes for a person who reviews them: as Text, but nothing is dropped. What Text takes
// away could hide code from the reader that a compiler sees, so a control character is shown by its name: <ESC>,
// <BEL>, <CR> also before LF, <U+009B>.
func Source(b []byte) string {
	s := scrubber{source: true}
	out := s.feed(make([]byte, 0, len(b)), b)
	return string(s.finish(out))
}

// NewSourceWriter is NewWriter for Source.
func NewSourceWriter(w io.Writer) io.WriteCloser {
	return &textWriter{w: w, s: scrubber{source: true}}
}

// controls are the names of the C0 control characters.
var controls = [...]string{"NUL", "SOH", "STX", "ETX", "EOT", "ENQ", "ACK", "BEL", "BS", "TAB", "LF", "VT", "FF", "CR", "SO", "SI",
	"DLE", "DC1", "DC2", "DC3", "DC4", "NAK", "SYN", "ETB", "CAN", "EM", "SUB", "ESC", "FS", "GS", "RS", "US"}

func sourceUnit(out []byte, r rune, raw byte) []byte {
	switch {
	case r == '\n' || r == '\t':
		return append(out, byte(r))
	case raw != 0:
		return fmt.Appendf(out, "<%02X>", raw)
	case int(r) < len(controls):
		return append(append(append(out, '<'), controls[r]...), '>')
	case r == 0x7f:
		return append(out, "<DEL>"...)
	case !visible(r):
		return fmt.Appendf(out, "<U+%04X>", r)
	}
	return utf8.AppendRune(out, r)
}
