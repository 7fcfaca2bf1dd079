package publisher

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/evidence"
	"sallyport.dev/sallyport/internal/evidence/evidencetest"
	"sallyport.dev/sallyport/internal/forge"
	"sallyport.dev/sallyport/internal/publication"
)

// TestRefused: whatever is wrong with a request is found before a driver is made, so before any credential.
func TestRefused(t *testing.T) {
	s := newStage(t, "refused")
	s.git("rm", "-q", "-r", "--ignore-unmatch", "README.md")
	s.write(".github/workflows/x.yml", "on: push\n")
	s.git("add", "-A")
	s.git("commit", "-q", "-m", "workflows")
	p := s.publisher(Options{Driver: func(Target) (forge.Driver, error) {
		t.Error("a driver was made")
		return nil, os.ErrInvalid
	}})
	stranger, err := evidence.OpenKeyring(filepath.Join(t.TempDir(), "stranger"))
	if err != nil {
		t.Fatal(err)
	}
	good := s.accept("good\n", nil)
	other := s.accept("other\n", nil)
	extra := extraObject(t, s, good)
	with := func(f func(*evidencetest.Case)) order1 { return s.accept("x\n", f) }
	accepted := func(f func(*evidence.Accepted)) order1 {
		return with(func(c *evidencetest.Case) { c.Alter = f })
	}
	withPack := func(o order1, pack []byte) order1 {
		o.pack, o.request.PackBytes = pack, int64(len(pack))
		return o
	}
	foreign := good.c
	signer, err := stranger.Signer()
	if err != nil {
		t.Fatal(err)
	}
	foreign.Signer = signer
	mixed := good
	mixed.request.Evidence = other.request.Evidence
	for name, k := range map[string]struct {
		o    order1
		code sallyport.Code
		word string
	}{
		"a stranger's key":          {sealedBy(t, foreign, stranger), sallyport.CodeDenied, "signature"},
		"other evidence":            {mixed, sallyport.CodeDenied, "evidence"},
		"another target":            {with(func(c *evidencetest.Case) { c.Target.Repository += "-other" }), sallyport.CodeDenied, "target.repository"},
		"a base that is not listed": {with(func(c *evidencetest.Case) { c.Target.Base = "refs/heads/release" }), sallyport.CodeDenied, "target.base"},
		"a branch not ours":         {with(func(c *evidencetest.Case) { c.Target.Branch = "refs/heads/feature" }), sallyport.CodeDenied, "target.branch"},
		"a branch almost ours":      {with(func(c *evidencetest.Case) { c.Target.Branch = "refs/heads/sallyportfix" }), sallyport.CodeDenied, "target.branch"},
		"a workflow added":          {s.acceptFiles(map[string]string{".github/workflows/y.yml": "y\n"}, nil), sallyport.CodeDenied, "protected"},
		"a workflow changed":        {s.acceptFiles(map[string]string{".github/workflows/x.yml": "y\n"}, nil), sallyport.CodeDenied, "protected"},
		"a workflow deleted":        {s.acceptFiles(map[string]string{".github/workflows/x.yml": ""}, nil), sallyport.CodeDenied, "protected"},
		"a workflow renamed away":   {s.acceptFiles(map[string]string{".github/workflows/x.yml": "", "x.yml": "on: push\n"}, nil), sallyport.CodeDenied, "protected"},
		"a link for a folder":       {s.acceptFiles(map[string]string{".gitea": "-> ci"}, nil), sallyport.CodeDenied, "protected"},
		"owners":                    {s.acceptFiles(map[string]string{"docs/CODEOWNERS": "* @me\n"}, nil), sallyport.CodeDenied, "protected"},
		"a pack of other bytes":     {withPack(good, flipped(good.pack)), sallyport.CodeDenied, "pack"},
		"another's pack":            {withPack(good, other.pack), sallyport.CodeDenied, "pack"},
		"a pack cut short":          {withPack(good, good.pack[:len(good.pack)-1]), sallyport.CodeDenied, "pack"},
		"a pack said to be longer":  {order1{request: longer(good), pack: good.pack}, sallyport.CodeDenied, "pack"},
		"an object too many":        {extra, sallyport.CodeInvalid, "belongs to no difference"},
		"another base":              {accepted(func(a *evidence.Accepted) { a.Base.Commit = sallyport.ObjectID(strings.Repeat("1", 40)) }), sallyport.CodeDenied, "base"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := p.Publish(t.Context(), k.o.request, bytes.NewReader(k.o.pack), "none")
			if err == nil || sallyport.CodeOf(err) != k.code || !strings.Contains(err.Error(), k.word) {
				t.Errorf("%v (%v), expected %v and %q", err, sallyport.CodeOf(err), k.code, k.word)
			}
		})
	}
	for word, off := range map[string]time.Duration{"not_after": 61 * time.Minute, "issued": -3 * time.Minute} {
		p.options.Now = func() time.Time { return time.Now().Add(off) }
		s.fails(p, good, sallyport.CodeDenied, word)
	}
	if n := s.types(p); len(n) > 0 {
		t.Errorf("recorded: %v", n)
	}
}

