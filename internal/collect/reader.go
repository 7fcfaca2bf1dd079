package collect

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
	"math"

	"sallyport.dev/sallyport"
)

const opRead = "read change stream"

// Reader reads one stream of hostile bytes. Nothing that Next returned may be acted upon for good before
// Next has returned io.EOF: only then is the stream known to be whole. It holds at most one path, one link
// target or one message, and a buffer of 64 KiB. Not safe for concurrent use.
type Reader struct {
	r       *bufio.Reader
	sum     hash.Hash
	lim     Limits
	order   order
	left    int64 // of the current body
	total   int64
	count   uint64
	entries int64
	texts   int64
	reasons int
	begun   bool
	err     error
}

// NewReader reads from r, which must end where the stream ends.
func NewReader(r io.Reader, l Limits) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, 64<<10), sum: sha256.New(), lim: l}
}

// Next skips what is left of the current body and returns the next record; io.EOF after a trailer that
// fits. CodeCorrupt: truncated, appended to, out of order, malformed or altered. CodeExhausted: beyond a
// limit. Errors stay.
func (r *Reader) Next() (Record, error) {
	if r.err != nil {
		return Record{}, r.err
	}
	rec, err := r.next()
	if err != nil {
		r.err = err
		return Record{}, err
	}
	return rec, nil
}

// Read gives the body of the current file; io.EOF at its end.
func (r *Reader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	if r.left == 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > r.left {
		p = p[:r.left]
	}
	n, err := r.r.Read(p)
	r.sum.Write(p[:n])
	r.left -= int64(n)
	if err != nil && r.left > 0 {
		r.err = r.cut(err)
		return n, r.err
	}
	return n, nil
}

func (r *Reader) next() (Record, error) {
	if r.left > 0 {
		if _, err := io.Copy(io.Discard, onlyReader{r}); err != nil {
			return Record{}, err
		}
	}
	if !r.begun {
		r.begun = true
		m, err := r.take(int64(len(magic)))
		if err != nil {
			return Record{}, err
		}
		if !bytes.Equal(m, []byte(magic)) {
			return Record{}, corrupt(opRead, "", "not a change stream of version 1")
		}
	}
	h, err := r.take(headerSize)
	if err != nil {
		return Record{}, err
	}
	k, m := Kind(h[0]), Mode(binary.BigEndian.Uint32(h[1:]))
	plen, size := binary.BigEndian.Uint32(h[5:]), binary.BigEndian.Uint64(h[9:])
	if !validMode(k, m) || size > math.MaxInt64 {
		return Record{}, corrupt(opRead, "", fmt.Sprintf("record %d has an impossible header", r.count))
	}
	if k == kindEnd {
		return Record{}, r.end(plen, size)
	}
	name, err := r.name(k, plen)
	if err != nil {
		return Record{}, err
	}
	r.count++
	return r.body(Record{Kind: k, Mode: m}, name, int64(size))
}

func (r *Reader) name(k Kind, plen uint32) (string, error) {
	if plen > MaxPath || int(plen) > max(r.lim.Path, maxReason) {
		return "", exhausted(opRead, "", fmt.Sprintf("path has %d bytes, the limit is %d", plen, min(r.lim.Path, MaxPath)))
	}
	b, err := r.take(int64(plen))
	if err != nil {
		return "", err
	}
	name := string(b)
	if wrong := malformed(k, name); wrong != "" {
		return "", corrupt(opRead, name, wrong)
	}
	if wrong := r.order.next(k, name); wrong != "" {
		return "", corrupt(opRead, name, wrong)
	}
	return name, nil
}

func (r *Reader) body(rec Record, name string, size int64) (Record, error) {
	switch rec.Kind {
	case KindFile, KindLink, KindDelete:
		rec.Path = name
		if err := r.lim.checkPath(opRead, name); err != nil {
			return rec, err
		}
		if r.entries++; r.entries > r.lim.Entries {
			return rec, exhausted(opRead, "", fmt.Sprintf("more than %d changed paths", r.lim.Entries))
		}
	}
	switch rec.Kind {
	case KindFile:
		if size > r.lim.File {
			return rec, exhausted(opRead, name, fmt.Sprintf("file has %d bytes, the limit is %d", size, r.lim.File))
		}
		rec.Size, r.left = size, size
		return rec, r.charge(size)
	case KindLink:
		if size > maxTarget {
			return rec, corrupt(opRead, name, "link target is too long")
		}
		b, err := r.take(size)
		rec.Target = string(b)
		if err == nil && !validTarget(rec.Target) {
			err = corrupt(opRead, name, "not the target of a link")
		}
		return rec, err
	case KindDelete:
		if size != 0 {
			return rec, corrupt(opRead, name, "a delete has no body")
		}
	case KindMessage:
		if r.texts++; r.texts > r.lim.Messages || size > r.lim.Message {
			return rec, exhausted(opRead, "", fmt.Sprintf("more than %d commit messages, or one of more than %d bytes", r.lim.Messages, r.lim.Message))
		}
		b, err := r.take(size)
		rec.Text = string(b)
		return rec, err
	case KindLeftOut:
		rec.Reason, rec.Count = name, size
		if size == 0 {
			return rec, corrupt(opRead, name, "nothing was left out")
		}
		if r.reasons++; r.reasons > maxReasons {
			return rec, exhausted(opRead, "", fmt.Sprintf("more than %d reasons", maxReasons))
		}
	}
	return rec, nil
}

func (r *Reader) end(plen uint32, size uint64) error {
	if plen != 0 || size != r.count {
		return corrupt(opRead, "", fmt.Sprintf("the trailer counts %d records, %d came", size, r.count))
	}
	want := r.sum.Sum(nil)
	got, err := r.take(sumSize)
	if err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return corrupt(opRead, "", "the SHA-256 in the trailer is not that of the stream")
	}
	if _, err := r.r.ReadByte(); err != io.EOF {
		return corrupt(opRead, "", "bytes after the trailer")
	}
	return io.EOF
}

// take reads n bytes; n is bounded by the callers' checks.
func (r *Reader) take(n int64) ([]byte, error) {
	if err := r.charge(n); err != nil {
		return nil, err
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r.r, b); err != nil {
		return nil, r.cut(err)
	}
	r.sum.Write(b)
	return b, nil
}

// charge counts bytes before they are read. An empty stream is always affordable.
func (r *Reader) charge(n int64) error {
	if r.total += n; r.total < 0 || r.total > max(r.lim.Total, int64(len(magic)+headerSize+sumSize)) {
		return exhausted(opRead, "", fmt.Sprintf("more than %d bytes", r.lim.Total))
	}
	return nil
}

func (r *Reader) cut(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return corrupt(opRead, "", fmt.Sprintf("the stream is cut off after %d records", r.count))
	}
	return &sallyport.Error{Op: opRead, Code: sallyport.CodeUnavailable, Message: "cannot read", Err: err}
}

// onlyReader hides every method but Read.
type onlyReader struct{ io.Reader }
