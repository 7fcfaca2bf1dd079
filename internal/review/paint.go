package review

import (
	"bufio"
	"errors"
	"io"
)

// PaintOptions say how a patch is drawn.
type PaintOptions struct {
	Colour bool
	Words  bool // mark what differs within lines: in reverse, or without colour as [-old-] and {+new+}
}

// NewPainter returns a writer for the text of a patch that is neutralised already. It marks and colours, and
// changes nothing else. Close writes what is left and does not close w.
func NewPainter(w io.Writer, o PaintOptions) io.WriteCloser {
	p := &painter{w: bufio.NewWriter(w), o: o}
	p.blocks.out = p.line
	p.in = splitter{max: maxPiece, take: p.piece}
	return p
}

// maxPiece is the longest line that is looked at as a whole.
const maxPiece = 64 << 10

type painter struct {
	w      *bufio.Writer
	o      PaintOptions
	in     splitter
	blocks blocks
	err    error
}

func (p *painter) Write(b []byte) (int, error) {
	if p.err == nil {
		_, _ = p.in.Write(b)
		p.err = p.w.Flush()
	}
	if p.err != nil {
		return 0, p.err
	}
	return len(b), nil
}

func (p *painter) Close() error {
	p.in.close()
	p.blocks.flush()
	return errors.Join(p.err, p.w.Flush())
}

// piece takes the parts of a line: a whole one goes through the comparison, a longer one straight on.
func (p *painter) piece(b []byte, first, last bool) {
	switch {
	case first && last && p.o.Words:
		p.blocks.take(string(b), 0)
		return
	case first:
		p.blocks.flush()
		p.put(p.colour(p.blocks.hunks.kind(b)))
	}
	_, _ = p.w.Write(b)
	if last {
		p.put(p.end())
		_ = p.w.WriteByte('\n')
	}
}

func (p *painter) put(s string) { _, _ = p.w.WriteString(s) }

func (p *painter) line(l Line) {
	p.put(p.colour(l.Kind))
	for _, part := range l.Parts {
		before, after := p.marks(l.Kind, part)
		p.put(before)
		p.put(part.Text)
		p.put(after)
	}
	p.put(p.end())
	_ = p.w.WriteByte('\n')
}

func (p *painter) marks(kind string, part Part) (before, after string) {
	switch {
	case !part.Changed:
		return "", ""
	case p.o.Colour:
		return "\x1b[7m", "\x1b[27m"
	case kind == kindDel:
		return "[-", "-]"
	}
	return "{+", "+}"
}

func (p *painter) colour(kind string) string {
	if !p.o.Colour {
		return ""
	}
	return map[string]string{kindFile: "\x1b[" + bold + "m", kindMeta: "\x1b[2m", kindHunk: "\x1b[36m", kindAdd: "\x1b[" + green + "m", kindDel: "\x1b[" + red + "m"}[kind]
}

func (p *painter) end() string {
	if !p.o.Colour {
		return ""
	}
	return "\x1b[0m"
}
