package checks

import "strings"

// junit reads JUnit's XML as it streams by: it keeps one tag at a time, whatever a file holds. A count that
// the outermost element names bounds what is counted in it.
type junit struct {
	sum, doc   count
	depth      int
	limit      int // of the present document; -1: it names none
	tag        []byte
	state      xmlState
	quote      byte
	tail       [3]byte // the last bytes of a comment, section or instruction
	inCase     bool
	caseStatus outcome
	seen       bool
}

type xmlState uint8

const (
	xmlText xmlState = iota
	xmlTag
	xmlComment
	xmlSection
	xmlInstruction
)

// maxTag is how much of a tag is kept; name and counts stand at its beginning.
const maxTag = 64 << 10

func newJUnit() reader { return &junit{limit: -1} }

func (j *junit) line(s string) {
	for i := 0; i < len(s); i++ {
		if j.state == xmlText {
			at := strings.IndexByte(s[i:], '<')
			if at < 0 {
				return // the end of a line is text as well
			}
			i += at
		}
		j.byte(s[i])
	}
	if len(s) < maxLine { // else it goes on
		j.byte('\n')
	}
}

func (j *junit) byte(c byte) {
	switch j.state {
	case xmlText:
		if c == '<' {
			j.state, j.tag, j.quote = xmlTag, j.tag[:0], 0
		}
	case xmlTag:
		j.inTag(c)
	default:
		j.skip(c)
	}
}

func (j *junit) skip(c byte) {
	j.tail = [3]byte{j.tail[1], j.tail[2], c}
	end := string(j.tail[:])
	if j.state == xmlComment && end == "-->" || j.state == xmlSection && end == "]]>" || j.state == xmlInstruction && end[1:] == "?>" {
		j.state = xmlText
	}
}

func (j *junit) inTag(c byte) {
	switch {
	case j.quote != 0:
		if c == j.quote {
			j.quote = 0
		}
	case c == '"' || c == '\'':
		j.quote = c
	case c == '>':
		j.state = xmlText
		j.element(string(j.tag))
		return
	}
	if len(j.tag) == maxTag {
		j.tag = j.tag[:maxTag-1] // its end tells whether it is empty
	}
	j.tag = append(j.tag, c)
	j.special()
}

// special recognises what is no element. Outside of a document, a tag that can be no root is text.
func (j *junit) special() {
	tag := string(j.tag[:min(len(j.tag), 10)])
	switch {
	case tag == "!--":
		j.state, j.tail = xmlComment, [3]byte{}
	case strings.HasPrefix(tag, "![CDATA["):
		j.state, j.tail = xmlSection, [3]byte{}
	case tag == "?":
		j.state, j.tail = xmlInstruction, [3]byte{}
	case j.depth == 0 && !strings.HasPrefix("testsuites ", rootName(tag)) && tag[0] != '!':
		j.state = xmlText
	}
}

// rootName is a tag as far as its name goes, with one space after it.
func rootName(tag string) string {
	if at := strings.IndexAny(tag, " \t\n/"); at >= 0 {
		if name := tag[:at]; name == "testsuite" || name == "testsuites" {
			return "testsuite"
		}
		return tag
	}
	return tag
}

func (j *junit) element(tag string) {
	if strings.HasPrefix(tag, "!") {
		return
	}
	if name, closes := strings.CutPrefix(tag, "/"); closes {
		j.closeElement(strings.TrimSpace(name))
		return
	}
	empty := strings.HasSuffix(tag, "/")
	name, rest, _ := strings.Cut(strings.Join(strings.Fields(strings.TrimSuffix(tag, "/")), " "), " ")
	if j.depth == 0 {
		if name != "testsuite" && name != "testsuites" {
			return
		}
		j.seen, j.doc, j.limit = true, count{}, -1
		if n, ok := attribute(rest, "tests"); ok {
			j.limit = number(n)
		}
	}
	j.depth++
	j.openElement(name, rest)
	if empty {
		j.closeElement(name)
	}
}

func (j *junit) openElement(name, attributes string) {
	switch {
	case name == "testcase":
		j.inCase, j.caseStatus = true, passed
		status, _ := attribute(attributes, "status")
		result, _ := attribute(attributes, "result")
		if oneOf(status, "notrun disabled skipped") || oneOf(result, "suppressed skipped") {
			j.caseStatus = skipped
		}
	case !j.inCase:
	case name == "failure" || name == "error":
		j.caseStatus = failed
	case name == "skipped" && j.caseStatus != failed:
		j.caseStatus = skipped
	}
}

func (j *junit) closeElement(name string) {
	if j.depth == 0 {
		return
	}
	j.depth--
	if name == "testcase" && j.inCase {
		j.inCase = false
		j.doc = j.doc.plus(names{0: j.caseStatus}.count())
	}
	if j.depth == 0 {
		j.sum, j.doc = j.sum.plus(j.document()), count{}
	}
}

// document is the present one within what it names.
func (j *junit) document() count {
	if j.limit < 0 {
		return j.doc
	}
	return j.doc.within(j.limit - j.doc.skipped)
}

func (j *junit) tally() (count, bool) { return j.sum.plus(j.document()), j.seen }

// attribute finds one in the text of a tag.
func attribute(text, name string) (string, bool) {
	for text != "" {
		key, rest, ok := strings.Cut(text, "=")
		rest = strings.TrimLeft(rest, " ")
		if !ok || rest == "" {
			return "", false
		}
		value, after, ok := strings.Cut(rest[1:], rest[:1])
		if !ok {
			return "", false
		}
		if strings.TrimSpace(key) == name {
			return value, true
		}
		text = after
	}
	return "", false
}
