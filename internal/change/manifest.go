package change

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

// manifest is what a cached folder looked like when it was finished. It is checked before the folder is
// trusted again, by lstat alone: a change of content moves ctime, which no program can set back, and a new
// or missing name moves its folder's.
type manifest struct {
	entries []fileStat
	bytes   int64 // of all files, for the cache's bound
}

type fileStat struct {
	path  string // "." is the folder itself
	mode  uint32
	size  int64
	mtime int64
	ctime int64 // 0: not checked
	ino   uint64
}

const manifestMagic = "sallyport-checkout 1\n"

// takeManifest looks at all below root. anyCtime leaves ctime out: hard links to our files change it.
func takeManifest(root string, anyCtime bool) (*manifest, error) {
	m := &manifest{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		e := statOf(rel, &st)
		if anyCtime {
			e.ctime = 0
		}
		m.entries = append(m.entries, e)
		m.bytes += (st.Size + 4095) &^ 4095
		return nil
	})
	if err != nil {
		return nil, unwritable(err)
	}
	return m, nil
}

// maxSynced is up to how many names each is synced by itself.
const maxSynced = 64

// sync puts what the manifest names below root on disk. Many names: by one syncfs instead of 50,000 fsyncs.
// Few: by themselves, since syncfs also waits for all that other programs have written to that disk.
func (m *manifest) sync(root string) error {
	if len(m.entries) > maxSynced || m.hasLinks() {
		d, err := os.Open(root)
		if err != nil {
			return err
		}
		defer d.Close()
		return unix.Syncfs(int(d.Fd()))
	}
	for _, e := range m.entries {
		f, err := os.Open(filepath.Join(root, e.path))
		if err != nil {
			return err
		}
		err = f.Sync()
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// hasLinks: a symbolic link cannot be synced by itself.
func (m *manifest) hasLinks() bool {
	return slices.ContainsFunc(m.entries, func(e fileStat) bool { return e.mode&unix.S_IFMT == unix.S_IFLNK })
}

func statOf(path string, st *unix.Stat_t) fileStat {
	e := fileStat{path: path, mode: st.Mode, size: st.Size, mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano(), ino: st.Ino}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		e.size = 0
	}
	return e
}

func (m *manifest) encode() []byte {
	var b bytes.Buffer
	b.WriteString(manifestMagic)
	var v []byte
	v = binary.AppendUvarint(v, uint64(m.bytes))
	v = binary.AppendUvarint(v, uint64(len(m.entries)))
	for _, e := range m.entries {
		v = binary.AppendUvarint(v, uint64(len(e.path)))
		v = append(v, e.path...)
		v = binary.AppendUvarint(v, uint64(e.mode))
		v = binary.AppendUvarint(v, uint64(e.size))
		v = binary.AppendVarint(v, e.mtime)
		v = binary.AppendVarint(v, e.ctime)
		v = binary.AppendUvarint(v, e.ino)
	}
	b.Write(v)
	sum := sha256.Sum256(b.Bytes())
	b.Write(sum[:])
	return b.Bytes()
}

func readManifest(name string) (*manifest, error) {
	bad := &sallyport.Error{Op: "read checkout manifest", Code: sallyport.CodeCorrupt, Subject: name, Message: "damaged"}
	data, err := os.ReadFile(name)
	if err != nil {
		bad.Err = err
		return nil, bad
	}
	n := len(data) - sha256.Size
	if n < len(manifestMagic) || string(data[:len(manifestMagic)]) != manifestMagic {
		return nil, bad
	}
	if sum := sha256.Sum256(data[:n]); !bytes.Equal(sum[:], data[n:]) {
		return nil, bad
	}
	d := decoder{b: data[len(manifestMagic):n]}
	m := &manifest{bytes: int64(d.uint())}
	count := d.uint()
	for i := uint64(0); i < count && !d.bad; i++ {
		m.entries = append(m.entries, fileStat{path: d.string(), mode: uint32(d.uint()), size: int64(d.uint()), mtime: d.int(), ctime: d.int(), ino: d.uint()})
	}
	if d.bad || len(d.b) != 0 {
		return nil, bad
	}
	return m, nil
}

type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	return v * d.step(n)
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.b)
	return v * int64(d.step(n))
}

func (d *decoder) step(n int) uint64 {
	if n <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return 1
}

func (d *decoder) string() string {
	n := d.uint()
	if n > uint64(len(d.b)) {
		d.bad, d.b = true, nil
		return ""
	}
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}

// verify compares root with the manifest. CodeCorrupt names the first difference.
func (m *manifest) verify(root string) error {
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &sallyport.Error{Op: "verify checkout", Code: sallyport.CodeCorrupt, Subject: root, Err: err}
	}
	defer unix.Close(fd)
	const workers = 2
	var errs [workers]error
	var wg sync.WaitGroup
	for i := range workers {
		part := m.entries[i*len(m.entries)/workers : (i+1)*len(m.entries)/workers]
		wg.Go(func() { errs[i] = verifyPart(fd, part) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func verifyPart(root int, entries []fileStat) error {
	for i := range entries {
		want := &entries[i]
		var st unix.Stat_t
		err := unix.Fstatat(root, want.path, &st, unix.AT_SYMLINK_NOFOLLOW)
		got := statOf(want.path, &st)
		if want.ctime == 0 {
			got.ctime = 0
		}
		if err != nil || got != *want {
			return &sallyport.Error{Op: "verify checkout", Code: sallyport.CodeCorrupt, Subject: fmt.Sprintf("%+q", want.path), Message: "is not as it was written", Err: err}
		}
	}
	return nil
}
