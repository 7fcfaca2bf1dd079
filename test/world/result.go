package world

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport"
)

// Result is how a command line ended. Its methods judge, and return it for the next one.
type Result struct {
	T    *testing.T
	Name string // the command line
	Code int
	Out  string
	Err  string
	Took time.Duration
}

// Want ends the test unless the exit code is the one expected.
func (r Result) Want(code int) Result {
	r.T.Helper()
	if r.Code != code {
		r.T.Fatalf("%.300s\nexit %d, want %d\n%s", r.Name, r.Code, code, r.both())
	}
	return r
}

// Says fails the test unless every text is on stdout or stderr.
func (r Result) Says(texts ...string) Result {
	r.T.Helper()
	for _, s := range texts {
		if !strings.Contains(r.Out+r.Err, s) {
			r.T.Errorf("%.300s\nexpected the words %q in\n%s", r.Name, s, r.both())
		}
	}
	return r
}

// Silent fails the test if any text is on stdout or stderr.
func (r Result) Silent(texts ...string) Result {
	r.T.Helper()
	for _, s := range texts {
		if strings.Contains(r.Out+r.Err, s) {
			r.T.Errorf("%.300s\nunexpected words %q in\n%s", r.Name, s, r.both())
		}
	}
	return r
}

// Report is the one JSON document on stdout.
func (r Result) Report() sallyport.Report {
	r.T.Helper()
	var rep sallyport.Report
	r.Document(&rep)
	return rep
}

// Document decodes stdout; a second document, or an unknown key, ends the test.
func (r Result) Document(v any) {
	r.T.Helper()
	d := json.NewDecoder(strings.NewReader(r.Out))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		r.T.Fatalf("%.300s\nstdout is not the document: %v\n%s", r.Name, err, r.both())
	}
	if err := d.Decode(new(any)); err != io.EOF {
		r.T.Fatalf("%.300s\nmore than one document on stdout: %.4000s", r.Name, r.Out)
	}
}

func (r Result) both() string {
	const most = 6000
	return "--- stdout\n" + r.Out[:min(most, len(r.Out))] + "\n--- stderr\n" + r.Err[:min(most, len(r.Err))]
}
