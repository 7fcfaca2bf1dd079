package publication

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"runtime"
	"testing"

	"sallyport.dev/sallyport"
)

// FuzzReadRequest: no bytes make the reader panic or take more memory than the header's bound; a refusal has a code; and
// what is read is written back as something that reads the same.
func FuzzReadRequest(f *testing.F) {
	sent := func(body string) []byte {
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	}
	f.Add(sent(`{"acceptance":"a","evidence":"b","approvals":["c"],"pack_bytes":1}`))
	f.Add(sent(`{"acceptance":"a","Acceptance":"b","pack_bytes":9223372036854775807}`))
	f.Add(sent(`{"receipt":"r"}`))
	f.Add(sent(`{"error":{"code":"denied","message":"m"}}`))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{1, 0, 0, 0, '{'})
	f.Fuzz(func(t *testing.T, b []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		q, err := ReadRequest(bytes.NewReader(b))
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > maxHeader+1<<20+64*uint64(len(b)) {
			t.Fatalf("%d bytes of memory for %d", used, len(b))
		}
		if receipt, err := ReadAnswer(bytes.NewReader(b)); err == nil {
			var again bytes.Buffer
			if err := WriteAnswer(&again, Answer{Receipt: string(receipt)}); err != nil {
				t.Fatal(err)
			}
			if same, err := ReadAnswer(&again); err != nil || !bytes.Equal(same, receipt) {
				t.Fatalf("%q became %q: %v", receipt, same, err)
			}
		}
		if err != nil {
			if sallyport.CodeOf(err) != sallyport.CodeInvalid {
				t.Fatalf("code %v: %v", sallyport.CodeOf(err), err)
			}
			return
		}
		if q.PackBytes < 1 || q.PackBytes > MaxPack {
			t.Fatalf("a pack of %d bytes is let pass", q.PackBytes)
		}
		var again bytes.Buffer
		if err := writeJSON(&again, q); err != nil {
			t.Fatal(err)
		}
		if same, err := ReadRequest(&again); err != nil || !reflect.DeepEqual(same, q) {
			t.Fatalf("%+v became %+v: %v", q, same, err)
		}
	})
}
