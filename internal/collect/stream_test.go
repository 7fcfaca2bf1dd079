package collect

import (
	"bytes"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sallyport.dev/sallyport"
)

// item is a record with its body, comparable in tests.
type item struct {
	Record
	Body string
}

func readAll(b []byte, l Limits) ([]item, error) {
	r := NewReader(bytes.NewReader(b), l)
	var all []item
	for {
		rec, err := r.Next()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		it := item{Record: rec}
		if rec.Kind == KindFile {
			body, err := io.ReadAll(r)
			if err != nil {
				return nil, err
			}
			it.Body = string(body)
		}
		all = append(all, it)
	}
}

func writeAll(items []item) ([]byte, error) {
	var b bytes.Buffer
	w := NewWriter(&b)
	for _, it := range items {
		if err := writeOne(w, it); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

func writeOne(w *Writer, it item) error {
	switch it.Kind {
	case KindFile:
		return w.File(it.Path, it.Mode, int64(len(it.Body)), strings.NewReader(it.Body))
	case KindLink:
		return w.Link(it.Path, it.Target)
	case KindDelete:
		return w.Delete(it.Path)
	case KindMessage:
		return w.Message(it.Text)
	}
	return w.LeftOut(it.Reason, it.Count)
}

func sample(t testing.TB) []byte {
	b, err := writeAll([]item{
		{Record: Record{Kind: KindFile, Path: "a-b", Mode: ModeExec}, Body: "#!/bin/sh\n"},
		{Record: Record{Kind: KindFile, Path: "a/b", Mode: ModeFile}, Body: ""},
		{Record: Record{Kind: KindLink, Path: "l", Target: "../x"}},
		{Record: Record{Kind: KindDelete, Path: "old"}},
		{Record: Record{Kind: KindMessage, Text: "did it"}},
		{Record: Record{Kind: KindLeftOut, Reason: "fifo", Count: 2}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func small() Limits {
	return Limits{Path: 64, Depth: 4, Entries: 8, File: 100, Total: 4000, Messages: 2, Message: 32}
}

func TestEveryCutAndEveryFlippedBitIsRefused(t *testing.T) {
	b := sample(t)
	for n := range b {
		if _, err := readAll(b[:n], DefaultLimits()); sallyport.CodeOf(err) != sallyport.CodeCorrupt {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
	for i := range len(b) * 8 {
		m := bytes.Clone(b)
		m[i/8] ^= 1 << (i % 8)
		if _, err := readAll(m, DefaultLimits()); err == nil {
			t.Fatalf("bit %d flipped and the stream was accepted", i)
		}
	}
	if _, err := readAll(append(bytes.Clone(b), 0), DefaultLimits()); sallyport.CodeOf(err) != sallyport.CodeCorrupt {
		t.Fatalf("appended: %v", err)
	}
	if _, err := readAll(append(bytes.Clone(b), b...), DefaultLimits()); sallyport.CodeOf(err) != sallyport.CodeCorrupt {
		t.Fatalf("two streams: %v", err)
	}
}

func TestRefusedOrder(t *testing.T) {
	file := func(p string) item { return item{Record: Record{Kind: KindFile, Path: p, Mode: ModeFile}} }
	for name, items := range map[string][]item{
		"twice":           {file("a"), file("a")},
		"descending":      {file("b"), file("a")},
		"below a file":    {file("a"), file("a/b")},
		"below, between":  {file("a"), file("a-"), file("a-b"), file("a/b")},
		"below a delete":  {{Record: Record{Kind: KindDelete, Path: "a"}}, file("a/b/c")},
		"message first":   {{Record: Record{Kind: KindMessage, Text: "m"}}, file("a")},
		"left out first":  {{Record: Record{Kind: KindLeftOut, Reason: "x", Count: 1}}, {Record: Record{Kind: KindMessage}}},
		"dot":             {file("./a")},
		"dotdot":          {file("a/../b")},
		"absolute":        {file("/a")},
		"trailing":        {file("a/")},
		"empty":           {file("")},
		"nul":             {file("a\x00b")},
		"no target":       {{Record: Record{Kind: KindLink, Path: "l"}}},
		"bad mode":        {{Record: Record{Kind: KindFile, Path: "a", Mode: 0o104755}}},
		"bad reason":      {{Record: Record{Kind: KindLeftOut, Reason: "A b", Count: 1}}},
		"nothing left":    {{Record: Record{Kind: KindLeftOut, Reason: "a", Count: 0}}},
		"descending why":  {{Record: Record{Kind: KindLeftOut, Reason: "b", Count: 1}}, {Record: Record{Kind: KindLeftOut, Reason: "a", Count: 1}}},
		"target with nul": {{Record: Record{Kind: KindLink, Path: "l", Target: "a\x00"}}},
	} {
		if _, err := writeAll(items); sallyport.CodeOf(err) != sallyport.CodeCorrupt {
			t.Errorf("writer, %s: %v", name, err)
		}
		// The reader has to refuse the same from bytes that no Writer made.
		if _, err := readAll(forge(items), DefaultLimits()); sallyport.CodeOf(err) != sallyport.CodeCorrupt {
			t.Errorf("reader, %s: %v", name, err)
		}
	}
	if _, err := writeAll([]item{file("a"), file("a-"), file("a.b"), file("a0"), file("b/a"), file("b/a-"), file("b0/a")}); err != nil {
		t.Errorf("good order: %v", err)
	}
}

// forge writes records without any check but with a true trailer.
func forge(items []item) []byte {
	var b bytes.Buffer
	w := NewWriter(&b)
	w.begin()
	for _, it := range items {
		body, name, size := it.Body+it.Target+it.Text, it.Path+it.Reason, uint64(len(it.Body+it.Target+it.Text))
		mode := it.Mode
		switch it.Kind {
		case KindLink:
			mode = ModeLink
		case KindLeftOut:
			size = uint64(it.Count)
		}
		w.put(header(it.Kind, mode, len(name), size))
		w.put([]byte(name))
		w.put([]byte(body))
		w.count++
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func TestLimits(t *testing.T) {
	f := func(p, body string) item {
		return item{Record: Record{Kind: KindFile, Path: p, Mode: ModeFile}, Body: body}
	}
	many := []item{}
	for _, c := range "abcdefghi" {
		many = append(many, f(string(c), ""))
	}
	for name, items := range map[string][]item{
		"path":     {f(strings.Repeat("p", 65), "")},
		"depth":    {f("a/b/c/d/e", "")},
		"entries":  many,
		"file":     {f("a", strings.Repeat("x", 101))},
		"message":  {{Record: Record{Kind: KindMessage, Text: strings.Repeat("m", 33)}}},
		"messages": {{Record: Record{Kind: KindMessage}}, {Record: Record{Kind: KindMessage}}, {Record: Record{Kind: KindMessage}}},
	} {
		b, err := writeAll(items)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := readAll(b, small()); sallyport.CodeOf(err) != sallyport.CodeExhausted {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := readAll(b, DefaultLimits()); err != nil {
			t.Errorf("%s, default limits: %v", name, err)
		}
	}
	tight := small()
	tight.Total = 80
	if _, err := readAll(sample(t), tight); sallyport.CodeOf(err) != sallyport.CodeExhausted {
		t.Errorf("total: %v", err)
	}
	if _, err := readAll(sample(t), Limits{}); sallyport.CodeOf(err) != sallyport.CodeExhausted {
		t.Errorf("zero limits: %v", err)
	}
	empty, _ := writeAll(nil)
	if _, err := readAll(empty, Limits{}); err != nil {
		t.Errorf("empty stream under zero limits: %v", err)
	}
}

// A header may announce 2^63 bytes; the reader must not believe it.
func TestHugeAnnouncementsCostNothing(t *testing.T) {
	l := DefaultLimits()
	l.File, l.Total, l.Message = math.MaxInt64, math.MaxInt64, 1<<20
	for _, k := range []Kind{KindFile, KindLink, KindMessage} {
		b := append([]byte(magic), header(k, map[Kind]Mode{KindFile: ModeFile, KindLink: ModeLink}[k], 1, math.MaxInt64)...)
		b = append(b, 'a')
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := readAll(b, l); err == nil {
			t.Fatalf("%c: accepted", k)
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
			t.Errorf("%c: %d bytes allocated", k, n)
		}
	}
}

func TestShortAndLongFilesAreCorrupt(t *testing.T) {
	for _, body := range []string{"12", "1234"} {
		w := NewWriter(io.Discard)
		if err := w.File("a", ModeFile, 3, strings.NewReader(body)); sallyport.CodeOf(err) != sallyport.CodeCorrupt {
			t.Errorf("%q: %v", body, err)
		}
		if err := w.Close(); err == nil {
			t.Errorf("%q: a stream with a wrong file was closed", body)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genItems(t)
		b, err := writeAll(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := readAll(b, DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Fatalf("%d records, want %d", len(got), len(want))
		}
		for i := range got {
			want[i].Size = got[i].Size
			if got[i] != want[i] {
				t.Fatalf("record %d: %+v, want %+v", i, got[i], want[i])
			}
		}
	})
}

func genItems(t *rapid.T) []item {
	var items []item
	var o order
	comp := rapid.StringMatching(`[a-c.0-]{1,3}|\xff\x01x`)
	for _, p := range rapid.SliceOfDistinct(rapid.SliceOfN(comp, 1, 4), func(s []string) string { return strings.Join(s, "/") }).Draw(t, "paths") {
		path := strings.Join(p, "/")
		was := o
		was.open = append([]int(nil), o.open...)
		if !validPath(path) || o.next(KindFile, path) != "" {
			o = was
			continue
		}
		it := item{Record: Record{Kind: rapid.SampledFrom([]Kind{KindFile, KindLink, KindDelete}).Draw(t, "kind"), Path: path}}
		switch it.Kind {
		case KindFile:
			it.Mode, it.Body = rapid.SampledFrom([]Mode{ModeFile, ModeExec}).Draw(t, "mode"), rapid.String().Draw(t, "body")
		case KindLink:
			it.Mode, it.Target = ModeLink, "t"+rapid.StringMatching(`[a-z/.]*`).Draw(t, "target")
		}
		items = append(items, it)
	}
	for range rapid.IntRange(0, 2).Draw(t, "messages") {
		items = append(items, item{Record: Record{Kind: KindMessage, Text: rapid.String().Draw(t, "text")}})
	}
	if rapid.Bool().Draw(t, "left") {
		items = append(items, item{Record: Record{Kind: KindLeftOut, Reason: "fifo", Count: rapid.Int64Range(1, math.MaxInt64).Draw(t, "n")}})
	}
	return items
}

// FuzzReader: what is accepted can be written in exactly one way,
// so no two streams mean the same and no stream means something its bytes do not say.
func FuzzReader(f *testing.F) {
	f.Add(sample(f))
	empty, _ := writeAll(nil)
	f.Add(empty)
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, candidate := range [][]byte{b, reseal(b)} {
			items, err := readAll(candidate, small())
			if err != nil {
				if c := sallyport.CodeOf(err); c != sallyport.CodeCorrupt && c != sallyport.CodeExhausted {
					t.Fatalf("code %v: %v", c, err)
				}
				continue
			}
			again, err := writeAll(items)
			if err != nil {
				t.Fatalf("accepted what cannot be written: %v", err)
			}
			if !bytes.Equal(again, candidate) {
				t.Fatalf("accepted another spelling:\n%q\n%q", candidate, again)
			}
		}
	})
}

// reseal gives mutated bytes a true checksum, so that fuzzing gets past it.
func reseal(b []byte) []byte {
	if len(b) < sumSize {
		return b
	}
	var out bytes.Buffer
	w := NewWriter(&out)
	w.put(b[:len(b)-sumSize])
	w.w.Write(w.sum.Sum(nil))
	w.w.Flush()
	return out.Bytes()
}
