package egress

import "slices"

// everyPath is the glob that a rule without paths has.
const everyPath = "/**"

// Unheld is what of r cannot be held on a connection that is passed through unread, "" if nothing.
func Unheld(r Rule) string {
	switch {
	case r.Protocol == Git:
		return "reads of a repository"
	case r.Protocol != HTTPS:
		return ""
	case !slices.Contains(r.Methods, "*"):
		return "a choice of methods"
	case !slices.Contains(r.Paths, everyPath):
		return "a choice of paths"
	case r.Limits.Requests != 0 || r.Limits.Rate != 0:
		return "a number of requests"
	case !r.OwnAuth:
		return "the refusal of the sandbox's own authentication"
	}
	return ""
}

// Whole is r without what is Unheld: the next rule that can be held unread. A rule that can be stays as it is.
func Whole(r Rule) Rule {
	if Unheld(r) == "" {
		return r
	}
	r.Protocol, r.Methods, r.Paths, r.OwnAuth = HTTPS, []string{"*"}, []string{everyPath}, true
	r.Limits.Requests, r.Limits.Rate = 0, 0
	return r
}
