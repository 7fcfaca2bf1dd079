package cli

import (
	"errors"
	"fmt"
	"io"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/screen"
)

// complain writes an error for a person: one line and the next step. An error that only carries an exit code
// says nothing.
func complain(w io.Writer, err error) {
	var e *exitError
	if err == nil || errors.As(err, &e) && e.err == nil {
		return
	}
	fmt.Fprintln(w, "sallyport: "+screen.Line(err.Error()))
	if hint := hintFor(err); hint != "" {
		fmt.Fprintln(w, "hint: "+screen.Line(hint))
	}
}

// hintFor is the error's own hint, or what its code stands for.
func hintFor(err error) string {
	if h := sallyport.HintOf(err); h != "" {
		return h
	}
	switch sallyport.CodeOf(err) {
	case sallyport.CodeCorrupt:
		return "keep the state folder as it is; `sallyport fsck` says what is wrong"
	case sallyport.CodeUnavailable:
		return "try again; `sallyport doctor` says what this machine lacks"
	case sallyport.CodeFenced:
		return "another process drives this attempt: `sallyport attach` follows it"
	}
	return ""
}

func invalid(op, subject, message, hint string) error {
	return &sallyport.Error{Op: op, Code: sallyport.CodeInvalid, Subject: subject, Message: message, Hint: hint}
}
