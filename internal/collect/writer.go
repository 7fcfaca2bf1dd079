package collect

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io"

	"sallyport.dev/sallyport"
)

const opWrite = "write change stream"

// Writer writes one stream. It refuses what a Reader would refuse as malformed; after an error every call
// returns that error. Not safe for concurrent use.
type Writer struct {
	w     *bufio.Writer
	sum   hash.Hash
	order order
	count uint64
	begun bool
	err   error
}

// NewWriter writes to w. The stream is complete only once Close has returned nil; w is not closed.
func NewWriter(w io.Writer) *Writer {
	return &Writer{w: bufio.NewWriterSize(w, 64<<10), sum: sha256.New()}
}

// File writes a regular file. body must give exactly size bytes: fewer or more is CodeCorrupt.
func (w *Writer) File(path string, mode Mode, size int64, body io.Reader) error {
	if size < 0 || !validMode(KindFile, mode) {
		return w.fail(corrupt(opWrite, path, "not the mode and size of a file"))
	}
	if w.head(KindFile, mode, path, uint64(size)) != nil {
		return w.err
	}
	n, err := io.Copy(sink{w}, io.LimitReader(body, size))
	if w.err != nil {
		return w.err
	}
	if err != nil {
		return w.fail(&sallyport.Error{Op: opWrite, Code: sallyport.CodeUnavailable, Subject: quote(path), Message: "cannot read", Err: err})
	}
	var more [1]byte
	extra, _ := io.ReadFull(body, more[:])
	if n != size || extra != 0 {
		return w.fail(corrupt(opWrite, path, fmt.Sprintf("file changed while it was read: said %d bytes", size)))
	}
	return nil
}

// Link writes a symbolic link.
func (w *Writer) Link(path, target string) error {
	if !validTarget(target) {
		return w.fail(corrupt(opWrite, path, "not the target of a link"))
	}
	if w.head(KindLink, ModeLink, path, uint64(len(target))) == nil {
		w.put([]byte(target))
	}
	return w.err
}

// Delete writes that path, and all below it, is gone.
func (w *Writer) Delete(path string) error { return w.head(KindDelete, 0, path, 0) }

// Message writes one commit message of the agent: a claim.
func (w *Writer) Message(text string) error {
	if w.head(KindMessage, 0, "", uint64(len(text))) == nil {
		w.put([]byte(text))
	}
	return w.err
}

// LeftOut writes that n things were not taken, and why.
func (w *Writer) LeftOut(reason string, n int64) error {
	if n < 1 {
		return w.fail(corrupt(opWrite, reason, "nothing was left out"))
	}
	return w.head(KindLeftOut, 0, reason, uint64(n))
}

// Close writes the trailer and flushes. Repeat: nil.
func (w *Writer) Close() error {
	if w.err == errClosed {
		return nil
	}
	if w.err != nil {
		return w.err
	}
	w.begin()
	w.put(header(kindEnd, 0, 0, w.count))
	if w.err == nil {
		if _, err := w.w.Write(w.sum.Sum(nil)); err != nil {
			return w.fail(unwritable(err))
		}
		if err := w.w.Flush(); err != nil {
			return w.fail(unwritable(err))
		}
		w.err = errClosed
		return nil
	}
	return w.err
}

var errClosed = &sallyport.Error{Op: opWrite, Code: sallyport.CodeInvalid, Message: "the stream is closed"}

func (w *Writer) head(k Kind, m Mode, name string, size uint64) error {
	if w.err != nil {
		return w.err
	}
	if wrong := malformed(k, name); wrong != "" {
		return w.fail(corrupt(opWrite, name, wrong))
	}
	if wrong := w.order.next(k, name); wrong != "" {
		return w.fail(corrupt(opWrite, name, wrong))
	}
	w.begin()
	w.count++
	w.put(header(k, m, len(name), size))
	w.put([]byte(name))
	return w.err
}

func (w *Writer) begin() {
	if !w.begun {
		w.begun = true
		w.put([]byte(magic))
	}
}

func (w *Writer) put(p []byte) {
	if w.err != nil {
		return
	}
	w.sum.Write(p)
	if _, err := w.w.Write(p); err != nil {
		w.fail(unwritable(err))
	}
}

func unwritable(err error) error {
	return &sallyport.Error{Op: opWrite, Code: sallyport.CodeUnavailable, Message: "cannot write", Err: err}
}

func (w *Writer) fail(err error) error {
	if w.err == nil {
		w.err = err
	}
	return w.err
}

// sink lets io.Copy write a body without another buffer.
type sink struct{ w *Writer }

func (s sink) Write(p []byte) (int, error) {
	s.w.put(p)
	return len(p), s.w.err
}

func header(k Kind, m Mode, plen int, size uint64) []byte {
	h := make([]byte, headerSize)
	h[0] = byte(k)
	binary.BigEndian.PutUint32(h[1:], uint32(m))
	binary.BigEndian.PutUint32(h[5:], uint32(plen))
	binary.BigEndian.PutUint64(h[9:], size)
	return h
}

// malformed is what is wrong with the name of a record; "" if nothing is.
func malformed(k Kind, name string) string {
	switch k {
	case KindFile, KindLink, KindDelete:
		if !validPath(name) {
			return "not a path"
		}
		if len(name) > MaxPath {
			return "path is too long"
		}
	case KindMessage:
		if name != "" {
			return "a message has no path"
		}
	case KindLeftOut:
		if !validReason(name) {
			return "not a reason"
		}
	default:
		return "unknown kind of record"
	}
	return ""
}
