package secret

import "bytes"

// A private key begins with a line of its own; its body has no form. What stands before the words is looked at
// backwards, so that the finder needs few keywords.
const (
	pemBegin   = "-----BEGIN "
	puttyBegin = "PuTTY-User-Key-File-"
)

// keyBlock is the end of a private key's first line that begins at, in PEM, OpenSSH, PGP or PuTTY form; 0 if
// there is none.
func keyBlock(text []byte, at int) int {
	rest := text[at:]
	if i := bytes.IndexByte(rest, '\n'); i >= 0 {
		rest = rest[:i]
	}
	if bytes.HasPrefix(rest, []byte(puttyBegin)) {
		return at + len(rest)
	}
	label, ok := bytes.CutPrefix(rest, []byte(pemBegin))
	if !ok {
		return 0
	}
	label, _, closed := bytes.Cut(label, []byte("-----"))
	if !closed || len(label) >= 64 || !bytes.Contains(label, []byte("PRIVATE KEY")) {
		return 0
	}
	return at + len(pemBegin) + len(label) + len("-----")
}

// labels are names of credentials without a form of their own, in lower case and without separators, with the
// rule and length of what they name.
var labels = []struct {
	label, rule string
	length      int
}{
	{"secretaccesskey", "secret.aws-secret-key", 40},
	{"awssecretkey", "secret.aws-secret-key", 40},
}

// labelWords are how a label begins, as the finder meets it.
var labelWords = []string{"secret"}

// labelled is the value that a label names whose word "secret" begins at.
func labelled(text []byte, at int) (rule string, start, end int) {
	for _, l := range labels {
		from, ok := spelled(text, at, l.label)
		if !ok {
			continue
		}
		start = from
		for start < len(text) && start < from+12 && bytes.IndexByte([]byte(" \t\"'`=:>,("), text[start]) >= 0 {
			start++
		}
		for end = start; end < len(text) && base64Char(text[end]); {
			end++
		}
		if end-start == l.length && !sample(text[start:end]) {
			return l.rule, start, end
		}
	}
	return "", 0, 0
}

// spelled reports whether label, in any case and with any separators, stands at the word "secret" at, which may
// be inside of it, and where it ends.
func spelled(text []byte, at int, label string) (int, bool) {
	before := bytes.Index([]byte(label), []byte("secret"))
	for before > 0 && at > 0 {
		at--
		if c := text[at]; c == '_' || c == '-' {
			continue
		}
		before--
	}
	for i := 0; i < len(label); at++ {
		if at >= len(text) {
			return 0, false
		}
		c := text[at]
		switch {
		case i > 0 && (c == '_' || c == '-'):
			continue
		case c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
		}
		if c != label[i] {
			return 0, false
		}
		i++
	}
	return at, true
}
