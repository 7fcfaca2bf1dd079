package egress

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"sallyport.dev/sallyport"
)

// Parse turns one entry of `egress:`, decoded from YAML or JSON, into checked rules. CodeInvalid names the field.
//
//	npm                       a preset: all of its rules
//	registry.example.com      https on 443, GET and HEAD, every path; HOST:PORT, *.SUFFIX and addresses as well
//	{host: H, port: 8443, protocol: https, methods: [GET], paths: [/v1/*], own-auth: true,
//	 limits: {requests: 100, up: 1MiB, down: 1GiB, rate: 60/m}}
//
// Left out of a mapping: protocol is https; port is 443, 80 for http and must be said for tcp; methods are GET and
// HEAD; paths are all. methods: [] and paths: [] mean nothing. Unknown keys are refused.
func Parse(v any) ([]Rule, error) {
	switch v := v.(type) {
	case string:
		return parseWord(v)
	case map[string]any:
		r, err := parseMapping(v)
		if err != nil {
			return nil, err
		}
		return []Rule{r}, nil
	}
	return nil, badRule("", fmt.Sprintf("a %s; expected a preset, a host or a mapping with host", kind(v)), "")
}

// parseWord tells a preset from a host by the dot: a host of one label is written as a mapping.
func parseWord(s string) ([]Rule, error) {
	if strings.Contains(s, "/") {
		return nil, badRule("", fmt.Sprintf("%.80q looks like a URL; expected a preset, a host or a mapping", s), "write {host: HOST, paths: [/PATH]}")
	}
	if !strings.ContainsAny(s, ".:") {
		p, err := Preset(s)
		return p.Rules, err
	}
	host, port := s, uint16(443)
	if h, p, ok := splitPort(s); ok {
		host, port = h, p
	}
	r, err := fill(Rule{Host: host, Port: port})
	if err != nil {
		return nil, err
	}
	return []Rule{r}, nil
}

func parseMapping(m map[string]any) (Rule, error) {
	var r Rule
	for _, key := range slices.Sorted(maps.Keys(m)) {
		read, ok := ruleKeys[key]
		if !ok {
			return Rule{}, badRule("", fmt.Sprintf("unknown key %.40q; expected one of: %s", key, strings.Join(slices.Sorted(maps.Keys(ruleKeys)), ", ")), "")
		}
		if err := read(&r, m[key]); err != nil {
			return Rule{}, err
		}
	}
	return fill(r)
}

var ruleKeys = map[string]func(*Rule, any) error{
	"host":     func(r *Rule, v any) error { return readString("host", v, &r.Host) },
	"protocol": func(r *Rule, v any) error { return readString("protocol", v, (*string)(&r.Protocol)) },
	"port":     readPort,
	"methods":  func(r *Rule, v any) error { return readStrings("methods", v, &r.Methods) },
	"paths":    func(r *Rule, v any) error { return readStrings("paths", v, &r.Paths) },
	"own-auth": readOwnAuth,
	"limits":   readLimits,
}

// fill says what was left out, writes the host in its canonical form, and checks the whole.
func fill(r Rule) (Rule, error) {
	suffix, wild := strings.CutPrefix(r.Host, "*.")
	if n, err := Host(suffix); err == nil {
		if r.Host = n.text; wild {
			r.Host = "*." + n.text
		}
	}
	if r.Protocol == "" {
		r.Protocol = HTTPS
	}
	if r.Port == 0 {
		r.Port = map[Protocol]uint16{HTTPS: 443, Git: 443, HTTP: 80}[r.Protocol]
	}
	if r.Methods == nil && (r.Protocol == HTTPS || r.Protocol == HTTP) {
		r.Methods = []string{"GET", "HEAD"}
	}
	if r.Paths == nil && r.Protocol != TCP {
		r.Paths = []string{everyPath}
	}
	return r, Check(r)
}

func readString(field string, v any, out *string) error {
	s, ok := v.(string)
	if !ok || s == "" {
		return badRule(field, "a "+kind(v)+"; expected a word", "")
	}
	*out = s
	return nil
}