func (s *stage) write(name, content string) {
	s.t.Helper()
	path := filepath.Join(s.clone, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

func flipped(b []byte) []byte {
	out := bytes.Clone(b)
	out[len(out)/2] ^= 1
	return out
}

func longer(o order1) (q publication.Request) {
	q = o.request
	q.PackBytes++
	return q
}

// extraObject is an acceptance of a pack with one blob more than the change has.
func extraObject(t *testing.T, s *stage, o order1) order1 {
	t.Helper()
	pack := bytes.Clone(o.pack[:len(o.pack)-sha1.Size])
	binary.BigEndian.PutUint32(pack[8:], binary.BigEndian.Uint32(pack[8:])+1)
	var z bytes.Buffer
	w := zlib.NewWriter(&z)
	if _, err := w.Write([]byte("extra")); err != nil {
		t.Fatal(err)
	}
	w.Close()
	pack = append(append(pack, 3<<4|5), z.Bytes()...)
	sum := sha1.Sum(pack)
	c := o.c
	c.Pack = append(pack, sum[:]...)
	return s.sealed(c, nil)
}

// Later requests of the same work order, and of others, against what was received.
func TestHistory(t *testing.T) {
	s := newStage(t, "history")
	p := s.publisher(Options{})
	s.attempts = 5
	first := s.accept("one\n", nil)
	s.must(p, first)
	fence, seq := first.c.Fence, first.c.Seq
	calls := 0
	driver := minting(nil)
	q := s.publisher(Options{Driver: func(t Target) (forge.Driver, error) { calls++; return driver(t) }})
	next := func(f func(*evidencetest.Case)) order1 { return s.accept(fmt.Sprintf("%d\n", s.seq), f) }
	for name, k := range map[string]struct {
		o    order1
		code sallyport.Code
		word string
	}{
		"a lower fence":        {next(func(c *evidencetest.Case) { c.Fence = fence - 1 }), sallyport.CodeFenced, "fence"},
		"a nonce used":         {next(func(c *evidencetest.Case) { c.Nonce = first.c.Nonce }), sallyport.CodeDenied, "nonce"},
		"by another order":     {next(func(c *evidencetest.Case) { c.Nonce = first.c.Nonce; c.WorkOrder = 2 }), sallyport.CodeDenied, "nonce"},
		"an older checkpoint":  {next(func(c *evidencetest.Case) { c.Seq = seq - 1 }), sallyport.CodeDenied, "journal"},
		"another history":      {next(forked(seq)), sallyport.CodeDenied, "journal"},
		"of another order too": {next(func(c *evidencetest.Case) { forked(seq)(c); c.WorkOrder = 3 }), sallyport.CodeDenied, "journal"},
	} {
		t.Run(name, func(t *testing.T) { s.fails(q, k.o, k.code, k.word) })
	}
	if calls > 0 {
		t.Errorf("%d drivers were made", calls)
	}
}

// forked is another hash at a point of the journal that was seen.
func forked(seq int64) func(*evidencetest.Case) {
	return func(c *evidencetest.Case) {
		c.Seq = seq
		c.Alter = func(a *evidence.Accepted) { a.Journal.Hash = sallyport.Sum([]byte("another")) }
	}
}
