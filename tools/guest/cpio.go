package guest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sort"
)

// cpioWriter builds the archive that a kernel unpacks as its first file system, in the format "newc" of
// cpio(5): a header of 8-digit hexadecimal numbers, the name, the data, each padded to 4 bytes.
type cpioWriter struct {
	out   bytes.Buffer
	inode int
}

// File types, as in the mode of stat(2).
const (
	cpioDir  = 0o040000
	cpioFile = 0o100000
)

func (w *cpioWriter) add(name string, mode int, data []byte) {
	w.inode++
	fmt.Fprintf(&w.out, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x", w.inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name)+1, 0)
	w.out.WriteString(name)
	w.out.WriteByte(0)
	w.pad()
	w.out.Write(data)
	w.pad()
}

func (w *cpioWriter) pad() {
	for w.out.Len()%4 != 0 {
		w.out.WriteByte(0)
	}
}

func (w *cpioWriter) finish() []byte {
	w.add("TRAILER!!!", 0, nil)
	return w.out.Bytes()
}

// initialFiles is the archive with init and the drivers.
func initialFiles(init []byte, modules string) ([]byte, error) {
	var w cpioWriter
	w.add("init", cpioFile|0o755, init)
	w.add("modules", cpioDir|0o755, nil)
	entries, err := os.ReadDir(modules)
	if err != nil {
		return nil, err
	}
	sort.Slice(entries, func(i, j int) bool { return entries[i].Name() < entries[j].Name() })
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(modules, e.Name()))
		if err != nil {
			return nil, err
		}
		w.add("modules/"+e.Name(), cpioFile|0o644, data)
	}
	return w.finish(), nil
}
