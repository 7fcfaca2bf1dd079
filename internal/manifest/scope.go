package manifest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"sallyport.dev/sallyport"
)

// scope narrows: denied paths add up; of two allow lists the WorkOrder's counts if the repository's can be
// shown to contain it. (Two lists of globs have no intersection that is again a list of globs.)
func (c *compiler) scope() (sallyport.Scope, error) {
	var proposal, order sallyport.Scope
	if c.in.Repository != nil && c.in.Repository.Scope != nil {
		proposal = *c.in.Repository.Scope
	}
	if proposal.Deny == nil {
		proposal.Deny = DefaultDeny()
	}
	if c.in.WorkOrder.Scope != nil {
		order = *c.in.WorkOrder.Scope
	}
	deny := union(proposal.Deny, order.Deny)
	for _, op := range []*Operator{c.in.User, c.in.Ceiling} {
		if op != nil {
			deny = union(deny, op.Deny)
		}
	}
	allow := firstSaid(order.Allow, proposal.Allow)
	if order.Allow != nil && proposal.Allow != nil {
		if err := c.inside(*order.Allow, *proposal.Allow); err != nil {
			return sallyport.Scope{}, err
		}
	}
	if allow != nil {
		list := append([]string{}, *allow...)
		allow = &list
	}
	return sallyport.Scope{Allow: allow, Deny: deny}, nil
}

func (c *compiler) inside(order, proposal []string) error {
	where := c.in.Repository.Places.at("scope.allow")
	for i, g := range order {
		if slices.ContainsFunc(proposal, func(p string) bool { return covers(p, g) }) {
			continue
		}
		if c.mayGrant("scope.allow") {
			c.note("scope.allow %q is outside the repository's at %s: granted by flag", g, where)
			continue
		}
		field := fmt.Sprintf("scope.allow[%d]", i)
		place := c.in.Places.at(field)
		if c.in.Places["scope.allow"].Flag || place == field {
			place = c.in.Places.at("scope.allow")
		}
		return denied(place, fmt.Sprintf("%q is not shown to lie inside the scope.allow at %s (%s); a work order can only narrow",
			g, where, either(listed(proposal), "nothing")), c.grantHint())
	}
	return nil
}

// covers reports that every path which the pattern inner matches is matched by outer as well. It answers
// true only where that is certain; a false may be wrong, which refuses too much and never too little.
func covers(outer, inner string) bool {
	if outer == inner {
		return true
	}
	return coversParts(splitGlob(outer), splitGlob(inner))
}

// coversParts fills a table from the ends, ok[i][j]: outer[i:] covers inner[j:]. Plain recursion would try
// every way to spread several "**".
func coversParts(outer, inner []string) bool {
	next := make([]bool, len(inner)+1)
	next[len(inner)] = true
	last := len(outer) - 1
	for i := last; i >= 0; i-- {
		row := make([]bool, len(inner)+1)
		for j := len(inner); j >= 0; j-- {
			switch {
			case outer[i] == "**" && i == last:
				row[j] = closes(outer, inner[j:])
			case outer[i] == "**":
				row[j] = next[j] || (j < len(inner) && row[j+1])
			case j < len(inner) && inner[j] != "**":
				row[j] = next[j+1] && coversPart(outer[i], inner[j])
			}
		}
		next = row
	}
	return next[0]
}

// closes reports that the "**" at outer's end takes the rest of inner. The library's "a/**" matches "a"
// itself and its "a*/**" does not (tried with v4.10.4), so a rest that may be empty needs a literal before.
func closes(outer, rest []string) bool {
	if len(outer) < 2 || !strings.ContainsAny(outer[len(outer)-2], "*?[{") {
		return true
	}
	return slices.ContainsFunc(rest, func(part string) bool { return part != "**" })
}

// coversPart compares one part between slashes. Text in braces may hold slashes, so it equals only itself.
func coversPart(outer, inner string) bool {
	switch {
	case outer == inner:
		return true
	case strings.Contains(outer, "{") || strings.Contains(inner, "{"):
		return false
	case outer == "*":
		return true
	case strings.ContainsAny(inner, "*?["):
		return false
	}
	ok, err := doublestar.Match(outer, inner)
	return ok && err == nil
}

// splitGlob cuts at the slashes outside of braces and brackets.
func splitGlob(g string) []string {
	var parts []string
	depth, start := 0, 0
	for i := range len(g) {
		switch g[i] {
		case '{', '[':
			depth++
		case '}', ']':
			depth = max(0, depth-1)
		case '/':
			if depth == 0 {
				parts, start = append(parts, g[start:i]), i+1
			}
		}
	}
	return append(parts, g[start:])
}

