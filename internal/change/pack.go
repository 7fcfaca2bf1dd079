package change

import (
	"bufio"
	"compress/zlib"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"sallyport.dev/sallyport"
)

type objKind byte

// The kinds of object, by their number in a pack.
const (
	objCommit objKind = 1
	objTree   objKind = 2
	objBlob   objKind = 3
)

func (k objKind) String() string {
	switch k {
	case objCommit:
		return "commit"
	case objTree:
		return "tree"
	}
	return "blob"
}

// packWriter gathers new objects as the entries of one pack: hashed by us, written once, given to git with
// one start of index-pack. git then hashes them again (its SHA-1 detects collision attacks, Go's does not)
// and makes them durable. Entries wait in a temporary file, since a pack begins with their number.
type packWriter struct {
	format Format
	file   *os.File
	buf    *bufio.Writer
	zip    *zlib.Writer
	ids    map[sallyport.ObjectID]bool
	at     int64 // end of the last whole entry
}

func newPackWriter(f Format, dir string) (*packWriter, error) {
	file, err := os.CreateTemp(dir, "incoming-")
	if err != nil {
		return nil, unwritable(err)
	}
	os.Remove(file.Name()) // nobody else needs the name, and a crash leaves nothing
	p := &packWriter{format: f, file: file, buf: bufio.NewWriterSize(file, 256<<10), ids: map[sallyport.ObjectID]bool{}}
	p.zip, _ = zlib.NewWriterLevel(p.buf, zlib.BestSpeed)
	return p, nil
}

func unwritable(err error) error {
	return &sallyport.Error{Op: "write objects", Code: sallyport.CodeUnavailable, Message: "cannot write in the state folder", Hint: "check its free space and permissions", Err: err}
}

// add writes one object of exactly size bytes and returns its name.
func (p *packWriter) add(k objKind, size int64, body io.Reader) (sallyport.ObjectID, error) {
	head := []byte{byte(k)<<4 | byte(size&15)}
	for n := size >> 4; n > 0; n >>= 7 {
		head[len(head)-1] |= 0x80
		head = append(head, byte(n&0x7f))
	}
	if _, err := p.buf.Write(head); err != nil {
		return "", unwritable(err)
	}
	p.zip.Reset(p.buf)
	h := p.format.hasher(k.String(), size)
	n, err := io.Copy(io.MultiWriter(h, p.zip), io.LimitReader(body, size))
	if err != nil {
		return "", err
	}
	if n != size {
		return "", &sallyport.Error{Op: "write objects", Code: sallyport.CodeCorrupt, Message: fmt.Sprintf("expected %d bytes, got %d", size, n)}
	}
	if err := p.zip.Close(); err != nil {
		return "", unwritable(err)
	}
	return p.settle(idOf(h))
}

// settle keeps the entry just written, or takes it back if the object is there already.
func (p *packWriter) settle(id sallyport.ObjectID) (sallyport.ObjectID, error) {
	if err := p.buf.Flush(); err != nil {
		return "", unwritable(err)
	}
	if p.ids[id] {
		if err := p.file.Truncate(p.at); err != nil {
			return "", unwritable(err)
		}
		_, err := p.file.Seek(p.at, io.SeekStart)
		return id, err
	}
	p.ids[id] = true
	at, err := p.file.Seek(0, io.SeekCurrent)
	p.at = at
	return id, err
}

// finish gives the pack to git; without an entry there is nothing to do.
func (p *packWriter) finish(ctx context.Context, g git) error {
	if len(p.ids) == 0 {
		return nil
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(p.copyPack(w)) }()
	_, err := g.run(ctx, r, "index-pack", "--stdin", "--threads=1")
	r.Close()
	if err != nil {
		return err
	}
	return nil
}

// copyPack writes all entries as one pack. Nothing is added afterwards.
func (p *packWriter) copyPack(w io.Writer) error {
	if _, err := p.file.Seek(0, io.SeekStart); err != nil {
		return unwritable(err)
	}
	sum := p.format.new()
	out := io.MultiWriter(w, sum)
	head := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(len(p.ids)))
	if _, err := out.Write(head); err != nil {
		return err
	}
	if _, err := io.Copy(out, p.file); err != nil {
		return err
	}
	_, err := w.Write(sum.Sum(nil))
	return err
}

func (p *packWriter) close() { p.file.Close() }
