package egress

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Refusal is what Learn learns from: a request that was refused, and why.
type Refusal struct {
	Request
	Reason Reason `json:"reason"`
}

// reads are one power: who may GET may HEAD.
var reads = []string{"GET", "HEAD"}

// ruleFor is the rule that allows what was refused and least else; ok is false where none can, or where a person has
// to look first (an address that is not public).
func ruleFor(f Refusal) (r Rule, ok bool) {
	// "*" is a method that a client can send, and every method in a rule.
	if f.Reason.final() || f.Method == "*" {
		return Rule{}, false
	}
	r = Rule{Host: f.Name.text, Port: f.Port, Protocol: f.Protocol}
	switch {
	case f.Protocol == TCP:
	case f.Method == "" && f.Path == "":
		// Refused before it said what it wants: everything that Parse fills in.
		r, _ = fill(r)
	default:
		path, clean := canonicalPath(f.Path)
		if !clean || pushes(path, f.Query) {
			return Rule{}, false
		}
		if repository, why := gitRead(f.Method, path, f.Query); why == "" && f.Protocol == HTTPS {
			r.Protocol, r.Paths = Git, []string{repository}
			break
		}
		r.Paths, r.Methods = []string{path}, []string{f.Method}
		if slices.Contains(reads, f.Method) {
			r.Methods = slices.Clone(reads)
		}
	}
	return r, Check(r) == nil
}

// enough is how many paths must differ in one segment before they become a glob: fewer are clearer one by one.
const enough = 4

// Learn is the smallest list of rules that allows all of what was refused, as far as rules can: exact hosts, ports
// and methods only; paths that differ in one segment alone become a glob when there are four of them. Sorted, without
// duplicates; the same refusals in any order give the same rules. Among the rules of one host, port and protocol
// nothing can be left out.
func Learn(refused []Refusal) []Rule {
	asked := map[place]map[string][]string{} // power -> paths
	for _, f := range refused {
		r, ok := ruleFor(f)
		if !ok {
			continue
		}
		at, power := place{r.Host, r.Port, r.Protocol}, strings.Join(r.Methods, " ")
		if asked[at] == nil {
			asked[at] = map[string][]string{}
		}
		asked[at][power] = append(asked[at][power], r.Paths...)
	}
	rules := []Rule{}
	for _, at := range slices.SortedFunc(maps.Keys(asked), place.compare) {
		rules = append(rules, at.rules(asked[at])...)
	}
	return rules
}

type place struct {
	host     string
	port     uint16
	protocol Protocol
}

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.host, q.host), cmp.Compare(p.port, q.port), cmp.Compare(p.protocol, q.protocol))
}

// rules merges the paths of each power (GET and HEAD, or one other method) on their own, so that no path gets another
// one's methods, and then puts globs with the same powers into one rule.
func (p place) rules(asked map[string][]string) []Rule {
	if p.protocol == TCP {
		return []Rule{{Host: p.host, Port: p.port, Protocol: TCP}}
	}
	powers := map[string][]string{} // glob -> powers
	for _, power := range slices.Sorted(maps.Keys(asked)) {
		for _, glob := range mergePaths(asked[power]) {
			powers[glob] = append(powers[glob], power)
		}
	}
	globs := map[string][]string{} // powers -> globs
	for _, glob := range slices.Sorted(maps.Keys(powers)) {
		all := strings.Join(powers[glob], " ")
		globs[all] = append(globs[all], glob)
	}
	var rules []Rule
	for _, methods := range slices.Sorted(maps.Keys(globs)) {
		for paths := range slices.Chunk(globs[methods], maxListed) {
			r := Rule{Host: p.host, Port: p.port, Protocol: p.protocol, Paths: slices.Clone(paths)}
			if p.protocol != Git {
				r.Methods = strings.Fields(methods)
			}
			rules = append(rules, r)
		}
	}
	return rules
}

// mergePaths replaces paths by globs until no more can be merged, and drops what the others cover.
func mergePaths(paths []string) []string {
	slices.Sort(paths)
	paths = slices.Compact(paths)
	globs := slices.Clone(paths)
	for merged := true; merged; {
		globs, merged = mergeOnce(globs)
	}
	return needed(globs, paths)
}

// mergeOnce merges sets of globs that differ in one segment, the largest sets first, each glob once.
func mergeOnce(globs []string) (out []string, merged bool) {
	alike := map[string][]string{}
	for _, g := range globs {
		for _, wide := range wider(g) {
			alike[wide] = append(alike[wide], g)
		}
	}
	largest := func(a, b string) int {
		return cmp.Or(cmp.Compare(len(alike[b]), len(alike[a])), cmp.Compare(a, b))
	}
	gone := map[string]bool{}
	for _, wide := range slices.SortedFunc(maps.Keys(alike), largest) {
		free := slices.DeleteFunc(alike[wide], func(g string) bool { return gone[g] })
		if len(free) < enough {
			continue
		}
		for _, g := range free {
			gone[g] = true
		}
		out, merged = append(out, wide), true
	}
	for _, g := range globs {
		if !gone[g] {
			out = append(out, g)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), merged
}

// wider are the globs that g becomes when one of its segments may be any. A star does not reach over an escaped slash.
func wider(g string) []string {
	segments := strings.Split(g, "/")
	var out []string
	for i := 1; i < len(segments); i++ {
		wide := slices.Clone(segments)
		wide[i] = "*" + strings.Repeat("%2F*", strings.Count(segments[i], "%2F"))
		out = append(out, strings.Join(wide, "/"))
	}
	// A glob that is widened where it has a star already is itself, once.
	slices.Sort(out)
	return slices.Compact(out)
}

// needed drops the globs without which every path is still matched.
func needed(globs, paths []string) []string {
	matching := make([][]string, len(globs))
	times := map[string]int{}
	for i, g := range globs {
		matching[i] = []string{g}
		if strings.Contains(g, "*") {
			matching[i] = slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return !matchPath(g, p) })
		}
		for _, p := range matching[i] {
			times[p]++
		}
	}
	var out []string
	for i, g := range globs {
		if slices.ContainsFunc(matching[i], func(p string) bool { return times[p] == 1 }) {
			out = append(out, g)
			continue
		}
		for _, p := range matching[i] {
			times[p]--
		}
	}
	return out
}
