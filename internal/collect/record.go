package collect

import (
	"fmt"
	"strings"

	"sallyport.dev/sallyport"
)

// Kind says what a Record is.
type Kind byte

// The kinds, in the bytes of the stream.
const (
	KindFile    Kind = 'F'
	KindLink    Kind = 'L'
	KindDelete  Kind = 'D'
	KindMessage Kind = 'M'
	KindLeftOut Kind = 'O'
	kindEnd     Kind = 'E'
)

// Mode is a file mode as git writes it.
type Mode uint32

// The modes a stream can carry.
const (
	ModeFile Mode = 0o100644
	ModeExec Mode = 0o100755
	ModeLink Mode = 0o120000
)

// Record is one statement of a stream. Which fields are set depends on Kind; the body of a file is read
// from the Reader.
type Record struct {
	Kind   Kind
	Path   string // F, L, D
	Mode   Mode   // F, L
	Size   int64  // F: bytes of the body
	Target string // L
	Text   string // M: as the agent wrote it; a claim, not neutralised
	Reason string // O
	Count  int64  // O: at least 1
}

const (
	magic      = "sallyport-change 1\n"
	headerSize = 1 + 4 + 4 + 8
	sumSize    = 32

	// MaxPath and MaxDepth bound every path; they are PATH_MAX and far more than any real tree is deep.
	MaxPath  = 4096
	MaxDepth = 128

	maxTarget  = 4095 // PATH_MAX without its NUL: the kernel makes no longer link
	maxReason  = 32
	maxReasons = 64
)

// Limits bound a stream. The zero value allows nothing but an empty one.
type Limits struct {
	Path     int   // bytes of one path; never more than MaxPath
	Depth    int   // components of one path; never more than MaxDepth
	Entries  int64 // files, links and deletes together
	File     int64 // bytes of one file
	Total    int64 // bytes of the whole stream
	Messages int64 // how many commit messages
	Message  int64 // bytes of one of them
}

// DefaultLimits is ample for real changes and small beside a disk.
func DefaultLimits() Limits {
	return Limits{Path: MaxPath, Depth: MaxDepth, Entries: 200_000, File: 1 << 30, Total: 4 << 30, Messages: 1000, Message: 64 << 10}
}

func (l Limits) checkPath(op, p string) error {
	if len(p) > min(l.Path, MaxPath) {
		return exhausted(op, p, fmt.Sprintf("path has %d bytes, the limit is %d", len(p), min(l.Path, MaxPath)))
	}
	if d := strings.Count(p, "/") + 1; d > min(l.Depth, MaxDepth) {
		return exhausted(op, p, fmt.Sprintf("path is %d levels deep, the limit is %d", d, min(l.Depth, MaxDepth)))
	}
	return nil
}

// validPath is the syntax of a path in a stream (doc.go). It is not a policy: names like ".git" are
// well-formed here and refused by internal/change.
func validPath(p string) bool {
	if p == "" || strings.IndexByte(p, 0) >= 0 {
		return false
	}
	for c := range strings.SplitSeq(p, "/") {
		if c == "" || c == "." || c == ".." {
			return false
		}
	}
	return true
}

func validTarget(t string) bool {
	return t != "" && len(t) <= maxTarget && strings.IndexByte(t, 0) < 0
}

func validReason(r string) bool {
	if r == "" || len(r) > maxReason {
		return false
	}
	for i := 0; i < len(r); i++ {
		if c := r[i]; c != '-' && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

func validMode(k Kind, m Mode) bool {
	switch k {
	case KindFile:
		return m == ModeFile || m == ModeExec
	case KindLink:
		return m == ModeLink
	}
	return m == 0
}

func corrupt(op, subject, message string) error {
	return &sallyport.Error{Op: op, Code: sallyport.CodeCorrupt, Subject: quote(subject), Message: message}
}

func exhausted(op, subject, message string) error {
	return &sallyport.Error{Op: op, Code: sallyport.CodeExhausted, Subject: quote(subject), Message: message,
		Hint: "add what need not be kept to .gitignore, or raise the limit"}
}

// quote makes hostile bytes safe to print, and bounds them.
func quote(s string) string {
	if s == "" {
		return ""
	}
	if len(s) > 200 {
		s = s[:200]
	}
	return fmt.Sprintf("%+q", s)
}
