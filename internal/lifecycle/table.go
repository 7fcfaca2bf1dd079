package lifecycle

import (
	"fmt"
	"slices"
	"strings"

	"sallyport.dev/sallyport"
)

// row is one line of a transition table: in each state of from, the event on leads to one of to. An empty
// to keeps the state. Where an event's payload names the state (want), it must be one of to.
type row[S ~string] struct {
	on   Type
	from []S
	to   []S
}

// table is a list of rows, looked up by (state, event). The empty state is "does not exist yet".
type table[S ~string] struct {
	noun string // "attempt", "allocation": for messages
	rows []row[S]
}

// next is the state that the event on leads to. want is the state that the payload names; empty for events
// whose payload names none.
func (t table[S]) next(from S, on Type, want S) (S, error) {
	known := false
	for _, r := range t.rows {
		if r.on != on || !slices.Contains(r.from, from) {
			continue
		}
		known = true
		switch {
		case len(r.to) == 0:
			return from, nil
		case len(r.to) == 1 && want == "":
			return r.to[0], nil
		case slices.Contains(r.to, want):
			return want, nil
		}
	}
	msg := fmt.Sprintf("not allowed: the %s %s", t.noun, stands(from))
	if known {
		msg = fmt.Sprintf("%q is not allowed: the %s %s", want, t.noun, stands(from))
	}
	return from, conflict(string(on), msg, hintFor(on, string(from)))
}

func stands[S ~string](s S) string {
	if s == "" {
		return "does not exist"
	}
	return "is " + string(s)
}

func hintFor(on Type, from string) string {
	switch {
	case from == "":
		return ""
	case on == AttemptApproved:
		return "only an attempt that is awaiting-approval can be approved"
	case on == CancelRequested && from == string(sallyport.AttemptAwaitingApproval):
		return "nothing runs any more: reject it instead"
	case strings.HasPrefix(string(on), "publication."):
		return "only an accepted attempt is published"
	}
	return ""
}

func conflict(subject, message, hint string) error {
	return &sallyport.Error{Op: "apply event", Code: sallyport.CodeConflict, Subject: subject, Message: message, Hint: hint}
}

func invalid(on Type, format string, args ...any) error {
	return &sallyport.Error{Op: "apply event", Code: sallyport.CodeInvalid, Subject: string(on), Message: fmt.Sprintf(format, args...)}
}
