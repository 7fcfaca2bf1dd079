package egress

import "slices"

// everyPath is the glob that a rule without paths has.
const everyPath = "/**"

// Unread says that nothing has to be read on a connection that r allows: a tcp rule, or an https rule that lets the
// sandbox say all that the host understands. Every other rule is held by reading each request.
func Unread(r Rule) bool {
	switch r.Protocol {
	case TCP:
		return true
	case HTTPS:
		return slices.Contains(r.Methods, "*") && slices.Contains(r.Paths, everyPath) && r.Limits.Requests == 0 && r.Limits.Rate == 0 && r.OwnAuth
	}
	return false
}
