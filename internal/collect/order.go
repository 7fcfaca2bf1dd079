package collect

import "strings"

// order checks that records come in the one allowed order (doc.go), in memory bounded by one path.
type order struct {
	phase  int
	path   string
	reason string
	// open holds lengths of prefixes of path which were paths of their own and could still be a parent of
	// what follows: for "a", "a-b" the list is [1 3], and "a/c" is then seen to lie below "a". Since paths
	// ascend, such candidates are always prefixes of the last path, so their lengths are enough.
	open []int
}

// next returns what is wrong with k and name coming now; "" if nothing is.
func (o *order) next(k Kind, name string) string {
	phase := map[Kind]int{KindFile: 0, KindLink: 0, KindDelete: 0, KindMessage: 1, KindLeftOut: 2}[k]
	if phase < o.phase {
		return "record out of order: files, links and deletes come first, then messages, then what was left out"
	}
	o.phase = phase
	switch phase {
	case 0:
		return o.nextPath(name)
	case 2:
		if name <= o.reason {
			return "reasons are not in ascending order"
		}
		o.reason = name
	}
	return ""
}

func (o *order) nextPath(p string) string {
	if p <= o.path {
		return "paths are not in ascending order"
	}
	keep := o.open[:0]
	for _, n := range o.open {
		if !strings.HasPrefix(p, o.path[:n]) {
			break
		}
		if p[n] == '/' {
			return "path lies below another path of the stream"
		}
		if p[n] < '/' {
			keep = append(keep, n)
		}
	}
	o.open = append(keep, len(p))
	o.path = p
	return ""
}