// publish takes the least far-reaching destination and the most cautious approval of Policy; a WorkOrder
// may only go further in that direction.
func (c *compiler) publish() (sallyport.Publish, error) {
	to, err := c.word("publish.to", publishWords, "branch", func(p sallyport.Publish) string { return p.To }, false)
	if err != nil {
		return sallyport.Publish{}, err
	}
	how, err := c.word("publish.approve", approveWords, "on-finding", func(p sallyport.Publish) string { return p.Approve }, true)
	if err != nil {
		return sallyport.Publish{}, err
	}
	repository, err := c.place("publish.repository", func(p sallyport.Publish) string { return p.Repository })
	if err != nil {
		return sallyport.Publish{}, err
	}
	base, err := c.place("publish.base", func(p sallyport.Publish) string { return p.Base })
	return sallyport.Publish{To: to, Approve: how, Repository: repository, Base: base, Approvers: c.approvers()}, err
}

// approvers is the most that anybody asks for: nobody can ask for less.
func (c *compiler) approvers() int {
	n := 0
	for _, op := range []*Operator{c.in.Ceiling, c.in.User} {
		if op != nil {
			n = max(n, op.Publish.Approvers)
		}
	}
	if c.in.Repository != nil {
		n = max(n, c.in.Repository.Publish.Approvers)
	}
	if c.in.WorkOrder.Publish != nil {
		n = max(n, c.in.WorkOrder.Publish.Approvers)
	}
	return n
}

// place resolves a word that has no order: the first of ceiling, user and repository that names one has said it, and a
// work order may name one only where nobody has, or the same. An operator's is whatever a repository says.
func (c *compiler) place(field string, get func(sallyport.Publish) string) (string, error) {
	value, where := "", ""
	for _, op := range []*Operator{c.in.Ceiling, c.in.User} {
		if op != nil && value == "" && get(op.Publish) != "" {
			value, where = get(op.Publish), op.Places.at(field)
		}
	}
	if r := c.in.Repository; r != nil && value == "" && get(r.Publish) != "" {
		value, where = get(r.Publish), r.Places.at(field)
	}
	if c.in.WorkOrder.Publish == nil {
		return value, nil
	}
	asked := get(*c.in.WorkOrder.Publish)
	if asked != "" && value != "" && asked != value {
		return "", denied(c.in.Places.at(field), fmt.Sprintf("%s is %q at %s; a work order cannot name another", field, value, where), "take it out of the work order")
	}
	return either(asked, value), nil
}

// word resolves one word of an ordered list. upwards: a later word is narrower; else an earlier one.
func (c *compiler) word(field string, order []string, std string, get func(sallyport.Publish) string, upwards bool) (string, error) {
	rank := func(w string) int {
		if upwards {
			return -slices.Index(order, w)
		}
		return slices.Index(order, w)
	}
	value, floor := std, ""
	if c.in.Repository != nil && get(c.in.Repository.Publish) != "" {
		value, floor = get(c.in.Repository.Publish), c.in.Repository.Places.at(field)
	}
	if u := c.in.User; u != nil && get(u.Publish) != "" && (floor == "" || rank(get(u.Publish)) < rank(value)) {
		value, floor = get(u.Publish), u.Places.at(field)
	}
	asked := ""
	if c.in.WorkOrder.Publish != nil {
		asked = get(*c.in.WorkOrder.Publish)
	}
	if asked != "" {
		if floor != "" && rank(asked) > rank(value) {
			if !c.mayGrant(field) {
				return "", denied(c.in.Places.at(field), fmt.Sprintf("%s %q is looser than the %q at %s; a work order can only narrow", field, asked, value, floor), c.grantHint())
			}
			c.note("%s is %q, looser than the %q at %s: granted by flag", field, asked, value, floor)
		}
		value = asked
	}
	if op := c.in.Ceiling; op != nil && get(op.Publish) != "" && rank(value) > rank(get(op.Publish)) {
		limit, where := get(op.Publish), op.Places.at(field)
		if asked != "" {
			return "", denied(c.in.Places.at(field), fmt.Sprintf("%s %q is beyond the ceiling %q at %s", field, asked, limit, where), "ask for less, or ask the operator")
		}
		c.note("%s is %q: the ceiling at %s", field, limit, where)
		value = limit
	}
	return value, nil
}
