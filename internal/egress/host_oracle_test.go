package egress

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A second reading of host names, written with regular expressions and without netip or idna, which Host must agree
// with. It is unsure about international names in scripts it does not know.

type verdict int

const (
	no verdict = iota
	yes
	unsure // no, or yes with this text
)

const (
	octet = `(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])`
	label = `[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?`
)

var (
	quadForm    = regexp.MustCompile(`^` + octet + `(?:\.` + octet + `){3}$`)
	nameForm    = regexp.MustCompile(`^(?:` + label + `\.)*` + label + `\.?$`)
	numericEnd  = regexp.MustCompile(`(?:^|\.)(?:[0-9]+|0x[0-9a-f]*)\.?$`)
	bracketForm = regexp.MustCompile(`^\[([0-9a-f:.]*:[0-9a-f:.]*)\]$`)
	groupForm   = regexp.MustCompile(`^[0-9a-f]{1,4}$`)
	simpleWide  = regexp.MustCompile(`^[a-z0-9à-öø-ýа-я]+$`)
)

func oracle(s string) (string, verdict) {
	// Only ASCII letters have a case here: (?i) would fold the Kelvin sign and the long s into ASCII.
	s = strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r | 0x20
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if m := bracketForm.FindStringSubmatch(s); m != nil {
		return oracle6(m[1])
	}
	if strings.Contains(s, ":") {
		return oracle6(s)
	}
	if quadForm.MatchString(s) {
		return s, yes
	}
	if numericEnd.MatchString(s) || !nameForm.MatchString(s) {
		return "", no
	}
	if s = strings.TrimSuffix(s, "."); len(s) > 253 {
		return "", no
	}
	answer := yes
	for _, l := range strings.Split(s, ".") {
		if tail, ok := strings.CutPrefix(l, "xn--"); ok {
			switch v := oraclePuny(tail); v {
			case no:
				return "", no
			case unsure:
				answer = unsure
			}
		}
	}
	return s, answer
}

func oracle6(s string) (string, verdict) {
	halves := strings.Split(s, "::")
	if len(halves) > 2 {
		return "", no
	}
	var parts [2][]uint16
	for i, half := range halves {
		if half == "" {
			if len(halves) == 1 {
				return "", no
			}
			continue
		}
		groups := strings.Split(half, ":")
		for j, g := range groups {
			switch {
			case groupForm.MatchString(g):
				v, _ := strconv.ParseUint(g, 16, 16)
				parts[i] = append(parts[i], uint16(v))
			case quadForm.MatchString(g) && i == len(halves)-1 && j == len(groups)-1:
				var q [4]uint16
				fmt.Sscanf(g, "%d.%d.%d.%d", &q[0], &q[1], &q[2], &q[3])
				parts[i] = append(parts[i], q[0]<<8|q[1], q[2]<<8|q[3])
			default:
				return "", no
			}
		}
	}
	have := len(parts[0]) + len(parts[1])
	if len(halves) == 1 && have != 8 || len(halves) == 2 && have > 7 {
		return "", no
	}
	all := append(parts[0], make([]uint16, 8-have)...)
	all = append(all, parts[1]...)
	return text6(all), yes
}

// text6 is RFC 5952: the longest run of two or more zero groups, the first of equals, is written "::".
func text6(g []uint16) string {
	if g[0]|g[1]|g[2]|g[3]|g[4] == 0 && g[5] == 0xffff {
		return fmt.Sprintf("%d.%d.%d.%d", g[6]>>8, g[6]&255, g[7]>>8, g[7]&255)
	}
	best, run := 0, 1
	for i := range g {
		n := 0
		for i+n < 8 && g[i+n] == 0 {
			n++
		}
		if n > run {
			best, run = i, n
		}
	}
	hex := func(g []uint16) string {
		var s []string
		for _, v := range g {
			s = append(s, strconv.FormatUint(uint64(v), 16))
		}
		return strings.Join(s, ":")
	}
	if run < 2 {
		return hex(g)
	}
	return hex(g[:best]) + "::" + hex(g[best+run:])
}

// oraclePuny decodes (RFC 3492) and judges what comes out.
func oraclePuny(s string) verdict {
	basic, digits := "", s
	if at := strings.LastIndexByte(s, '-'); at > 0 {
		basic, digits = s[:at], s[at+1:]
	} else if at == 0 {
		return no
	}
	out := []rune(basic)
	n, i, bias := 128, 0, 72
	if digits == "" {
		return no
	}
	for first := true; digits != ""; first = false {
		old, w := i, 1
		for k := 36; ; k += 36 {
			if digits == "" {
				return no
			}
			d := strings.IndexByte("abcdefghijklmnopqrstuvwxyz0123456789", digits[0])
			digits = digits[1:]
			if d < 0 || i > 1<<40 || w > 1<<40 {
				return no
			}
			i += d * w
			t := min(max(k-bias, 1), 26)
			if d < t {
				break
			}
			w *= 36 - t
		}
		size := len(out) + 1
		bias = adapt(i-old, size, first)
		n, i = n+i/size, i%size
		if n > 0x10ffff || 0xd800 <= n && n < 0xe000 {
			return no
		}
		out = append(out[:i], append([]rune{rune(n)}, out[i:]...)...)
		i++
	}
	if simpleWide.MatchString(string(out)) {
		return yes
	}
	return unsure
}

func adapt(delta, size int, first bool) int {
	if delta /= 2; first {
		delta /= 350
	}
	delta += delta / size
	k := 0
	for ; delta > 455; k += 36 {
		delta /= 35
	}
	return k + 36*delta/(delta+38)
}
