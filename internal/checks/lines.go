package checks

import (
	"bytes"
	"io"
	"strings"

	"sallyport.dev/sallyport"
)

const (
	maxOutput = 256 << 20
	maxLine   = 1 << 20
)

// lines gives f each line of output that is not empty, without its end and without terminal escapes, until f
// returns false. A carriage return ends a line too, as progress displays use it. A line above 1 MiB is given in pieces of that
// size: no form but XML writes such lines, and XML does not mind.
func lines(output io.Reader, f func(line string) bool) error {
	buf := make([]byte, 64<<10)
	var rest []byte
	for total := 0; ; {
		n, err := output.Read(buf)
		if total += n; total > maxOutput {
			return &sallyport.Error{Op: "read a check's output", Code: sallyport.CodeExhausted, Message: "the output is larger than 256 MiB", Hint: "let the check write less, or name a report file"}
		}
		chunk := buf[:n]
		for {
			at := bytes.IndexAny(chunk, "\n\r")
			if at < 0 && len(rest)+len(chunk) < maxLine {
				rest = append(rest, chunk...)
				break
			}
			skip := 1
			if at < 0 || len(rest)+at > maxLine {
				at, skip = maxLine-len(rest), 0
			}
			if line := append(rest, chunk[:at]...); len(line) > 0 && !f(visible(string(line))) {
				return nil
			}
			rest, chunk = rest[:0], chunk[at+skip:]
		}
		if err == io.EOF {
			if len(rest) > 0 {
				f(visible(string(rest)))
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// visible removes terminal escape sequences: CSI, OSC and those of two bytes.
func visible(s string) string {
	at := strings.IndexByte(s, 0x1b)
	if at < 0 {
		return s
	}
	var b strings.Builder
	for at >= 0 {
		b.WriteString(s[:at])
		s = s[at+escape(s[at:]):]
		at = strings.IndexByte(s, 0x1b)
	}
	b.WriteString(s)
	return b.String()
}

// escape is the length of the sequence that s begins with.
func escape(s string) int {
	if len(s) < 2 {
		return len(s)
	}
	switch s[1] {
	case '[':
		for i := 2; i < len(s); i++ {
			if s[i] >= '@' && s[i] <= '~' {
				return i + 1
			}
			if s[i] < ' ' || s[i] > '~' {
				return i // broken off
			}
		}
		return len(s)
	case ']':
		for i := 2; i < len(s); i++ {
			if s[i] == 7 {
				return i + 1
			}
			if s[i] == 0x1b {
				return min(i+2, len(s))
			}
		}
		return len(s)
	}
	return 2
}
