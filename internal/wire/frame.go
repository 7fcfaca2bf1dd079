// Package wire is the one byte stream between Mission Control and what runs a sandbox: requests and answers
// as bounded frames on multiplexed streams. Both ends live here. Each end treats the other's bytes as
// hostile: every frame has a bound, unknown operations and unknown fields are refused.
//
// One session is one connection. Its first stream must be the hello, which carries the Allocation's secret
// and the holder's fence; a lower fence than one already seen is refused, an equal or higher one ends the
// session before it. What is asked for is repeatable: output and result are read by offset, a command starts
// once, its end is recorded. So a cut connection loses nothing: the spool is the sandbox's own file.
//
// A stream carries one request frame, one answer frame, and for output and collect a sequence of chunks:
//
//	frame = length (4 bytes, big endian, 1..MaxFrame) JSON
//	chunk = length (4 bytes, big endian, 0..MaxChunk) bytes     a zero length ends the sequence,
//	                                                            followed by one frame (trailer)
//
// What the change stream inside collect looks like is internal/collect's; what a provider's Wire promises is
// internal/provider's.
package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"sallyport.dev/sallyport"
)

// Version is the protocol's; both ends must name the same.
const Version = 1

// The bounds.
const (
	MaxFrame = 256 << 10 // a containment receipt is about 8 KiB
	MaxChunk = 64 << 10
)

// request is the first frame of a stream.
type request struct {
	Op         string                 `json:"op"`
	Version    int                    `json:"version,omitempty"`
	Allocation sallyport.AllocationID `json:"allocation,omitempty"`
	Secret     string                 `json:"secret,omitempty"`
	Fence      int64                  `json:"fence,omitempty"`
	Offset     int64                  `json:"offset,omitempty"`
	Data       []byte                 `json:"data,omitempty"`
	Cols       int                    `json:"cols,omitempty"`
	Rows       int                    `json:"rows,omitempty"`
	Why        string                 `json:"why,omitempty"`
	TTL        int64                  `json:"ttl_ns,omitempty"`
}

// answer is the frame that replies, and the trailer after chunks.
type answer struct {
	Code    string          `json:"code,omitempty"` // empty: success
	Message string          `json:"message,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Next    int64           `json:"next,omitempty"`
}

func (a answer) err(op string) error {
	if a.Code == "" {
		return nil
	}
	return &sallyport.Error{Op: op, Code: sallyport.ParseCode(a.Code), Message: a.Message}
}

func failure(err error) answer {
	return answer{Code: sallyport.CodeOf(err).String(), Message: err.Error()}
}

func writeFrame(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > MaxFrame {
		return &sallyport.Error{Op: "write frame", Code: sallyport.CodeExhausted, Message: fmt.Sprintf("%d bytes, at most %d", len(b), MaxFrame)}
	}
	buf := make([]byte, 4+len(b))
	binary.BigEndian.PutUint32(buf, uint32(len(b)))
	copy(buf[4:], b)
	_, err = w.Write(buf)
	return err
}

func readFrame(r io.Reader, v any) error {
	n, err := readLength(r, MaxFrame)
	if err != nil {
		return err
	}
	if n == 0 {
		return corrupt("an empty frame")
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return unexpected(err)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return corrupt("a frame that is not the expected JSON: " + err.Error())
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return corrupt("bytes after the JSON of a frame")
	}
	return nil
}

func readLength(r io.Reader, limit uint32) (uint32, error) {
	var h [4]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return 0, unexpected(err)
	}
	n := binary.BigEndian.Uint32(h[:])
	if n > limit {
		return 0, corrupt(fmt.Sprintf("a length of %d, at most %d", n, limit))
	}
	return n, nil
}

// chunkWriter turns writes into chunks.
type chunkWriter struct{ w io.Writer }

func (c chunkWriter) Write(p []byte) (int, error) {
	total := 0
	var buf [4 + MaxChunk]byte
	for len(p) > 0 {
		n := copy(buf[4:], p)
		binary.BigEndian.PutUint32(buf[:4], uint32(n))
		if _, err := c.w.Write(buf[:4+n]); err != nil {
			return total, err
		}
		total += n
		p = p[n:]
	}
	return total, nil
}

func (c chunkWriter) end(a answer) error {
	if _, err := c.w.Write(make([]byte, 4)); err != nil {
		return err
	}
	return writeFrame(c.w, a)
}

// readChunks copies a sequence of chunks to w and returns the bytes delivered and the trailer.
func readChunks(r io.Reader, w io.Writer) (int64, answer, error) {
	var total int64
	buf := make([]byte, MaxChunk)
	for {
		n, err := readLength(r, MaxChunk)
		if err != nil {
			return total, answer{}, err
		}
		if n == 0 {
			var a answer
			err := readFrame(r, &a)
			return total, a, err
		}
		if _, err := io.ReadFull(r, buf[:n]); err != nil {
			return total, answer{}, unexpected(err)
		}
		m, err := w.Write(buf[:n])
		total += int64(m)
		if err != nil {
			return total, answer{}, err
		}
	}
}

func corrupt(what string) error {
	return &sallyport.Error{Op: "read wire", Code: sallyport.CodeCorrupt, Message: what}
}

// unexpected marks a cut connection as what it is: the other end may be gone, ask again.
func unexpected(err error) error {
	return &sallyport.Error{Op: "read wire", Code: sallyport.CodeUnavailable, Message: "the connection was cut", Err: err}
}
