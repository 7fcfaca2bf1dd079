package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
)

func frame(s string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(s))), s...)
}

func TestReadFrameRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		b    []byte
		code sallyport.Code
	}{
		"nothing":        {nil, sallyport.CodeUnavailable},
		"half a length":  {[]byte{0, 0}, sallyport.CodeUnavailable},
		"half a frame":   {frame(`{"op":"wait"}`)[:9], sallyport.CodeUnavailable},
		"empty":          {frame(""), sallyport.CodeCorrupt},
		"too long":       {binary.BigEndian.AppendUint32(nil, MaxFrame+1), sallyport.CodeCorrupt},
		"much too long":  {[]byte{0xff, 0xff, 0xff, 0xff}, sallyport.CodeCorrupt},
		"not JSON":       {frame("wait"), sallyport.CodeCorrupt},
		"another type":   {frame(`["wait"]`), sallyport.CodeCorrupt},
		"unknown field":  {frame(`{"op":"wait","extra":1}`), sallyport.CodeCorrupt},
		"trailing JSON":  {frame(`{"op":"wait"}{}`), sallyport.CodeCorrupt},
		"trailing bytes": {frame(`{"op":"wait"} x`), sallyport.CodeCorrupt},
		"out of range":   {frame(`{"op":"output","offset":99999999999999999999}`), sallyport.CodeCorrupt},
	} {
		var q request
		if err := readFrame(bytes.NewReader(c.b), &q); sallyport.CodeOf(err) != c.code || err == nil {
			t.Errorf("%s: %v, expected %v", name, err, c.code)
		}
	}
	var q request
	if err := readFrame(bytes.NewReader(frame(`{"op":"wait"}`)), &q); err != nil || q.Op != "wait" {
		t.Errorf("a good frame: %+v, %v", q, err)
	}
}

func TestFramesRoundTrip(t *testing.T) {
	want := request{Op: "input", Version: 1, Allocation: "alc_x", Secret: "s\x00\xc3\xa9", Fence: -3, Offset: 1 << 60, Data: []byte{0, 1, 255}, Cols: 3, Rows: 4, Why: "a\nb", TTL: 9}
	var b bytes.Buffer
	if err := writeFrame(&b, want); err != nil {
		t.Fatal(err)
	}
	var got request
	if err := readFrame(&b, &got); err != nil || !reflect.DeepEqual(got, want) || b.Len() != 0 {
		t.Errorf("%+v, %v, %d bytes left", got, err, b.Len())
	}
}

func TestWriteFrameRefusesWhatNobodyWouldRead(t *testing.T) {
	var b bytes.Buffer
	err := writeFrame(&b, request{Op: "stop", Why: strings.Repeat("x", MaxFrame)})
	if sallyport.CodeOf(err) != sallyport.CodeExhausted || b.Len() != 0 {
		t.Errorf("%v, %d bytes written", err, b.Len())
	}
}

