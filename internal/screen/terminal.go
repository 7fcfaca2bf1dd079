package screen

import (
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Reset brings a terminal back to where a prompt of ours can be trusted, whatever a session left behind: an
// open control string or sequence is ended, colours, character set, scroll region, origin and insert mode,
// mouse, focus and paste reports, keyboard protocols and the alternate screen are taken back, and the cursor
// goes to a fresh line at the bottom. It uses mode 1047 and not 1049, which moves the cursor to wherever
// it was last saved.
const Reset = "\x18\x1b\\" +
	"\x1b[?2026l\x1b[?1047l\x1b[?47l" +
	"\x0f\x1b(B\x1b[m" +
	"\x1b[?6l\x1b[?69l\x1b[r\x1b[4l\x1b[?7h\x1b[?5l\x1b[?25h\x1b[0 q" +
	"\x1b[?9l\x1b[?1000l\x1b[?1001l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1005l\x1b[?1006l\x1b[?1015l\x1b[?1016l\x1b[?2004l" +
	"\x1b[?1l\x1b[?66l\x1b>\x1b[>4;0m\x1b[<99u\x1b[=0;1u" +
	"\x1b[9999;1H\r\n"

// TerminalFilter stands between a hostile program and the user's terminal in an interactive session. The
// screen is the program's; the terminal is not. It passes text, colours, cursor movement, erasing, scrolling,
// the alternate screen, mouse and paste modes and keyboard protocols. It drops everything that sets titles,
// reaches the clipboard, draws links or images, prints, or makes the terminal type an answer (OSC, DCS, APC,
// PM, SOS, device and status reports, window operations), every 8-bit control, and whatever it does not
// know: allowed sequences are a list. A sequence is written whole or not at all, never in part.
//
// BUG: programs that wait for a cursor position report (CSI 6 n) never get one and fall back or time out. The
// only question let through is the keyboard protocol's, whose answer is a number between 0 and 31.
type TerminalFilter struct {
	w       io.Writer
	state   scrubState
	seq     []byte // of the sequence so far, at most maxSequence
	partial decoder
	out     []byte
}

// NewTerminalFilter returns a filter that writes to w. It stores at most one sequence. Not safe for
// concurrent use.
func NewTerminalFilter(w io.Writer) *TerminalFilter { return &TerminalFilter{w: w} }

func (t *TerminalFilter) Write(p []byte) (int, error) {
	t.partial.each(p, t.unit)
	if err := t.flush(); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close drops an unfinished sequence; it neither resets the terminal nor closes it.
func (t *TerminalFilter) Close() error {
	t.partial.flush(t.unit)
	t.state, t.seq = ground, nil
	return t.flush()
}

func (t *TerminalFilter) flush() error {
	if len(t.out) == 0 {
		return nil
	}
	_, err := t.w.Write(t.out)
	t.out = t.out[:0]
	return err
}

func (t *TerminalFilter) unit(r rune, raw byte) {
	switch t.state {
	case ground:
		t.text(r, raw)
	case afterEscape:
		t.escape(r, raw)
	case intermediate:
		t.charset(r, raw)
	case inCSI:
		t.csi(r, raw)
	default:
		t.str(r)
	}
}

// passedControls act on the screen only. BEL is not among them: it is a nuisance, and it ends strings.
const passedControls = "\b\t\n\v\f\r\x0e\x0f"

func (t *TerminalFilter) text(r rune, raw byte) {
	switch {
	case raw != 0: // an 8-bit control where the terminal is not in UTF-8 mode; harmless as U+FFFD
		t.out = utf8.AppendRune(t.out, utf8.RuneError)
	case r == 0x1b:
		t.state, t.seq = afterEscape, t.seq[:0]
	case r < 0x20:
		if strings.ContainsRune(passedControls, r) {
			t.out = append(t.out, byte(r))
		}
	case r == 0x9d:
		t.state = inOSC
	case r == 0x90 || r == 0x98 || r == 0x9e || r == 0x9f:
		t.state = inString
	case r >= 0x7f && r <= 0x9f || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r):
	default:
		t.out = utf8.AppendRune(t.out, r)
	}
}

// restart handles what ends any sequence: CAN and SUB, which are dropped like any control that does not pass,
// ESC, which begins another, and what belongs to none.
func (t *TerminalFilter) restart(r rune, raw byte) {
	t.state = ground
	t.text(r, raw)
}

func (t *TerminalFilter) escape(r rune, raw byte) {
	switch {
	case raw != 0 || r < 0x20 || r > 0x7e:
		t.restart(r, raw)
		return
	case r == '[':
		t.state = inCSI
		return
	case r == ']':
		t.state = inOSC
		return
	case r == 'P' || r == 'X' || r == '^' || r == '_':
		t.state = inString
		return
	case r <= 0x2f:
		t.state = intermediate
		t.seq = append(t.seq, byte(r))
		return
	case strings.ContainsRune("78=>DEMH", r): // save, restore, keypad, index, next line, reverse index, tab stop
		t.out = append(t.out, 0x1b, byte(r))
	}
	t.state = ground
}

// charset passes the designation of ASCII, UK and line drawing sets, which curses programs draw frames with.
func (t *TerminalFilter) charset(r rune, raw byte) {
	switch {
	case raw != 0 || r < 0x20 || r > 0x7e || len(t.seq) > maxSequence:
		t.restart(r, raw)
		return
	case r <= 0x2f:
		t.seq = append(t.seq, byte(r))
		return
	case len(t.seq) == 1 && strings.ContainsRune("()*+", rune(t.seq[0])) && strings.ContainsRune("0AB", r):
		t.out = append(t.out, 0x1b, t.seq[0], byte(r))
	}
	t.state = ground
}

func (t *TerminalFilter) csi(r rune, raw byte) {
	switch {
	case raw != 0 || r < 0x20 || r > 0x7e:
		t.restart(r, raw)
	case r <= 0x3f:
		if len(t.seq) <= maxSequence { // one byte over the limit marks the whole as too long
			t.seq = append(t.seq, byte(r))
		}
	default:
		if len(t.seq) <= maxSequence && allowed(string(t.seq), byte(r)) {
			t.out = append(append(append(t.out, "\x1b["...), t.seq...), byte(r))
		}
		t.state = ground
	}
}

// str swallows a control string. It stores nothing, so an endless one costs nothing.
func (t *TerminalFilter) str(r rune) {
	switch {
	case r == 0x1b: // ESC \ ends it; any other escape does too
		t.state, t.seq = afterEscape, t.seq[:0]
	case r == 0x18 || r == 0x1a || r == 0x9c || r == 0x07 && t.state == inOSC:
		t.state = ground
	}
}

// screenModes are the private modes a program may set and reset: what is shown and how keys, mouse and paste
// arrive. Left out are those that make the terminal speak without a key (2031), resize it (3, 40), print, or
// keep its contents from the user.
var screenModes = []int{1, 5, 6, 7, 9, 12, 25, 45, 47, 66, 69, 1000, 1002, 1003, 1004, 1005, 1006, 1007, 1015, 1016, 1047, 1048, 1049, 2004, 2026}

// maxParameter is larger than any screen; repeat counts beyond it only serve to hang a terminal.
const maxParameter = 9999

// allowed judges one CSI sequence: what stands between CSI and the final byte, and that byte.
func allowed(body string, final byte) bool {
	prefix := ""
	if body != "" && strings.IndexByte("<=>?", body[0]) >= 0 {
		prefix, body = body[:1], body[1:]
	}
	digits := strings.TrimRight(body, " !\"#$%&'()*+,-./")
	inter := body[len(digits):]
	if final == 'm' && prefix == "" && inter == "" {
		return colours(digits)
	}
	params, ok := parameters(digits)
	if !ok {
		return false
	}
	switch prefix + inter {
	case "":
		return plain(params, final)
	case "?":
		switch final {
		case 'h', 'l':
			return len(params) > 0 && !slices.ContainsFunc(params, func(n int) bool { return !slices.Contains(screenModes, n) })
		case 'J', 'K':
			return len(params) <= 1
		case 'u':
			return len(params) == 0 // which keyboard protocol is on? answer: CSI ? 0…31 u
		}
	case ">":
		switch final {
		case 'u':
			return len(params) <= 1 // keyboard protocol: push
		case 'm', 'n':
			return len(params) >= 1 && len(params) <= 2 && params[0] == 4 // modifyOtherKeys
		}
	case "<":
		return final == 'u' && len(params) <= 1 // pop
	case "=":
		return final == 'u' && len(params) <= 2 // set
	case " ":
		return final == 'q' && len(params) <= 1 // cursor shape
	case "!":
		return final == 'p' && len(params) == 0 // soft reset
	}
	return false
}

// plain judges sequences without prefix or intermediate.
func plain(params []int, final byte) bool {
	switch final {
	case 'A', 'B', 'C', 'D', 'E', 'F', 'G', 'I', 'Z', '`', 'a', 'd', 'e', // cursor, tabs
		'J', 'K', 'X', 'P', '@', 'L', 'M', // erase, delete, insert
		'S', 'T', 'b', 'g': // scroll, repeat, clear tab stops (T with five parameters tracks the mouse)
		return len(params) <= 1
	case 'H', 'f', 'r', 's':
		return len(params) <= 2
	case 'u':
		return len(params) == 0
	case 'h', 'l':
		return len(params) == 1 && params[0] == 4 // insert mode
	}
	return false
}

// colours takes digits, semicolons and colons: every SGR only changes how text looks.
func colours(s string) bool {
	return strings.Trim(s, "0123456789;:") == ""
}

// parameters reads numbers between semicolons; an empty one is 0.
func parameters(s string) ([]int, bool) {
	if s == "" {
		return nil, true
	}
	var out []int
	for _, f := range strings.Split(s, ";") {
		if f == "" {
			out = append(out, 0)
			continue
		}
		n, err := strconv.Atoi(f)
		if err != nil || n < 0 || n > maxParameter || f[0] == '+' || f[0] == '-' {
			return nil, false
		}
		out = append(out, n)
	}
	return out, true
}
