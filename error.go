package sallyport

import (
	"errors"
	"strings"
)

// Code says what a caller can do about an error. Codes travel over the wire by name; the list only grows
// at its end.
type Code int

// What the caller does is beside each code.
const (
	CodeUnknown     Code = iota // the outcome is not known: inspect before anything else
	CodeInvalid                 // fix the request; a repeat fails alike
	CodeUnsupported             // this host or provider cannot: fix the request or the host
	CodeNotFound                // read again, then decide
	CodeConflict                // read again, then decide
	CodeFenced                  // stop: another holder has the lease
	CodeDenied                  // stop: policy said no; record the reason
	CodeExhausted               // a limit was met: end the run
	CodeUnavailable             // wait and retry, with a deadline
	CodeCorrupt                 // stop this run, keep everything, call a person
)

var codeNames = [...]string{"unknown", "invalid", "unsupported", "not-found", "conflict", "fenced", "denied", "exhausted", "unavailable", "corrupt"}

// String is the wire name.
func (c Code) String() string {
	if c < 0 || int(c) >= len(codeNames) {
		return codeNames[CodeUnknown]
	}
	return codeNames[c]
}

// ParseCode is the inverse of String; an unknown name is CodeUnknown.
func ParseCode(s string) Code {
	for i, n := range codeNames {
		if n == s {
			return Code(i)
		}
	}
	return CodeUnknown
}

// Error is the only error type that crosses a room's border. Message says what is wrong and what was
// expected; Hint is the next step for a person; neither ever holds a secret.
type Error struct {
	Op      string // what was being done: "parse sallyport.yaml"
	Code    Code
	Subject string // which field, line, path or id
	Message string
	Hint    string
	Err     error
}

func (e *Error) Error() string {
	var b strings.Builder
	for _, s := range []string{e.Op, e.Subject, e.Message} {
		if s == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(": ")
		}
		b.WriteString(s)
	}
	if e.Err != nil {
		if b.Len() > 0 {
			b.WriteString(": ")
		}
		b.WriteString(e.Err.Error())
	}
	if b.Len() == 0 {
		return e.Code.String()
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// CodeOf is the code of the outermost Error in err's chain, CodeUnknown if there is none.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeUnknown
}

// HintOf is the first non-empty hint in err's chain.
func HintOf(err error) string {
	for err != nil {
		var e *Error
		if !errors.As(err, &e) {
			return ""
		}
		if e.Hint != "" {
			return e.Hint
		}
		err = e.Err
	}
	return ""
}
