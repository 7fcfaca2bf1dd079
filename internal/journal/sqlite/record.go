package sqlite

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/gowebpki/jcs"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
)

const (
	// maxData bounds one payload: a change of 200,000 paths fits, a runaway log does not.
	maxData = 64 << 20
	// maxInt is the largest integer that every JSON reader keeps exactly (RFC 8785 §3.2.2.3).
	maxInt = 1<<53 - 1
	// atLayout keeps nine digits, so that the text has one length and sorts.
	atLayout = "2006-01-02T15:04:05.000000000Z"
)

// hashed is lifecycle.Event without its hash. doc.go describes the bytes.
type hashed struct {
	Seq        int64                  `json:"seq"`
	At         string                 `json:"at"`
	Type       lifecycle.Type         `json:"type"`
	Attempt    sallyport.AttemptID    `json:"attempt,omitempty"`
	Allocation sallyport.AllocationID `json:"allocation,omitempty"`
	Fence      int64                  `json:"fence"`
	Data       json.RawMessage        `json:"data"`
	Prev       sallyport.Digest       `json:"prev"`
}

// hashOf is the digest that e's hash field must have.
func hashOf(e lifecycle.Event) (sallyport.Digest, error) {
	b, err := json.Marshal(hashed{e.Seq, e.At, e.Type, e.Attempt, e.Allocation, e.Fence, e.Data, e.Prev})
	if err != nil {
		return "", err
	}
	c, err := jcs.Transform(b)
	if err != nil {
		return "", err
	}
	return sallyport.Sum(c), nil
}

// canonical is the payload as it is stored and hashed. CodeInvalid for what cannot be kept exactly.
func canonical(rec journal.Record) (json.RawMessage, error) {
	b, err := json.Marshal(rec.Data)
	if err != nil {
		return nil, invalid(string(rec.Type), "the payload is no JSON value", err)
	}
	if len(b) > maxData {
		return nil, invalid(string(rec.Type), "the payload is larger than "+strconv.Itoa(maxData)+" bytes", nil)
	}
	if !utf8.Valid(b) {
		return nil, invalid(string(rec.Type), "the payload is not UTF-8", nil)
	}
	if err := exactNumbers(b); err != nil {
		return nil, invalid(string(rec.Type), "the payload has a number that canonical JSON cannot keep", err)
	}
	// In brackets, because the canonicaliser takes objects and arrays only.
	c, err := jcs.Transform(slices.Concat([]byte("["), b, []byte("]")))
	if err != nil {
		return nil, invalid(string(rec.Type), "the payload has no canonical form", err)
	}
	return c[1 : len(c)-1], nil
}

func exactNumbers(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	for {
		t, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		n, ok := t.(json.Number)
		if !ok {
			continue
		}
		if bytes.ContainsAny([]byte(n), ".eE") {
			// From 1e21 on the canonical form has an exponent again; below it is an integer, which has to be exact.
			if f, err := n.Float64(); err == nil && math.Abs(f) > maxInt && math.Abs(f) < 1e21 {
				return errors.New(n.String() + " is beyond ±(2^53-1)")
			}
			continue
		}
		if i, err := n.Int64(); err != nil || i > maxInt || i < -maxInt {
			return errors.New(n.String() + " is beyond ±(2^53-1)")
		}
	}
}

func at(t time.Time) string { return t.UTC().Format(atLayout) }

func invalid(subject, message string, err error) error {
	return &sallyport.Error{Op: "append", Code: sallyport.CodeInvalid, Subject: subject, Message: message, Err: err}
}
