package change

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

// writers is how many files are written at once: creating files is mostly kernel time.
const writers = 3

// fileSet is what is to be laid into an empty folder that only we can write.
type fileSet struct {
	dirs  []string // parents first
	files []leaf
	stamp func(leaf) time.Time // nil: leave the time of writing
	// known are blobs whose sums (see TreeSum) are remembered: those of all others are taken on the way, as
	// the bytes pass by here anyway. nil: take none.
	known map[sallyport.ObjectID]string
}

// materialise writes raw blobs: no filter, no attribute, nothing of the user's configuration. Links come
// last, so that while files are written there is no link that a path could lead through. Modes are 0755 and
// 0644 whatever the umask.
func (s *Store) materialise(ctx context.Context, root string, set fileSet) error {
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return unwritable(err)
	}
	defer unix.Close(fd)
	for _, d := range set.dirs {
		if err := makeDir(fd, d); err != nil {
			return err
		}
	}
	var blobs, links []leaf
	for _, l := range set.files {
		if err := CheckPath(l.path); err != nil {
			return err
		}
		switch {
		case l.isGitlink():
			err = makeDir(fd, l.path)
		case l.isLink():
			links = append(links, l)
		default:
			blobs = append(blobs, l)
		}
		if err != nil {
			return err
		}
	}
	if err := s.writeAll(ctx, fd, blobs, set); err != nil {
		return err
	}
	return s.writeRun(ctx, fd, links, set)
}

func makeDir(root int, path string) error {
	if err := CheckPath(path); err != nil {
		return err
	}
	if err := unix.Mkdirat(root, path, 0o755); err != nil {
		return unwritable(at(path, err))
	}
	if err := unix.Fchmodat(root, path, 0o755, 0); err != nil {
		return unwritable(at(path, err))
	}
	return nil
}

func (s *Store) writeAll(ctx context.Context, root int, blobs []leaf, set fileSet) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n := min(writers, 1+len(blobs)/256)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		part := blobs[i*len(blobs)/n : (i+1)*len(blobs)/n]
		wg.Go(func() {
			if errs[i] = s.writeRun(ctx, root, part, set); errs[i] != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return errors.Join(errs...)
}

// writeRun writes blobs through one `git cat-file --batch`, asking ahead.
func (s *Store) writeRun(ctx context.Context, root int, blobs []leaf, set fileSet) error {
	if len(blobs) == 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd, stderr, err := s.git.command(ctx, "cat-file", "--batch", "--buffer")
	if err != nil {
		return err
	}
	cmd.Stdin = &questions{blobs: blobs}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return unwritable(err)
	}
	if err := cmd.Start(); err != nil {
		return failure(ctx, []string{"cat-file"}, stderr, err)
	}
	w := &fileWriter{root: root, format: s.format(), in: bufio.NewReaderSize(out, 256<<10), buf: make([]byte, 128<<10), stamp: set.stamp, known: set.known}
	for _, l := range blobs {
		if err = w.write(l); err != nil {
			break
		}
	}
	if err = w.end(ctx, cmd, cancel, stderr, err); err == nil {
		s.keepSums(w.sums.String())
	}
	return err
}

func (w *fileWriter) end(ctx context.Context, cmd *exec.Cmd, cancel func(), stderr *tail, err error) error {
	interrupted := ctx.Err()
	if err != nil {
		cancel()
	}
	werr := cmd.Wait()
	if interrupted != nil {
		return &sallyport.Error{Op: "write files", Code: sallyport.CodeUnavailable, Message: "interrupted", Err: interrupted}
	}
	if err != nil {
		return err
	}
	return failure(ctx, []string{"cat-file"}, stderr, werr)
}

// questions is the input of cat-file, made as it is read.
type questions struct {
	blobs []leaf
	rest  string
}

func (q *questions) Read(p []byte) (int, error) {
	if q.rest == "" {
		if len(q.blobs) == 0 {
			return 0, io.EOF
		}
		q.rest, q.blobs = string(q.blobs[0].id)+"\n", q.blobs[1:]
	}
	n := copy(p, q.rest)
	q.rest = q.rest[n:]
	return n, nil
}

type fileWriter struct {
	root   int
	format Format
	in     *bufio.Reader
	buf    []byte
	stamp  func(leaf) time.Time
	known  map[sallyport.ObjectID]string // read only
	sums   strings.Builder               // of the others
}

// write takes the next answer of cat-file for l and checks it against its name.
func (w *fileWriter) write(l leaf) error {
	line, err := w.in.ReadString('\n')
	if err != nil {
		return &sallyport.Error{Op: "read object", Code: sallyport.CodeUnavailable, Subject: string(l.id), Err: err}
	}
	f := strings.Fields(line)
	if len(f) == 2 && f[1] == "missing" {
		return &sallyport.Error{Op: "read object", Code: sallyport.CodeNotFound, Subject: string(l.id), Message: "no such object",
			Hint: "if the repository is a partial clone, fetch the missing objects first"}
	}
	if len(f) != 3 || f[0] != string(l.id) || f[1] != "blob" {
		return &sallyport.Error{Op: "read object", Code: sallyport.CodeCorrupt, Subject: string(l.id), Message: "expected a blob"}
	}
	size, err := strconv.ParseInt(f[2], 10, 64)
	if err != nil {
		return damaged(l.id)
	}
	if l.isLink() {
		err = w.link(l, size)
	} else {
		err = w.file(l, size)
	}
	if err != nil {
		return err
	}
	if _, err := w.in.Discard(1); err != nil {
		return damaged(l.id)
	}
	return nil
}

