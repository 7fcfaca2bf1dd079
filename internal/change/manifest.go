package change

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

// manifest is what a cached folder looked like when it was finished. The folder is compared with it each time
// it is used again, by lstat alone: a change of content moves ctime, which no program can set back, and a new
// or missing name moves its folder's. It is kept as it lies on disk and decoded as it is gone through: a
// checkout has many files, and whoever only wants its size must not pay for them.
type manifest struct {
	data     []byte // the folders, encoded
	bytes    int64  // of all files, for the cache's bound
	anyCtime bool   // ctime is not compared
}

// fileStat is what is compared of a name.
type fileStat struct {
	mode  uint32
	size  int64 // 0 for a folder
	mtime int64
	ctime int64 // 0 where it is not compared
	ino   uint64
}

func statOf(st *unix.Stat_t, anyCtime bool) fileStat {
	s := fileStat{mode: st.Mode, size: st.Size, mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano(), ino: st.Ino}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		s.size = 0
	}
	if anyCtime {
		s.ctime = 0
	}
	return s
}

const manifestMagic = "sallyport-checkout 2\n"

// takeManifest looks at all below root. anyCtime leaves ctime out: hard links to our files change it.
func takeManifest(root string, anyCtime bool) (*manifest, error) {
	t := &taker{root: root, m: manifest{anyCtime: anyCtime}}
	if err := t.folder(".", "."); err != nil {
		return nil, unwritable(err)
	}
	return &t.m, nil
}

// taker writes a manifest: for each folder its path, how many names follow, and each name with what differs
// from the one before it, which for most files is little.
type taker struct {
	root string
	m    manifest
	last fileStat
}

// folder takes the names of one folder and then, one after the other, the folders in it. extra are names
// beside those that the folder lists.
func (t *taker) folder(dir string, extra ...string) error {
	list, err := os.ReadDir(filepath.Join(t.root, dir))
	if err != nil {
		return err
	}
	t.text(dir)
	t.m.data = binary.AppendUvarint(t.m.data, uint64(len(extra)+len(list)))
	for _, name := range extra {
		if err := t.name(dir, name); err != nil {
			return err
		}
	}
	for _, d := range list {
		if err := t.name(dir, d.Name()); err != nil {
			return err
		}
	}
	for _, d := range list {
		if d.IsDir() {
			if err := t.folder(path.Join(dir, d.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *taker) name(dir, name string) error {
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Join(t.root, dir, name), &st); err != nil {
		return err
	}
	t.text(name)
	s, last := statOf(&st, t.m.anyCtime), t.last
	t.m.data = binary.AppendUvarint(t.m.data, uint64(s.mode))
	t.m.data = binary.AppendUvarint(t.m.data, uint64(s.size))
	for _, d := range []int64{s.mtime - last.mtime, s.ctime - last.ctime, int64(s.ino - last.ino)} {
		t.m.data = binary.AppendVarint(t.m.data, d)
	}
	t.last = s
	t.m.bytes += (st.Size + 4095) &^ 4095
	return nil
}

func (t *taker) text(s string) {
	t.m.data = append(binary.AppendUvarint(t.m.data, uint64(len(s))), s...)
}

// each calls do for every name until that fails, a folder's before those in it. The first is "." in ".".
func (m *manifest) each(do func(dir, name string, s fileStat) error) error {
	d := decoder{b: m.data}
	var s fileStat
	for len(d.b) > 0 {
		dir := d.string()
		for n := d.uint(); n > 0 && !d.bad; n-- {
			name := d.string()
			s = fileStat{mode: uint32(d.uint()), size: int64(d.uint()), mtime: s.mtime + d.int(), ctime: s.ctime + d.int(), ino: s.ino + uint64(d.int())}
			if d.bad {
				break
			}
			if err := do(dir, name, s); err != nil {
				return err
			}
		}
	}
	if d.bad {
		return &sallyport.Error{Op: "read checkout manifest", Code: sallyport.CodeCorrupt, Message: "it ends too early"}
	}
	return nil
}

// encode is the manifest as it lies on disk, with a sum over all before it.
func (m *manifest) encode() []byte {
	b := binary.AppendUvarint([]byte(manifestMagic), uint64(m.bytes))
	b = append(b, map[bool]byte{true: 1}[m.anyCtime])
	b = append(b, m.data...)
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

func readManifest(name string) (*manifest, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, damagedManifest(name, err)
	}
	return takeIn(f)
}

func damagedManifest(name string, err error) *sallyport.Error {
	return &sallyport.Error{Op: "read checkout manifest", Code: sallyport.CodeCorrupt, Subject: name, Message: "damaged", Err: err}
}

// takeIn reads an open manifest, and closes it. CodeCorrupt: it is damaged. CodeUnavailable: nobody could look.
func takeIn(f *os.File) (*manifest, error) {
	defer f.Close()
	bad := damagedManifest(f.Name(), nil)
	var whole bytes.Buffer
	if fi, err := f.Stat(); err == nil {
		whole.Grow(int(fi.Size()) + bytes.MinRead)
	}
	if _, err := whole.ReadFrom(f); err != nil {
		if bad.Err = err; lacks(err) {
			bad.Code = sallyport.CodeUnavailable
		}
		return nil, bad
	}
	data := whole.Bytes()
	n := len(data) - sha256.Size
	if n < len(manifestMagic) || string(data[:len(manifestMagic)]) != manifestMagic {
		return nil, bad
	}
	if sum := sha256.Sum256(data[:n]); !bytes.Equal(sum[:], data[n:]) {
		return nil, bad
	}
	d := decoder{b: data[len(manifestMagic):n]}
	m := &manifest{bytes: int64(d.uint()), anyCtime: d.uint() == 1, data: d.b}
	if d.bad {
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

// maxSynced is up to how many names each is synced by itself.
const maxSynced = 64

// sync puts what the manifest names below root on disk. Many names: by one syncfs instead of 50,000 fsyncs.
// Few: by themselves, since syncfs also waits for all that other programs have written to that disk.
func (m *manifest) sync(root string) error {
	var names []string
	links := false // a symbolic link cannot be synced by itself
	err := m.each(func(dir, name string, s fileStat) error {
		names = append(names, filepath.Join(root, dir, name))
		links = links || s.mode&unix.S_IFMT == unix.S_IFLNK
		return nil
	})
	if err != nil {
		return err
	}
	if links || len(names) > maxSynced {
		d, err := os.Open(root)
		if err != nil {
			return err
		}
		defer d.Close()
		return unix.Syncfs(int(d.Fd()))
	}
	for _, name := range names {
		if err := syncDir(name); err != nil {
			return err
		}
	}
	return nil
}
