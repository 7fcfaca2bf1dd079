package review

import (
	"io"
	"strings"
	"unicode/utf8"

	"sallyport.dev/sallyport/internal/screen"
)

// Bounds of what a page shows of a patch; the rest is counted and said.
const (
	maxPatchLines = 20_000
	maxLineBytes  = 2_000
)

// Diff is one file of a patch, line by line, neutralised.
type Diff struct {
	Path         string // "" for lines before the first file
	Added, Taken int
	Lines        []Line
}

// Patch reads a patch as Mission Control writes it (git's form, prefixes a/ and b/). It is shown, never applied:
// what it cannot make sense of stays a line of text. Left is how many lines were too many.
func Patch(r io.Reader) (files []Diff, left int, err error) {
	b := blocks{out: func(l Line) { files = addLine(files, l) }}
	var text strings.Builder
	total, cut := 0, 0
	s := &splitter{max: maxLineBytes, take: func(piece []byte, first, last bool) {
		if first {
			text.Reset()
			text.Write(piece)
			cut = 0
		} else {
			cut += len(piece)
		}
		if !last {
			return
		}
		if total++; total > maxPatchLines {
			left++
			return
		}
		b.take(whole(text.String()), cut)
	}}
	w := screen.NewSourceWriter(s)
	if _, err := io.Copy(w, r); err != nil {
		return nil, 0, err
	}
	_ = w.Close() // as s, which cannot fail
	s.close()
	b.flush()
	return files, left, nil
}

// whole drops a character that was cut.
func whole(s string) string {
	for i := 0; i < utf8.UTFMax && !utf8.ValidString(s); i++ {
		s = s[:len(s)-1]
	}
	return s
}

func addLine(files []Diff, l Line) []Diff {
	if l.Kind == kindFile {
		return append(files, Diff{Path: pathOf(strings.TrimPrefix(l.Text(), "diff --git "))})
	}
	if len(files) == 0 {
		files = append(files, Diff{})
	}
	f := &files[len(files)-1]
	switch l.Kind {
	case kindAdd:
		f.Added++
	case kindDel:
		f.Taken++
	}
	f.Lines = append(f.Lines, l)
	return files
}
