package pulltext

import (
	"fmt"
	"regexp"
	"strings"

	"sallyport.dev/sallyport"
)

// Marker is what a body says of itself to programs. It is a hint: whoever may edit a pull request can write one.
type Marker struct {
	WorkOrder sallyport.WorkOrderID
	Attempt   sallyport.AttemptID
	Evidence  sallyport.Digest
}

const markerOpens = "<!-- sallyport:"

var markerForm = regexp.MustCompile(`^<!-- sallyport: workorder=(\S+) attempt=(\S+) evidence=(\S+) -->$`)

// valid reports whether each part has its own form; nothing else is ever put between the comment's ends.
func (m Marker) valid() bool {
	return sallyport.CheckID(sallyport.WorkOrderPrefix, string(m.WorkOrder)) == nil &&
		sallyport.CheckID(sallyport.AttemptPrefix, string(m.Attempt)) == nil && m.Evidence.Check() == nil
}

// String is the line; "" for a marker that is not complete.
func (m Marker) String() string {
	if !m.valid() {
		return ""
	}
	return fmt.Sprintf("%s workorder=%s attempt=%s evidence=%s -->", markerOpens, m.WorkOrder, m.Attempt, m.Evidence)
}

// ParseMarker finds the marker of a body as a forge gives it back (CR LF or LF). False: there is none, or more than
// one, or something that begins like one and is none: then nothing can be told.
func ParseMarker(body string) (Marker, bool) {
	if strings.Count(body, markerOpens) != 1 {
		return Marker{}, false
	}
	for line := range strings.Lines(body) {
		f := markerForm.FindStringSubmatch(strings.TrimRight(line, "\r\n"))
		if f == nil {
			continue
		}
		m := Marker{WorkOrder: sallyport.WorkOrderID(f[1]), Attempt: sallyport.AttemptID(f[2]), Evidence: sallyport.Digest(f[3])}
		return m, m.valid()
	}
	return Marker{}, false
}
