package sqlite

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
)

func checkpoint(data any) journal.Record {
	return journal.Record{Type: lifecycle.Checkpoint, Data: data}
}

// The bytes of doc.go, written out by hand.
func TestHashIsOverTheDocumentedBytes(t *testing.T) {
	e := lifecycle.Event{
		Seq: 7, At: "2026-01-02T03:04:05.600000000Z", Type: lifecycle.AttemptNotice, Attempt: "att_x", Allocation: "alc_y", Fence: 3,
		Data: json.RawMessage(`{ "text": "a \u003c é \u2028", "n": 1.50, "a": [ 1e2 ] }`), Prev: "sha256:p",
	}
	want := `{"allocation":"alc_y","at":"2026-01-02T03:04:05.600000000Z","attempt":"att_x","data":{"a":[100],"n":1.5,"text":"a < é ` + "\u2028" + `"},"fence":3,"prev":"sha256:p","seq":7,"type":"attempt.notice"}`
	if got, err := hashOf(e); err != nil || got != sallyport.Sum([]byte(want)) {
		t.Errorf("hash %s, %v; want that of %s", got, err, want)
	}
	e.Attempt, e.Allocation, e.Data, e.Prev = "", "", json.RawMessage("null"), ""
	want = `{"at":"2026-01-02T03:04:05.600000000Z","data":null,"fence":3,"prev":"","seq":7,"type":"attempt.notice"}`
	if got, err := hashOf(e); err != nil || got != sallyport.Sum([]byte(want)) {
		t.Errorf("hash %s, %v; want that of %s", got, err, want)
	}
}

func TestTimesHaveOneForm(t *testing.T) {
	zone := time.FixedZone("x", 3600)
	if got := at(time.Date(2026, 1, 2, 3, 4, 5, 0, zone)); got != "2026-01-02T02:04:05.000000000Z" {
		t.Error(got)
	}
}

func TestWhatCannotBeKeptExactlyIsRefused(t *testing.T) {
	for _, bad := range []any{
		map[string]any{"n": int64(1 << 53)}, []any{map[string]any{"x": []uint64{1 << 63}}}, json.RawMessage(`-9007199254740992`), json.RawMessage(`11E17`), json.RawMessage(`[-1e20]`),
		json.RawMessage("\"\xc3\x28\""), json.RawMessage(`{"a":`), make(chan int), strings.Repeat("x", maxData),
	} {
		_, err := canonical(checkpoint(bad))
		wantCode(t, err, sallyport.CodeInvalid)
	}
	for in, want := range map[string]string{
		`9007199254740991`: `9007199254740991`, `-9007199254740991`: `-9007199254740991`, `null`: `null`, `"<\u2028>"`: "\"<\u2028>\"",
		`{"b":1,"a":2}`: `{"a":2,"b":1}`, `[ ]`: `[]`, `0.10`: `0.1`, `true`: `true`, `1E21`: `1e+21`, `1e15`: `1000000000000000`,
	} {
		if got, err := canonical(checkpoint(json.RawMessage(in))); err != nil || string(got) != want {
			t.Errorf("%s became %s, %v; want %s", in, got, err, want)
		}
	}
}

// FuzzCanonical: the canonical form is a fixed point, says the same as the input, and keeps the hash.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{`null`, `{"b":[1,2.5e3,-0],"a":"\u00e9\n"}`, `"😀"`, `{"":{}}`, `[1e400]`, `{"a":1,"a":2}`, `"\ud800"`, `1E-7`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		one, err := canonical(checkpoint(json.RawMessage(b)))
		if err != nil {
			if sallyport.CodeOf(err) != sallyport.CodeInvalid {
				t.Fatalf("code %v", sallyport.CodeOf(err))
			}
			return
		}
		two, err := canonical(checkpoint(one))
		if err != nil || !bytes.Equal(one, two) {
			t.Fatalf("%s became %s, then %s (%v)", b, one, two, err)
		}
		var x, y any
		if json.Unmarshal(b, &x) != nil || json.Unmarshal(one, &y) != nil {
			t.Fatalf("%s became %s: one of them is not readable", b, one)
		}
		if !reflect.DeepEqual(x, y) {
			t.Fatalf("%s became %s: %v against %v", b, one, x, y)
		}
		h1, err1 := hashOf(lifecycle.Event{Seq: 1, Data: b})
		h2, err2 := hashOf(lifecycle.Event{Seq: 1, Data: one})
		if err1 != nil || err2 != nil || h1 != h2 {
			t.Fatalf("hashes %s %v, %s %v", h1, err1, h2, err2)
		}
	})
}

func TestOpaqueEventsNeedNoAttempt(t *testing.T) {
	db := openAt(t, filepath.Join(t.TempDir(), "j.db"), Options{})
	if err := appendCheckpoint(db, "signed"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Append(t.Context(), nil, journal.Record{Type: lifecycle.KeyRotated, Data: nil}); err != nil {
		t.Fatal(err)
	}
	if err := db.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
}