func readStrings(field string, v any, out *[]string) error {
	list, ok := v.([]any)
	if !ok {
		return badRule(field, "a "+kind(v)+"; expected a list", "")
	}
	*out = make([]string, len(list))
	for i, e := range list {
		if err := readString(fmt.Sprintf("%s[%d]", field, i), e, &(*out)[i]); err != nil {
			return err
		}
	}
	return nil
}

func readPort(r *Rule, v any) error {
	n, ok := integer(v)
	if !ok || n < 1 || n > math.MaxUint16 {
		return badRule("port", "expected a number from 1 to 65535", "")
	}
	r.Port = uint16(n)
	return nil
}

func readOwnAuth(r *Rule, v any) error {
	b, ok := v.(bool)
	if !ok {
		return badRule("own-auth", "a "+kind(v)+"; expected true or false", "")
	}
	r.OwnAuth = b
	return nil
}

func readLimits(r *Rule, v any) error {
	m, ok := v.(map[string]any)
	if !ok {
		return badRule("limits", "a "+kind(v)+"; expected a mapping", "")
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		read, ok := limitKeys[key]
		if !ok {
			return badRule("limits", fmt.Sprintf("unknown key %.40q; expected one of: %s", key, strings.Join(slices.Sorted(maps.Keys(limitKeys)), ", ")), "")
		}
		// Zero would read as "nothing" and mean "no limit".
		n, ok := read.number(m[key])
		if !ok || n < 1 {
			return badRule("limits."+key, "expected "+read.want, "")
		}
		*read.field(&r.Limits) = n
	}
	return nil
}

var limitKeys = map[string]struct {
	field  func(*Limits) *int64
	number func(any) (int64, bool)
	want   string
}{
	"requests": {func(l *Limits) *int64 { return &l.Requests }, integer, "a whole number above 0"},
	"up":       {func(l *Limits) *int64 { return &l.Up }, size, "a size such as 512KiB, 10MiB or 1GiB"},
	"down":     {func(l *Limits) *int64 { return &l.Down }, size, "a size such as 512KiB, 10MiB or 1GiB"},
	"rate":     {func(l *Limits) *int64 { return &l.Rate }, rate, "a rate such as 10/s or 60/m"},
}

// integer admits what YAML and JSON decoders make of a whole number.
func integer(v any) (int64, bool) {
	switch v := v.(type) {
	case int:
		return int64(v), true
	case int64:
		return v, true
	case uint64:
		return int64(v), v <= math.MaxInt64
	case float64:
		return int64(v), v == math.Trunc(v) && math.Abs(v) < 1<<53
	}
	return 0, false
}

func size(v any) (int64, bool) {
	return unit(v, map[string]int64{"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40})
}

func rate(v any) (int64, bool) {
	return unit(v, map[string]int64{"/s": 60, "/m": 1})
}

func unit(v any, units map[string]int64) (int64, bool) {
	s, ok := v.(string)
	if !ok {
		return 0, false
	}
	digits := strings.TrimRight(s, "/KMGTiBsm")
	factor, ok := units[s[len(digits):]]
	n, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || n < 0 || n > math.MaxInt64/factor {
		return 0, false
	}
	return n * factor, true
}

// kind names a decoded value to a person.
func kind(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return fmt.Sprintf("text %.40q", v)
	case bool:
		return "boolean"
	case []any:
		return "list"
	case map[string]any:
		return "mapping"
	}
	return "number"
}

// ParseAll is Parse over a list; the error's Subject begins with the index. Nothing listed is no rules, never nil.
func ParseAll(entries []any) ([]Rule, error) {
	rules := []Rule{}
	for i, e := range entries {
		more, err := Parse(e)
		if err != nil {
			return nil, inEntry(i, err)
		}
		rules = append(rules, more...)
	}
	return rules, nil
}

// inEntry puts the entry before the field that err names.
func inEntry(i int, err error) error {
	at := sallyport.Error{Op: opRule, Code: sallyport.CodeOf(err), Err: err}
	if inner, ok := err.(*sallyport.Error); ok {
		at = *inner
	}
	at.Subject = strings.TrimSuffix(fmt.Sprintf("egress[%d].%s", i, at.Subject), ".")
	return &at
}
