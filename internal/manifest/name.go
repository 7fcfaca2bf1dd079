package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"sallyport.dev/sallyport"
)

const slugLength = 40

// WorkOrderID names a WorkOrder: one repository (absolute path of its work tree) and one name in it. Equal
// arguments give the equal id, on every machine and in every version.
func WorkOrderID(repository, name string) sallyport.WorkOrderID {
	sum := sha256.Sum256([]byte("sallyport.dev/work-order/v1\x00" + repository + "\x00" + name))
	return sallyport.WorkOrderID(sallyport.FormatID(sallyport.WorkOrderPrefix, [16]byte(sum[:16])))
}

// Name is the WorkOrder's name: its own, or one made from the task, else from the command, else from the
// agent. The same input gives the same name; two tasks that begin with the same 40 characters share one.
func Name(wo sallyport.WorkOrder) string {
	switch {
	case wo.Name != "":
		return wo.Name
	case wo.Task != "":
		return slug(wo.Task)
	case len(wo.Command) > 0:
		return slug(strings.Join(append([]string{path.Base(wo.Command[0])}, wo.Command[1:]...), " "))
	}
	return slug(wo.Agent)
}

// slug keeps lower-case ASCII letters and digits, joins words with dashes and cuts between words. Where
// letters of another script were lost, the text's digest is added, so that two such tasks differ.
func slug(s string) string {
	var b strings.Builder
	dash, lost := false, false
	for _, c := range norm.NFKD.String(s) {
		c = unicode.ToLower(c)
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			if dash && b.Len() > 0 {
				b.WriteByte('-')
			}
			b.WriteRune(c)
			dash = false
		case unicode.Is(unicode.Mn, c), c == '\'': // an accent that was split off, an apostrophe: same word
		default:
			dash, lost = true, lost || unicode.IsLetter(c)
		}
	}
	out := b.String()
	if out != "" && !lost {
		return cut(out, slugLength)
	}
	sum := sha256.Sum256([]byte(s))
	mark := hex.EncodeToString(sum[:4])
	return cut(either(out, "task"), slugLength-len(mark)-1) + "-" + mark
}

func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	head := s[:limit]
	if s[limit] != '-' {
		if i := strings.LastIndexByte(head, '-'); i >= limit/2 {
			head = head[:i]
		}
	}
	return strings.TrimRight(head, "-")
}