func chunks(parts ...string) []byte {
	var b bytes.Buffer
	c := chunkWriter{&b}
	for _, p := range parts {
		if _, err := c.Write([]byte(p)); err != nil {
			panic(err)
		}
	}
	if err := c.end(answer{Next: 7}); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func TestChunksRoundTrip(t *testing.T) {
	for _, parts := range [][]string{{}, {""}, {"a"}, {"a", "bc"}, {strings.Repeat("x", MaxChunk)}, {strings.Repeat("x", MaxChunk+1)}, {strings.Repeat("y", 5*MaxChunk+3), "z"}} {
		var out bytes.Buffer
		n, a, err := readChunks(bytes.NewReader(chunks(parts...)), &out)
		if want := strings.Join(parts, ""); err != nil || out.String() != want || n != int64(len(want)) || a.Next != 7 {
			t.Errorf("%d parts: %d bytes, %+v, %v", len(parts), n, a, err)
		}
	}
}

func TestReadChunksRefuses(t *testing.T) {
	whole := chunks("hello")
	for n := range whole {
		if _, _, err := readChunks(bytes.NewReader(whole[:n]), io.Discard); sallyport.CodeOf(err) != sallyport.CodeUnavailable {
			t.Errorf("cut at %d: %v", n, err)
		}
	}
	for name, b := range map[string][]byte{
		"too long":     binary.BigEndian.AppendUint32(nil, MaxChunk+1),
		"bad trailer":  append([]byte{0, 0, 0, 0}, frame(`{"x":1}`)...),
		"long trailer": append([]byte{0, 0, 0, 0}, 0xff, 0, 0, 0),
	} {
		if _, _, err := readChunks(bytes.NewReader(b), io.Discard); sallyport.CodeOf(err) != sallyport.CodeCorrupt {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A chunk's bytes count as delivered only as far as the writer took them.
func TestReadChunksCountsWhatWasTaken(t *testing.T) {
	n, _, err := readChunks(bytes.NewReader(chunks("hello", "world")), &taker{left: 7})
	if err != io.ErrShortWrite || n != 7 {
		t.Errorf("%d, %v", n, err)
	}
}

type taker struct{ left int }

func (w *taker) Write(p []byte) (int, error) {
	n := min(len(p), w.left)
	if w.left -= n; n < len(p) {
		return n, io.ErrShortWrite
	}
	return n, nil
}

// allocated runs f and returns the bytes that were allocated meanwhile.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// FuzzReadFrame: no input panics, takes more memory than the bound, or is accepted and then not written back
// as something that reads the same.
func FuzzReadFrame(f *testing.F) {
	for _, s := range []string{`{"op":"wait"}`, `{"op":"input","data":"AAAA"}`, `{"op":"hello","version":1,"fence":-1}`, `{}`, `null`, `{"op":"wait","op":"stop"}`} {
		f.Add(frame(s))
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Add(append(binary.BigEndian.AppendUint32(nil, MaxFrame), bytes.Repeat([]byte("["), 4000)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		var q request
		var err error
		// The frame, what the JSON package keeps beside it, and room for the harness.
		if used := allocated(func() { err = readFrame(bytes.NewReader(b), &q) }); used > 16*MaxFrame {
			t.Errorf("%d bytes of memory for an input of %d", used, len(b))
		}
		if err != nil {
			if c := sallyport.CodeOf(err); c != sallyport.CodeCorrupt && c != sallyport.CodeUnavailable {
				t.Errorf("code %v: %v", c, err)
			}
			return
		}
		var again bytes.Buffer
		if err := writeFrame(&again, q); err != nil {
			return // JSON may grow when it is escaped; the bound holds on both ends
		}
		var same request
		if err := readFrame(&again, &same); err != nil || !equalJSON(q, same) {
			t.Errorf("%+v became %+v, %v", q, same, err)
		}
	})
}

func equalJSON(a, b any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return bytes.Equal(x, y)
}

// FuzzReadChunks: no input panics, takes more memory than the bound, or delivers more bytes than it holds.
func FuzzReadChunks(f *testing.F) {
	f.Add(chunks("hello", "world"))
	f.Add(chunks())
	f.Add([]byte{0, 1, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		var out bytes.Buffer
		var n int64
		var a answer
		var err error
		if used := allocated(func() { n, a, err = readChunks(bytes.NewReader(b), &out) }); used > 16*MaxFrame+8*uint64(len(b)) {
			t.Errorf("%d bytes of memory for an input of %d", used, len(b))
		}
		if n != int64(out.Len()) || out.Len() > len(b) {
			t.Errorf("says %d, delivered %d of %d", n, out.Len(), len(b))
		}
		if err != nil {
			return
		}
		var again bytes.Buffer
		c := chunkWriter{&again}
		if _, err := c.Write(out.Bytes()); err != nil {
			t.Fatal(err)
		}
		if c.end(a) != nil {
			return
		}
		var same bytes.Buffer
		if m, b, err := readChunks(&again, &same); err != nil || m != n || !bytes.Equal(same.Bytes(), out.Bytes()) || !equalJSON(a, b) {
			t.Errorf("%d bytes became %d: %v", n, m, err)
		}
	})
}
