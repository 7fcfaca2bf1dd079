package change

import (
	"bufio"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os/exec"
	"strconv"
	"strings"

	"sallyport.dev/sallyport"
)

// Format is how a repository names its objects.
type Format string

// The formats that git knows.
const (
	SHA1   Format = "sha1"
	SHA256 Format = "sha256"
)

func (f Format) size() int {
	if f == SHA256 {
		return sha256.Size
	}
	return sha1.Size
}

func (f Format) new() hash.Hash {
	if f == SHA256 {
		return sha256.New()
	}
	return sha1.New()
}

// zero is the name of no object.
func (f Format) zero() string { return strings.Repeat("0", 2*f.size()) }

// hasher names an object of the given kind and size whose bytes are then written to it.
func (f Format) hasher(kind string, size int64) hash.Hash {
	h := f.new()
	fmt.Fprintf(h, "%s %d\x00", kind, size)
	return h
}

func idOf(h hash.Hash) sallyport.ObjectID { return sallyport.ObjectID(hex.EncodeToString(h.Sum(nil))) }

// name is the id of an object held in memory.
func (f Format) name(kind string, data []byte) sallyport.ObjectID {
	h := f.hasher(kind, int64(len(data)))
	h.Write(data)
	return idOf(h)
}

// emptyTree is the tree with nothing in it; it need not exist anywhere.
func (f Format) emptyTree() sallyport.ObjectID { return f.name("tree", nil) }

// objects reads objects through one `git cat-file --batch-command` and checks the name of each against its
// bytes. Not safe for concurrent use.
type objects struct {
	format Format
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr *tail
	ctx    context.Context
	cancel context.CancelFunc
	broken error

	// trees remembers parsed trees: comparing and building read many of them twice, and a tree bomb names
	// the same ones again and again. Shared: nobody may write to them.
	trees map[sallyport.ObjectID][]treeEntry
	kept  int

	shelf *shelf      // where close puts it for the next reader; nil: close ends it
	stop  func() bool // detaches it from its present reader's ctx
}

// maxKept bounds how many entries are remembered; then it begins anew.
const maxKept = 100_000

func (g git) objects(ctx context.Context, f Format) (*objects, error) {
	ctx, cancel := context.WithCancel(ctx)
	cmd, stderr, err := g.command(ctx, "cat-file", "--batch-command")
	if err != nil {
		cancel()
		return nil, err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, failure(ctx, []string{"cat-file"}, stderr, err)
	}
	return &objects{format: f, cmd: cmd, in: in, out: bufio.NewReaderSize(out, 64<<10), stderr: stderr, ctx: ctx, cancel: cancel}, nil
}

func (o *objects) close() {
	if o.shelf == nil || !o.stop() || o.broken != nil || !o.shelf.put(o) {
		o.end()
	}
}

func (o *objects) end() {
	o.in.Close()
	o.cancel()
	o.cmd.Wait()
}

// info is the kind and size of an object. CodeNotFound if it is not there.
func (o *objects) info(id sallyport.ObjectID) (string, int64, error) {
	if o.broken != nil {
		return "", 0, o.broken
	}
	if err := id.Check(); err != nil {
		return "", 0, err
	}
	if _, err := fmt.Fprintf(o.in, "info %s\n", id); err != nil {
		return "", 0, o.fail(err)
	}
	return o.header(id)
}

func (o *objects) header(id sallyport.ObjectID) (string, int64, error) {
	line, err := o.out.ReadString('\n')
	if err != nil {
		return "", 0, o.fail(err)
	}
	f := strings.Fields(line)
	if len(f) == 2 && f[1] == "missing" {
		return "", 0, &sallyport.Error{Op: "read object", Code: sallyport.CodeNotFound, Subject: string(id), Message: "no such object",
			Hint: "if the repository is a partial clone, fetch the missing objects first"}
	}
	if len(f) != 3 || f[0] != string(id) {
		return "", 0, o.fail(fmt.Errorf("unexpected answer %q", printable(line)))
	}
	size, err := strconv.ParseInt(f[2], 10, 64)
	if err != nil || size < 0 {
		return "", 0, o.fail(fmt.Errorf("unexpected answer %q", printable(line)))
	}
	return f[1], size, nil
}

// read returns a whole object of the given kind. CodeExhausted: more than max bytes. CodeInvalid: another
// kind. CodeCorrupt: its bytes are not what its name says.
func (o *objects) read(id sallyport.ObjectID, kind string, max int64) ([]byte, error) {
	got, size, err := o.info(id)
	if err != nil {
		return nil, err
	}
	if got != kind {
		return nil, &sallyport.Error{Op: "read object", Code: sallyport.CodeInvalid, Subject: string(id), Message: "expected a " + kind + ", found a " + got}
	}
	if size > max {
		return nil, &sallyport.Error{Op: "read object", Code: sallyport.CodeExhausted, Subject: string(id), Message: fmt.Sprintf("%s of %d bytes, the limit is %d", kind, size, max)}
	}
	if _, err := fmt.Fprintf(o.in, "contents %s\n", id); err != nil {
		return nil, o.fail(err)
	}
	if _, _, err := o.header(id); err != nil {
		return nil, err
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(o.out, data); err != nil {
		return nil, o.fail(err)
	}
	if _, err := o.out.Discard(1); err != nil {
		return nil, o.fail(err)
	}
	if o.format.name(kind, data) != id {
		return nil, damaged(id)
	}
	return data, nil
}

func damaged(id sallyport.ObjectID) error {
	return &sallyport.Error{Op: "read object", Code: sallyport.CodeCorrupt, Subject: string(id), Message: "the bytes are not what the name says", Hint: "run `git fsck` in the repository"}
}

// fail marks the process as unusable: question and answer are no longer in step.
func (o *objects) fail(err error) error {
	o.broken = &sallyport.Error{Op: "read object", Code: sallyport.CodeUnavailable, Message: "git cat-file: " + printable(o.stderr.String()), Err: err}
	return o.broken
}
