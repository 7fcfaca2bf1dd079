package collect

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"runtime"
	"testing"
)

// FuzzHeader: whatever one header announces, memory stays bounded by what has come and not by what was announced; and
// what is accepted is what a second reading of the seventeen bytes, by encoding/binary, says.
func FuzzHeader(f *testing.F) {
	for k, m := range map[Kind]Mode{KindFile: ModeFile, KindLink: ModeLink, KindDelete: 0, KindMessage: 0, KindLeftOut: 0, kindEnd: 0} {
		f.Add(header(k, m, 1, 2), []byte("abc"))
		f.Add(header(k, m, math.MaxUint32, math.MaxUint64), []byte("a"))
	}
	f.Fuzz(func(t *testing.T, head, rest []byte) {
		if len(head) != headerSize {
			return
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := NewReader(bytes.NewReader(bytes.Join([][]byte{[]byte(magic), head, rest}, nil)), DefaultLimits())
		rec, err := r.Next()
		runtime.ReadMemStats(&after)
		// The buffer, and the copies of a path and of one message that grow with what comes.
		if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20+16*uint64(len(rest)) {
			t.Fatalf("%x: %d bytes of memory for %d", head, used, len(rest))
		}
		if err != nil {
			return
		}
		var said struct {
			Kind       byte
			Mode, Path uint32
			Size       uint64
		}
		if err := binary.Read(bytes.NewReader(head), binary.BigEndian, &said); err != nil {
			t.Fatal(err)
		}
		name := string(rest[:said.Path])
		var body string
		if rec.Kind != KindFile && rec.Kind != KindLeftOut {
			body = string(rest[said.Path:][:said.Size])
		}
		want := Record{Kind: Kind(said.Kind), Mode: Mode(said.Mode)}
		switch rec.Kind {
		case KindFile:
			want.Path, want.Size = name, int64(said.Size)
		case KindLink:
			want.Path, want.Target = name, body
		case KindDelete:
			want.Path = name
		case KindMessage:
			want.Text = body
		case KindLeftOut:
			want.Reason, want.Count = name, int64(said.Size)
		}
		if rec != want {
			t.Fatalf("%x: %+v, want %+v", head, rec, want)
		}
		if n, err := io.Copy(io.Discard, r); rec.Kind == KindFile && err == nil && uint64(n) != said.Size {
			t.Fatalf("a body of %d bytes, %d announced", n, said.Size)
		}
	})
}
