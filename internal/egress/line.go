package egress

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Line writes r as one entry of `egress:` (without the dash) that Parse reads back as r, leaving out what Parse
// fills in.
func Line(r Rule) string {
	fields := []string{"host: " + quote(r.Host)}
	add := func(name, value string) { fields = append(fields, name+": "+value) }
	std, _ := fill(Rule{Host: r.Host, Protocol: r.Protocol})
	if r.Protocol != HTTPS {
		add("protocol", string(r.Protocol))
	}
	if r.Port != std.Port {
		add("port", strconv.Itoa(int(r.Port)))
	}
	if !slices.Equal(r.Methods, std.Methods) {
		add("methods", flow(r.Methods))
	}
	if !slices.Equal(r.Paths, std.Paths) {
		add("paths", flow(r.Paths))
	}
	if r.OwnAuth {
		add("own-auth", "true")
	}
	if l := limitsLine(r.Limits); l != "" {
		add("limits", l)
	}
	if len(fields) == 1 && strings.ContainsAny(r.Host, ".:") {
		return quote(r.Host)
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

func limitsLine(l Limits) string {
	var fields []string
	if l.Requests > 0 {
		fields = append(fields, fmt.Sprintf("requests: %d", l.Requests))
	}
	if l.Up > 0 {
		fields = append(fields, "up: "+sizeText(l.Up))
	}
	if l.Down > 0 {
		fields = append(fields, "down: "+sizeText(l.Down))
	}
	if l.Rate > 0 {
		fields = append(fields, fmt.Sprintf("rate: %d/m", l.Rate))
	}
	if fields == nil {
		return ""
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

func sizeText(n int64) string {
	for _, u := range []struct {
		name  string
		bytes int64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n%u.bytes == 0 {
			return fmt.Sprintf("%d%s", n/u.bytes, u.name)
		}
	}
	return fmt.Sprintf("%dB", n)
}

func flow(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = quote(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// quote puts s in quotes where YAML could take it for something else. All that stands in a checked rule is printable
// ASCII, for which Go's quoted form is YAML's too.
func quote(s string) string {
	if plainPath(s) || plainWord(s) {
		return s
	}
	return strconv.Quote(s)
}

func plainPath(s string) bool {
	return strings.HasPrefix(s, "/") && isPlain(s, "/*@%+._~-")
}

// plainWord leaves out what looks like a number or like one of YAML's words.
func plainWord(s string) bool {
	switch strings.ToLower(s) {
	case "", "null", "true", "false", "yes", "no", "on", "off", "y", "n":
		return false
	}
	number := s[0] >= '0' && s[0] <= '9' && strings.Count(s, ".") < 2
	return isAlnum(s[0]) && !number && isPlain(s, ".-")
}

func isPlain(s, others string) bool {
	for i := range len(s) {
		if !isAlnum(s[i]) && strings.IndexByte(others, s[i]) < 0 {
			return false
		}
	}
	return true
}

// LineFor is the entry that would allow exactly what was refused, "" if none can.
func LineFor(f Refusal) string {
	r, ok := ruleFor(f)
	if !ok {
		return ""
	}
	return Line(r)
}
