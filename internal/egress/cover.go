package egress

import (
	"slices"
	"strings"
)

// Covers says that inner allows nothing that outer does not. It answers true only where that is certain: of two
// globs only equal ones count, beside the one that is every path.
func Covers(outer, inner Rule) bool {
	suffix, wild := strings.CutPrefix(outer.Host, "*")
	host := outer.Host == inner.Host || wild && strings.HasSuffix(inner.Host, suffix) && !isAddress(inner.Host)
	return host && outer.Port == inner.Port && outer.Protocol == inner.Protocol &&
		listed(outer.Methods, inner.Methods, "*") && listed(outer.Paths, inner.Paths, everyPath) &&
		(outer.OwnAuth || !inner.OwnAuth) && within(outer.Limits, inner.Limits)
}

// CoveredBy says that one of the rules covers inner.
func CoveredBy(rules []Rule, inner Rule) bool {
	return slices.ContainsFunc(rules, func(outer Rule) bool { return Covers(outer, inner) })
}

func isAddress(host string) bool {
	n, err := Host(host)
	return err == nil && n.IsAddr()
}

func listed(outer, inner []string, every string) bool {
	if slices.Contains(outer, every) {
		return true
	}
	return !slices.ContainsFunc(inner, func(s string) bool { return !slices.Contains(outer, s) })
}

func within(outer, inner Limits) bool {
	less := func(outer, inner int64) bool { return outer == 0 || inner != 0 && inner <= outer }
	return less(outer.Requests, inner.Requests) && less(outer.Up, inner.Up) && less(outer.Down, inner.Down) && less(outer.Rate, inner.Rate)
}
