package change

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"sort"
	"time"
)

// indexEntry is one line of git's index. A zero when means "look at the file".
type indexEntry struct {
	leaf
	size int64
	when time.Time
}

// formatIndex writes git's index, version 2 (gitformat-index(5)), without reading a file. Only what
// core.checkStat=minimal compares is filled: size and whole seconds of mtime.
func formatIndex(f Format, entries []indexEntry) []byte {
	sort.Slice(entries, func(i, j int) bool { return entries[i].path < entries[j].path })
	var b bytes.Buffer
	b.WriteString("DIRC")
	put := func(n uint32) { b.Write(binary.BigEndian.AppendUint32(nil, n)) }
	put(2)
	put(uint32(len(entries)))
	for _, e := range entries {
		start := b.Len()
		put(0) // ctime
		put(0)
		if e.when.IsZero() {
			put(0)
			put(0)
		} else {
			put(uint32(e.when.Unix()))
			put(uint32(e.when.Nanosecond()))
		}
		put(0) // dev
		put(0) // ino
		put(indexMode(e.treeEntry))
		put(0) // uid
		put(0) // gid
		put(uint32(e.size))
		raw, err := hex.DecodeString(string(e.id))
		if err != nil {
			panic("change: not an object id: " + string(e.id))
		}
		b.Write(raw)
		b.Write(binary.BigEndian.AppendUint16(nil, uint16(min(len(e.path), 0xfff))))
		b.WriteString(e.path)
		length := b.Len() - start
		b.Write(make([]byte, (length+8)&^7-length))
	}
	sum := f.new()
	sum.Write(b.Bytes())
	return sum.Sum(b.Bytes())
}

func indexMode(e treeEntry) uint32 {
	switch {
	case e.isLink(), e.isGitlink():
		return e.mode
	case e.isExec():
		return modeExec
	}
	return modeFile
}
