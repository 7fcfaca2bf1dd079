package change

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sallyport.dev/sallyport"
)

// Store is our own bare repository beside one repository of the user, in the state folder: new objects go
// there, the user's are read through alternates, and nothing of the user's is written. Below it lies the
// cache of checkouts. Safe for concurrent use, also by several processes.
type Store struct {
	repo *Repo
	dir  string
	git  git

	readers shelf
}

// OpenStore makes or opens the store of repo below dir, which must be ours alone. Repeat: the same store.
//
// The store relies on the user's objects: history that the user rewrites and prunes (`git gc`) is gone here
// as well. What was packed into a checkout's git folder stays.
func OpenStore(ctx context.Context, dir string, repo *Repo) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, unwritable(err)
	}
	objects, err := filepath.EvalSymlinks(filepath.Join(repo.CommonDir, "objects"))
	if err != nil {
		return nil, &sallyport.Error{Op: "open store", Code: sallyport.CodeInvalid, Subject: repo.CommonDir, Message: "the repository has no object folder", Err: err}
	}
	sum := sha256.Sum256([]byte(objects))
	s := &Store{repo: repo, dir: filepath.Join(dir, hex.EncodeToString(sum[:8]))}
	s.git = git{cwd: "/", dir: []string{"--git-dir=" + filepath.Join(s.dir, "git")}}
	for _, d := range []string{dir, s.dir, filepath.Join(s.dir, "cache"), filepath.Join(s.dir, "tmp")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, unwritable(err)
		}
	}
	if err := s.makeGit(objects); err != nil {
		return nil, err
	}
	return s, s.link(objects)
}

// Dir is the store's folder.
func (s *Store) Dir() string { return s.dir }

// makeGit writes the least that is a bare repository, under another name first.
func (s *Store) makeGit(objects string) error {
	final := filepath.Join(s.dir, "git")
	if _, err := os.Stat(final); err == nil {
		return nil
	}
	tmp, err := os.MkdirTemp(s.dir, "new-")
	if err != nil {
		return unwritable(err)
	}
	defer os.RemoveAll(tmp)
	for _, d := range []string{"objects/info", "objects/pack", "refs/heads"} {
		if err := os.MkdirAll(filepath.Join(tmp, d), 0o700); err != nil {
			return unwritable(err)
		}
	}
	config := "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
	if s.repo.ObjectFormat == SHA256 {
		config = "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectFormat = sha256\n"
	}
	for name, data := range map[string]string{"HEAD": "ref: refs/heads/none\n", "config": config} {
		if err := writeDurably(filepath.Join(tmp, name), []byte(data), 0o600); err != nil {
			return err
		}
	}
	if err := os.Rename(tmp, final); err != nil && !errors.Is(err, fs.ErrExist) {
		return unwritable(err)
	}
	return syncDir(s.dir)
}

// link points the store at the user's objects and takes over where their history is cut off (a shallow
// clone), since both can change.
func (s *Store) link(objects string) error {
	if err := replaceFile(filepath.Join(s.dir, "git/objects/info/alternates"), []byte(quoteC(objects)+"\n")); err != nil {
		return err
	}
	shallow, err := os.ReadFile(filepath.Join(s.repo.CommonDir, "shallow"))
	if errors.Is(err, fs.ErrNotExist) {
		err = os.Remove(filepath.Join(s.dir, "git/shallow"))
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return unwritable(err)
	}
	if err != nil {
		return &sallyport.Error{Op: "open store", Code: sallyport.CodeUnavailable, Subject: "shallow", Err: err}
	}
	return replaceFile(filepath.Join(s.dir, "git/shallow"), shallow)
}

// quoteC is a path in the one form that git's alternates take for any path: C's, with octal for what is not
// printable.
func quoteC(path string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(path) {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < 0x20 || c >= 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// replaceFile writes data under name unless it is there already.
func replaceFile(name string, data []byte) error {
	if old, err := os.ReadFile(name); err == nil && bytes.Equal(old, data) {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".new-")
	if err != nil {
		return unwritable(err)
	}
	defer os.Remove(f.Name())
	f.Close()
	if err := writeDurably(f.Name(), data, 0o600); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return unwritable(err)
	}
	return syncDir(filepath.Dir(name))
}

func writeDurably(name string, data []byte, mode os.FileMode) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return unwritable(err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return unwritable(err)
	}
	return nil
}

func syncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return unwritable(err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return unwritable(err)
	}
	return nil
}

func (s *Store) format() Format { return s.repo.ObjectFormat }

// objects is a reader of the store, for one goroutine, until it is closed.
func (s *Store) objects(ctx context.Context) (*objects, error) {
	o := s.readers.take()
	if o == nil {
		var err error
		if o, err = s.git.objects(context.WithoutCancel(ctx), s.format()); err != nil {
			return nil, err
		}
		o.shelf = &s.readers
	}
	o.stop = context.AfterFunc(ctx, o.cancel)
	return o, nil
}

func (s *Store) newPack() (*packWriter, error) {
	return newPackWriter(s.format(), filepath.Join(s.dir, "tmp"))
}

// ReadBlob is the content of a blob. CodeNotFound, CodeInvalid (no blob), CodeExhausted (more than max
// bytes), CodeCorrupt.
func (s *Store) ReadBlob(ctx context.Context, id sallyport.ObjectID, max int64) ([]byte, error) {
	o, err := s.objects(ctx)
	if err != nil {
		return nil, err
	}
	defer o.close()
	return o.read(id, "blob", max)
}
