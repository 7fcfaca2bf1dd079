package inspect

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"sallyport.dev/sallyport"
)

// contained is what an archive says of itself in its headers. Nothing is unpacked to learn it, so it is a
// claim: it can be too small, and what is too large is reported.
type contained struct {
	what    string
	entries int   // -1: not said
	size    int64 // bytes when unpacked; -1: not said
	escape  bool  // a name or link leaves the folder, or an entry is neither file, folder nor link inside
}

// Above both, an archive counts as a bomb; above the first alone where the ratio is not known.
const (
	bombBytes = 1 << 30
	bombRatio = 100
	bombFloor = 64 << 20 // below it no ratio is one
)

// archiveKinds are told by how they begin.
var archiveKinds = []struct {
	at    int
	magic string
	what  string
	read  func(b []byte, whole bool) contained
}{
	{0, "PK\x03\x04", "a zip archive", readZip}, {0, "PK\x05\x06", "an empty zip archive", readZip}, {0, "\x1f\x8b", "gzip data", readGzip}, {0, "\xfd7zXZ\x00", "xz data", readXZ},
	{0, "\x28\xb5\x2f\xfd", "zstd data", readZstd}, {257, "ustar", "a tar archive", readTar}, {0, "7z\xbc\xaf\x27\x1c", "a 7z archive", nil}, {0, "BZh", "bzip2 data", nil}, {0, "Rar!\x1a\x07", "a rar archive", nil},
	{0, "\x5d\x00\x00", "lzma data", nil}, {0, "\x04\x22\x4d\x18", "lz4 data", nil}, {0, "MSCF", "a cab archive", nil}, {0, "xar!", "a xar archive", nil}, {0, "070701", "a cpio archive", nil}, {32769, "CD001", "a disk image", nil},
}

// archive reports a file that holds others, with what it says of them; false: it is none.
func (i *inspection) archive(c sallyport.Change, b []byte) bool {
	for _, k := range archiveKinds {
		if len(b) < k.at || !bytes.HasPrefix(b[k.at:], []byte(k.magic)) {
			continue
		}
		in := contained{entries: -1, size: -1}
		if k.read != nil {
			in = k.read(b, c.Size <= int64(len(b)))
		}
		in.what = k.what
		i.contained(c, in, max(c.Size, int64(len(b))))
		return true
	}
	return false
}

func (i *inspection) contained(c sallyport.Change, in contained, weight int64) {
	says := "it does not say how much it unpacks to"
	if in.size >= 0 {
		says = "it says that it unpacks to " + megabytes(in.size)
	}
	if in.entries >= 0 {
		says += fmt.Sprintf(" in %d entries", in.entries)
	}
	i.found.add("archive.added", c.Path, "the change brings "+in.what+" of "+megabytes(weight)+": "+says)
	if in.size > bombBytes || in.size > bombFloor && in.size/max(weight, 1) > bombRatio {
		i.found.add("archive.bomb", c.Path, fmt.Sprintf("%s of %s says that it unpacks to %s, %d times as much", in.what, megabytes(weight), megabytes(in.size), in.size/max(weight, 1)))
	}
	if in.escape {
		i.found.add("archive.escape", c.Path, "an entry of the archive leaves the folder that it is unpacked to, or is a device")
	}
}

// readZip reads the directory at the end of a zip archive.
func readZip(b []byte, whole bool) contained {
	in := contained{entries: -1, size: -1}
	if !whole {
		return in
	}
	r, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return in
	}
	in.entries, in.size = len(r.File), 0
	for _, f := range r.File {
		in.size = addSize(in.size, f.UncompressedSize64)
		mode := f.Mode()
		in.escape = in.escape || !validPath(trimFolder(f.Name)) || mode&(fs.ModeDevice|fs.ModeNamedPipe|fs.ModeSocket|fs.ModeCharDevice) != 0
	}
	return in
}

func trimFolder(name string) string {
	if len(name) > 1 && name[len(name)-1] == '/' {
		name = name[:len(name)-1]
	}
	if len(name) > 2 && name[:2] == "./" {
		name = name[2:]
	}
	return name
}

// addSize adds a hostile number without wrapping round.
func addSize(sum int64, n uint64) int64 {
	const most = 1 << 62
	if n > most || sum > most-int64(n) {
		return most
	}
	return sum + int64(n)
}

// readTar walks the headers of a tar archive.
func readTar(b []byte, whole bool) contained {
	in := contained{}
	r := tar.NewReader(bytes.NewReader(b))
	for {
		h, err := r.Next()
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) {
			if !errors.Is(err, io.EOF) || !whole {
				in.entries, in.size = -1, -1 // only a part was read
			}
			return in
		}
		in.entries++
		in.size = addSize(in.size, uint64(max(h.Size, 0)))
		in.escape = in.escape || tarEscapes(h)
	}
}

func tarEscapes(h *tar.Header) bool {
	name := trimFolder(h.Name)
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeDir, tar.TypeGNUSparse:
		return !validPath(name) && name != "./" && name != "."
	case tar.TypeSymlink:
		rule, _ := judgeTarget(name, h.Linkname)
		return !validPath(name) || rule != ""
	case tar.TypeLink:
		return !validPath(name) || !validPath(trimFolder(h.Linkname))
	case tar.TypeXGlobalHeader:
		return false
	}
	return true
}

// readGzip takes the size of the last member, modulo 4 GiB, from the last four bytes.
func readGzip(b []byte, whole bool) contained {
	in := contained{entries: -1, size: -1}
	if whole && len(b) >= 18 {
		in.size = int64(binary.LittleEndian.Uint32(b[len(b)-4:]))
	}
	return in
}

// readZstd takes the size from the first frame's header (RFC 8878, 3.1.1.1).
func readZstd(b []byte, _ bool) contained {
	in := contained{entries: -1, size: -1}
	if len(b) < 5 {
		return in
	}
	d := b[4]
	single, field := d&0x20 != 0, d>>6
	at := 5 + [4]int{0, 1, 2, 4}[d&3]
	if !single {
		at++
	}
	width := [4]int{0, 2, 4, 8}[field]
	if width == 0 && single {
		width = 1
	}
	if width == 0 || len(b) < at+width {
		return in
	}
	var n uint64
	for k := width - 1; k >= 0; k-- {
		n = n<<8 | uint64(b[at+k])
	}
	if width == 2 {
		n += 256
	}
	in.size = addSize(0, n)
	return in
}

// readXZ adds up the sizes in the index before the stream's footer.
func readXZ(b []byte, whole bool) contained {
	in := contained{entries: -1, size: -1}
	for len(b) > 0 && len(b)%4 == 0 && bytes.HasSuffix(b, []byte{0, 0, 0, 0}) {
		b = b[:len(b)-4] // padding
	}
	const footer = 12
	if !whole || len(b) < 2*footer || string(b[len(b)-2:]) != "YZ" {
		return in
	}
	back := (int64(binary.LittleEndian.Uint32(b[len(b)-8:])) + 1) * 4
	end := int64(len(b)) - footer
	if back > end || b[end-back] != 0 {
		return in
	}
	index := b[end-back+1 : end]
	records, n := binary.Uvarint(index)
	if n <= 0 {
		return in
	}
	sum := int64(0)
	for index = index[n:]; records > 0; records-- {
		_, n := binary.Uvarint(index)
		if n <= 0 {
			return in
		}
		size, m := binary.Uvarint(index[n:])
		if m <= 0 {
			return in
		}
		sum, index = addSize(sum, size), index[n+m:]
	}
	in.size = sum
	return in
}
