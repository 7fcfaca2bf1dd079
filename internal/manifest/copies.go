package manifest

import (
	"fmt"
	"slices"
	"strings"
)

// copies are the files of the user's work tree that the agent is given: the operator's, the repository's where
// they were granted (checkGrants), and the work order's where nobody forbids grants. nil: none.
func (c *compiler) copies() ([]string, error) {
	var lists [][]string
	for _, op := range []*Operator{c.in.Ceiling, c.in.User} {
		if op != nil {
			lists = append(lists, op.Copy)
		}
	}
	if rep := c.in.Repository; rep != nil {
		lists = append(lists, rep.Copy)
	}
	policy := union(nil, lists...)
	for _, f := range c.in.WorkOrder.Copies {
		where := c.forbidden()
		switch want := fileRule(f); {
		case want != "":
			return nil, c.wrong("copy", f, want)
		case where != "" && !slices.Contains(policy, f):
			return nil, denied(c.in.Places.at("copy"), fmt.Sprintf("copy %q goes beyond policy, and the policy at %s forbids grants", f, where), "ask the operator")
		}
	}
	out := union(policy, c.in.WorkOrder.Copies)
	if len(out) == 0 {
		return nil, nil
	}
	c.note("the agent is given files of your working tree and can read them: %s", strings.Join(out, ", "))
	return out, nil
}
