package sqlite

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
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

// chainHash is hashOf for an event whose data is what canonical made: the canonical form can then be written down, without
// one more parse. hashOf is what Check asks.
func chainHash(e lifecycle.Event) (sallyport.Digest, error) {
	for _, s := range []string{e.At, string(e.Type), string(e.Attempt), string(e.Allocation), string(e.Prev)} {
		if !verbatim(s) {
			return hashOf(e)
		}
	}
	b := make([]byte, 0, 512+len(e.Data))
	text := func(key, s string) {
		b = append(append(append(append(b, key...), '"'), s...), '"', ',')
	}
	b = append(b, '{')
	if e.Allocation != "" {
		text(`"allocation":`, string(e.Allocation))
	}
	text(`"at":`, e.At)
	if e.Attempt != "" {
		text(`"attempt":`, string(e.Attempt))
	}
	b = append(append(b, `"data":`...), e.Data...)
	b = strconv.AppendInt(append(b, `,"fence":`...), e.Fence, 10)
	b = append(b, ',')
	text(`"prev":`, string(e.Prev))
	b = strconv.AppendInt(append(b, `"seq":`...), e.Seq, 10)
	b = append(b, ',')
	text(`"type":`, string(e.Type))
	b[len(b)-1] = '}'
	return sallyport.Sum(b), nil
}

// verbatim says whether s stands in JSON as it is.
func verbatim(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
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

// exactNumbers takes what json.Marshal made.
func exactNumbers(b []byte) error {
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			for i++; b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case c == '-' || '0' <= c && c <= '9':
			n := len(b[i:]) - len(bytes.TrimLeft(b[i:], "+-.eE0123456789"))
			if err := exactNumber(string(b[i : i+n])); err != nil {
				return err
			}
			i += n - 1
		}
	}
	return nil
}

func exactNumber(n string) error {
	if strings.ContainsAny(n, ".eE") {
		// From 1e21 on the canonical form has an exponent again; below it is an integer, which has to be exact.
		if f, err := strconv.ParseFloat(n, 64); err == nil && math.Abs(f) > maxInt && math.Abs(f) < 1e21 {
			return errors.New(n + " is beyond ±(2^53-1)")
		}
		return nil
	}
	if i, err := strconv.ParseInt(n, 10, 64); err != nil || i > maxInt || i < -maxInt {
		return errors.New(n + " is beyond ±(2^53-1)")
	}
	return nil
}

func at(t time.Time) string { return t.UTC().Format(atLayout) }

func invalid(subject, message string, err error) error {
	return &sallyport.Error{Op: "append", Code: sallyport.CodeInvalid, Subject: subject, Message: message, Err: err}
}
