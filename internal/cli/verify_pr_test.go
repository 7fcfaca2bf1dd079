package cli

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/evidence"
	"sallyport.dev/sallyport/internal/forge/forgetest"
)

func TestPullAddress(t *testing.T) {
	for address, want := range map[string]pullAddress{
		"https://github.com/acme/shop/pull/12":                         {"https://github.com/acme/shop.git", "refs/pull/12/head"},
		"https://github.com/acme/shop/pull/12/files":                   {"https://github.com/acme/shop.git", "refs/pull/12/head"},
		"http://127.0.0.1:3000/acme/shop/pulls/1":                      {"http://127.0.0.1:3000/acme/shop.git", "refs/pull/1/head"},
		"https://forge.example/git/acme/shop/pulls/1":                  {"https://forge.example/git/acme/shop.git", "refs/pull/1/head"},
		"https://gitlab.com/group/sub/shop/-/merge_requests/7":         {"https://gitlab.com/group/sub/shop.git", "refs/merge-requests/7/head"},
		"https://gitlab.com/group/shop/-/merge_requests/7/diffs?a=b#c": {"https://gitlab.com/group/shop.git", "refs/merge-requests/7/head"},
		"https://me:pw@github.com/acme/shop/pull/12":                   {},
		"https://github.com/acme/shop/pull/0":                          {},
		"https://github.com/acme/shop/issues/12":                       {},
		"github.com/acme/shop/pull/12":                                 {},
		"ssh://github.com/acme/shop/pull/12":                           {},
		"https://github.com/shop/pull/12":                              {},
	} {
		got, err := parsePullAddress(address)
		if got != want || (err == nil) != (want != pullAddress{}) {
			t.Errorf("%s: %+v %v", address, got, err)
		}
	}
}

// What a forge serves without end is neither kept nor waited on.
func TestBounded(t *testing.T) {
	b := &bounded{max: 5}
	for _, s := range []string{"abc", "de", "f"} {
		if n, err := b.Write([]byte(s)); n != len(s) || err != nil {
			t.Fatal(n, err)
		}
		if over := s == "f"; b.over != over {
			t.Errorf("after %q: over %v", s, b.over)
		}
	}
	if b.String() != "abcde" {
		t.Errorf("kept %q", b)
	}
}

// A tree that an old tool wrote can be verified; one that could do harm is not fetched.
func TestFetchOfAnOldTree(t *testing.T) {
	repo := forgetest.Bare(t)
	blob := forgetest.Git(t, repo, "hash-object", "-w", "--stdin")
	id, err := hex.DecodeString(blob)
	if err != nil {
		t.Fatal(err)
	}
	for entry, want := range map[string]sallyport.Code{"0100644 a": sallyport.CodeNotFound, "100644 .git": sallyport.CodeUnavailable} {
		file := filepath.Join(t.TempDir(), "tree")
		if err := os.WriteFile(file, append([]byte(entry+"\x00"), id...), 0o600); err != nil {
			t.Fatal(err)
		}
		tree := forgetest.Git(t, repo, "hash-object", "-t", "tree", "-w", "--literally", file)
		head := sallyport.ObjectID(forgetest.Git(t, repo, "commit-tree", "-m", "old", tree))
		forgetest.Git(t, repo, "update-ref", "refs/pull/1/head", string(head))
		g := fetcher{t.Context(), t.TempDir()}
		if tip, err := g.tip(repo, "refs/pull/1/head"); err != nil || tip != head {
			t.Fatal(tip, err)
		}
		if err := g.fetch(repo, head, evidence.AttachedRef(head)); sallyport.CodeOf(err) != want {
			t.Errorf("%s: %v, want code %s", entry, err, want)
		}
	}
}

// Where nothing is attached that is said, with what to do.
func TestNothingIsAttached(t *testing.T) {
	repo := forgetest.Bare(t)
	head := forgetest.CommitIn(t, repo, "one")
	forgetest.Git(t, repo, "update-ref", "refs/pull/1/head", string(head))
	g := fetcher{t.Context(), t.TempDir()}
	if tip, err := g.tip(repo, "refs/pull/1/head"); err != nil || tip != head {
		t.Fatal(tip, err)
	}
	ref := evidence.AttachedRef(head)
	err := g.fetch(repo, head, ref)
	if sallyport.CodeOf(err) != sallyport.CodeNotFound || !strings.Contains(err.Error(), "no evidence is attached") {
		t.Errorf("%v", err)
	}
	for _, word := range []string{"`attach: false`", "`sallyport verify FILE --commit " + string(head) + "`"} {
		if hint := sallyport.HintOf(err); !strings.Contains(hint, word) {
			t.Errorf("%q does not say %q", hint, word)
		}
	}
}
