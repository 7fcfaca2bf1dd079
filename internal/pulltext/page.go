package pulltext

import (
	"fmt"
	"strings"

	"sallyport.dev/sallyport/internal/screen"
)

// What each section may take, in bytes. Together with the headings they stay below MaxBodyBytes, so that no foreign
// text can push another section out.
const (
	askedBytes      = 8000
	changedBytes    = 4000
	checksBytes     = 13000
	findingsBytes   = 8000
	layersBytes     = 3000
	egressBytes     = 4000
	spendBytes      = 500
	notCheckedBytes = 6000
	approvalsBytes  = 2000
	claimsBytes     = 5000
	verifyBytes     = 5000
)

// moreBytes is kept free in each section for the line that says what was left out.
const moreBytes = 80

// page is a body as it grows. An entry that no longer fits in its section is counted, not cut.
type page struct {
	quoter
	b    strings.Builder
	left int  // bytes of this section
	out  int  // entries that did not fit
	list bool // the last thing written was an item
}

// section ends the one before and begins the next.
func (p *page) section(title string, limit int) {
	p.end()
	if p.b.Len() > 0 {
		p.b.WriteString("\n")
	}
	p.b.WriteString("### " + title + "\n")
	p.left, p.list = limit-moreBytes, false
}

// end says what did not fit.
func (p *page) end() {
	if p.out > 0 {
		p.b.WriteString(lead(p.list) + "- … " + count(p.out, "more entry") + " left out for length\n")
	}
	p.out = 0
}

// lead is the empty line between an entry of a list and anything else.
func lead(within bool) string {
	if within {
		return ""
	}
	return "\n"
}

// add writes one entry whole, or counts it.
func (p *page) add(text string, item bool) {
	text = lead(item && p.list) + text + "\n"
	if len(text) > p.left || p.out > 0 { // after one that is left out, all are: what is shown is a beginning
		p.out++
		return
	}
	p.left -= len(text)
	p.list = item
	p.b.WriteString(text)
}

// para writes a paragraph or a block.
func (p *page) para(text string) { p.add(text, false) }

// item writes an entry of a list, with lines below it.
func (p *page) item(text string, below ...string) {
	for _, l := range below {
		text += "\n  - " + l
	}
	p.add("- "+text, true)
}

// each writes the entries of a list until one does not fit. The others are only counted: a list may be as long as it likes.
func each[T any](p *page, list []T, write func(T)) {
	for i, x := range list {
		if p.out > 0 {
			p.out += len(list) - i
			return
		}
		write(x)
	}
}

// count is "1 file", "2 files", "3 more", "2 more entries".
func count(n int, what string) string {
	switch {
	case n == 1 || strings.HasSuffix(what, "more"):
	case strings.HasSuffix(what, "y"):
		what = strings.TrimSuffix(what, "y") + "ies"
	default:
		what += "s"
	}
	return screen.Thousands(n) + " " + what
}

// size is a number of bytes for people.
func size(n int64) string {
	units := []string{"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	f, u := float64(n), 0
	for f >= 1024 && u < len(units)-1 {
		f, u = f/1024, u+1
	}
	if u == 0 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[u])
}
