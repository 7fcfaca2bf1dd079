// Package publication is what Mission Control and a Publisher say to each other: one request, one answer.
package publication

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"sallyport.dev/sallyport"
)

// On the wire a request is a length of four bytes (big-endian), that many bytes of JSON, and the pack; an answer is a
// length and JSON. One connection carries one request.

// MaxPack bounds the pack of a request.
const MaxPack = 1 << 30

// maxHeader bounds the JSON: an acceptance, an evidence and the approvals.
const maxHeader = 24 << 20

// Request is what a Publisher is asked. Envelopes are the very bytes that were signed.
type Request struct {
	Acceptance string   `json:"acceptance"`
	Evidence   string   `json:"evidence"`
	Approvals  []string `json:"approvals"` // OpenSSH signatures of people
	PackBytes  int64    `json:"pack_bytes"`
}

// Answer is a receipt, or why there is none.
type Answer struct {
	Receipt string   `json:"receipt,omitempty"`
	Error   *Refusal `json:"error,omitempty"`
}

// Refusal is a *sallyport.Error on the wire.
type Refusal struct {
	Code    string `json:"code"`
	Subject string `json:"subject,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// Err is the error again.
func (r *Refusal) Err() error {
	return &sallyport.Error{Op: "publish", Code: sallyport.ParseCode(r.Code), Subject: r.Subject, Message: r.Message, Hint: r.Hint}
}

// Refuse is an error for the wire.
func Refuse(err error) *Refusal {
	r := &Refusal{Code: sallyport.CodeOf(err).String(), Message: err.Error()}
	var e *sallyport.Error
	if errors.As(err, &e) && e.Message != "" {
		r.Subject, r.Message, r.Hint = e.Subject, e.Message, e.Hint
	}
	return r
}

// Write sends a request.
func (r Request) Write(w io.Writer, pack io.Reader) error {
	if err := writeJSON(w, r); err != nil {
		return err
	}
	_, err := io.CopyN(w, pack, r.PackBytes)
	return err
}

// ReadRequest reads a request but for its pack, whose length it has checked.
func ReadRequest(r io.Reader) (Request, error) {
	var q Request
	if err := readJSON(r, &q); err != nil {
		return q, err
	}
	if q.PackBytes < 1 || q.PackBytes > MaxPack {
		return q, &sallyport.Error{Op: "read request", Code: sallyport.CodeInvalid, Subject: "pack_bytes", Message: fmt.Sprintf("expected 1 to %d, found %d", MaxPack, q.PackBytes)}
	}
	return q, nil
}

// ReadAnswer reads a receipt, or the error that the Publisher gave. CodeUnknown: the connection ended before.
func ReadAnswer(r io.Reader) ([]byte, error) {
	var a Answer
	if err := readJSON(r, &a); err != nil {
		return nil, &sallyport.Error{Op: "publish", Code: sallyport.CodeUnknown, Message: "the Publisher ended before its answer", Hint: "publish again: what was done is found and gone on with", Err: err}
	}
	if a.Error != nil {
		return nil, a.Error.Err()
	}
	return []byte(a.Receipt), nil
}

// WriteAnswer sends an answer.
func WriteAnswer(w io.Writer, a Answer) error { return writeJSON(w, a) }

func writeJSON(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...))
	return err
}

func readJSON(r io.Reader, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return &sallyport.Error{Op: "read request", Code: sallyport.CodeInvalid, Message: "it ends before its length", Err: err}
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxHeader {
		return &sallyport.Error{Op: "read request", Code: sallyport.CodeInvalid, Message: fmt.Sprintf("expected at most %d bytes, found %d", maxHeader, n)}
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return &sallyport.Error{Op: "read request", Code: sallyport.CodeInvalid, Message: "it is cut off", Err: err}
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return &sallyport.Error{Op: "read request", Code: sallyport.CodeInvalid, Message: "it is not the JSON of this version", Err: err}
	}
	return nil
}