func (w *fileWriter) file(l leaf, size int64) error {
	fd, err := unix.Openat(w.root, l.path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return unwritable(at(l.path, err))
	}
	defer unix.Close(fd)
	h := w.format.hasher("blob", size)
	sum := w.newSum(l)
	for left := size; left > 0; {
		n, err := w.in.Read(w.buf[:min(left, int64(len(w.buf)))])
		if n > 0 {
			h.Write(w.buf[:n])
			if sum != nil {
				sum.Write(w.buf[:n])
			}
			if err := writeFull(fd, w.buf[:n]); err != nil {
				return unwritable(at(l.path, err))
			}
			left -= int64(n)
			continue
		}
		if err != nil {
			return &sallyport.Error{Op: "read object", Code: sallyport.CodeUnavailable, Subject: string(l.id), Err: err}
		}
	}
	if idOf(h) != l.id {
		return damaged(l.id)
	}
	if sum != nil {
		w.sums.WriteString(sumLine(l.id, sum.Sum(nil)))
	}
	mode := uint32(0o644)
	if l.isExec() {
		mode = 0o755
	}
	if err := unix.Fchmod(fd, mode); err != nil {
		return unwritable(at(l.path, err))
	}
	if w.stamp == nil {
		return nil
	}
	tv := timespecs(w.stamp(l))
	if err := unix.UtimesNanoAt(w.root, l.path, tv[:], unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return unwritable(at(l.path, err))
	}
	return nil
}

// newSum is nil for a blob whose sum nobody wants.
func (w *fileWriter) newSum(l leaf) hash.Hash {
	if _, ok := w.known[l.id]; ok || w.known == nil {
		return nil
	}
	return sha256.New()
}

func writeFull(fd int, p []byte) error {
	for len(p) > 0 {
		n, err := unix.Write(fd, p)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

func (w *fileWriter) link(l leaf, size int64) error {
	if size < 1 || size > 4095 {
		return &sallyport.Error{Op: "write files", Code: sallyport.CodeInvalid, Subject: fmt.Sprintf("%+q", l.path), Message: "no link can have such a target"}
	}
	target := make([]byte, size)
	if _, err := io.ReadFull(w.in, target); err != nil {
		return &sallyport.Error{Op: "read object", Code: sallyport.CodeUnavailable, Subject: string(l.id), Err: err}
	}
	if w.format.name("blob", target) != l.id {
		return damaged(l.id)
	}
	if err := unix.Symlinkat(string(target), w.root, l.path); err != nil {
		return unwritable(at(l.path, err))
	}
	if w.stamp == nil {
		return nil
	}
	tv := timespecs(w.stamp(l))
	if err := unix.UtimesNanoAt(w.root, l.path, tv[:], unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return unwritable(at(l.path, err))
	}
	return nil
}

// at names the file that the system's answer is about.
func at(path string, err error) error { return fmt.Errorf("%+q: %w", path, err) }

func timespecs(t time.Time) [2]unix.Timespec {
	ts := unix.NsecToTimespec(t.UnixNano())
	return [2]unix.Timespec{ts, ts}
}

// Tools keep caches by (path, size, time): Go's test cache, Python's byte code, make. So a file's time must
// say what it contains. All files of a checkout bear one time made from the tree's name (2001 to 2017): equal
// within it, which is what make wants, and different between trees. A file of a layer bears one made from
// its own name (2020 to 2023): newer than all of the base, and another one for other content.

func treeStamp(tree sallyport.ObjectID) time.Time { return stampOf(tree, 1_000_000_000, 500_000_000) }

func blobStamp(l leaf) time.Time { return stampOf(l.id, 1_600_000_000, 100_000_000) }

func stampOf(id sallyport.ObjectID, from, span int64) time.Time {
	raw, err := hex.DecodeString(string(id)[:16])
	if err != nil {
		panic("change: not an object id: " + string(id))
	}
	var n uint64
	for _, b := range raw {
		n = n<<8 | uint64(b)
	}
	return time.Unix(from+int64(n>>32)%span, int64(n&0xffffffff)%1_000_000_000)
}

// Export writes the plain files of a tree into dir, which is made or must be empty. CodeConflict if it is
// not.
func (s *Store) Export(ctx context.Context, tree sallyport.ObjectID, dir string) error {
	if err := emptyDir(dir); err != nil {
		return err
	}
	o, err := s.objects(ctx)
	if err != nil {
		return err
	}
	defer o.close()
	files, dirs, err := o.leaves(tree)
	if err != nil {
		return err
	}
	return s.materialise(ctx, dir, fileSet{dirs: dirs, files: files})
}

func emptyDir(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
		return unwritable(err)
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		return unwritable(err)
	}
	if len(names) > 0 {
		return &sallyport.Error{Op: "write files", Code: sallyport.CodeConflict, Subject: dir, Message: "expected an empty folder", Hint: "name a new one"}
	}
	return nil
}
