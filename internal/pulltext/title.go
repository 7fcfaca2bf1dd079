package pulltext

import (
	"strings"
)

// titlePrefix begins each title: no foreign text begins one, since "Draft:" and "WIP:" there change a pull request.
const titlePrefix = "sallyport: "

const titleColumns = 72

// title is the first line of the task, or the work order's name, in at most titleColumns columns.
func title(o Options) string {
	var q quoter
	for _, s := range []string{o.Task, o.Predicate.WorkOrder.Name} {
		for l := range strings.Lines(s) {
			if l = plainTitle(&q, l); l != "" {
				return fit(titlePrefix+l, titleColumns)
			}
		}
	}
	return titlePrefix + "a change"
}

func plainTitle(q *quoter, s string) string {
	s = q.line(s, titleColumns)
	for _, b := range titleBreaks {
		if b.with == "" {
			s = b.at.ReplaceAllStringFunc(s, shortenHex)
			continue
		}
		s = b.at.ReplaceAllString(s, b.with)
	}
	s = strings.NewReplacer("`", "'", "|", "¦", "\\", "∖").Replace(s)
	return strings.Join(strings.Fields(s), " ")
}

// shortenHex leaves too little of an object's name for a forge to link it.
func shortenHex(s string) string { return s[:6] + "…" }
