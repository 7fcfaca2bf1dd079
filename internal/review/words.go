package review

import (
	"strings"
	"unicode"
)

// Part is a piece of a line. Changed: this is what differs from the line that it replaces or that replaces it.
type Part struct {
	Text    string
	Changed bool
}

// maxPairs bounds the work of comparing two blocks; larger ones are shown without marks.
const maxPairs = 1 << 20

// words compares the lines that a patch removes with those it puts in their place, word by word. Every
// character stays where it is: white space and ends of lines are words too, and what is equal is only not
// marked. nil: there is nothing worth comparing.
func words(del, add []string) (was, now [][]Part) {
	a, b := split(del), split(add)
	if len(a) == 0 || len(b) == 0 || len(a)*len(b) > maxPairs {
		return nil, nil
	}
	sameA, sameB, kept := common(a, b)
	if kept*4 < min(len(a), len(b)) { // nearly nothing in common: marks everywhere would say nothing
		return nil, nil
	}
	return parts(a, sameA, len(del)), parts(b, sameB, len(add))
}

// split makes words of lines; "\n" stands between two lines.
func split(lines []string) []string {
	var out []string
	for i, l := range lines {
		if i > 0 {
			out = append(out, "\n")
		}
		start, last := 0, 0
		for at, r := range l {
			class := classOf(r)
			if at > 0 && (class != last || class == other) {
				out = append(out, l[start:at])
				start = at
			}
			last = class
		}
		if start < len(l) {
			out = append(out, l[start:])
		}
	}
	return out
}

const (
	other = iota // each by itself
	letter
	space
)

func classOf(r rune) int {
	switch {
	case r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r):
		return letter
	case unicode.IsSpace(r):
		return space
	}
	return other
}

// common marks the longest common subsequence; kept counts its words that are not space.
func common(a, b []string) (sameA, sameB []bool, kept int) {
	length := make([]int32, (len(a)+1)*(len(b)+1))
	width := len(b) + 1
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				length[i*width+j] = length[(i+1)*width+j+1] + 1
			} else {
				length[i*width+j] = max(length[(i+1)*width+j], length[i*width+j+1])
			}
		}
	}
	sameA, sameB = make([]bool, len(a)), make([]bool, len(b))
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i] == b[j]:
			sameA[i], sameB[j] = true, true
			if strings.TrimSpace(a[i]) != "" {
				kept++
			}
			i, j = i+1, j+1
		case length[(i+1)*width+j] >= length[i*width+j+1]:
			i++
		default:
			j++
		}
	}
	return sameA, sameB, kept
}

// parts puts words together to lines again.
func parts(words []string, same []bool, n int) [][]Part {
	out := make([][]Part, 1, n)
	for i, w := range words {
		last := len(out) - 1
		if w == "\n" {
			out = append(out, nil)
			continue
		}
		if l := out[last]; len(l) > 0 && l[len(l)-1].Changed != same[i] {
			l[len(l)-1].Text += w
			continue
		}
		out[last] = append(out[last], Part{w, !same[i]})
	}
	return out
}
