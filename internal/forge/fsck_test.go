package forge_test

import (
	"cmp"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
	"sallyport.dev/sallyport/internal/forge/forgetest"
)

// object writes one as it is, whatever git thinks of it.
func object(t *testing.T, repo, kind, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "object")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return forgetest.Git(t, repo, "hash-object", "-t", kind, "-w", "--literally", path)
}

// raw is an object's name as it stands in a tree.
func raw(t *testing.T, id string) string {
	t.Helper()
	b, err := hex.DecodeString(id)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// An old commit with a fault that nobody can mend is history all the same; one with a fault that could do harm is not fetched.
func TestFetchOfOldFaults(t *testing.T) {
	const person = "a <a@example.test> 1 +0000"
	p := newPlace(t)
	blob := object(t, p.theirs, "blob", "x")
	for fault, c := range map[string]struct {
		author, message, tree string
		harmless              bool
	}{
		"missingNameBeforeEmail":  {author: "<a@example.test> 1 +0000", harmless: true},
		"missingSpaceBeforeEmail": {author: "a<a@example.test> 1 +0000", harmless: true},
		"missingEmail":            {author: "a", harmless: true},
		"badName":                 {author: "a> <a@example.test> 1 +0000", harmless: true},
		"badEmail":                {author: "a <a<@example.test> 1 +0000", harmless: true},
		"missingSpaceBeforeDate":  {author: "a <a@example.test>1 +0000", harmless: true},
		"badDate":                 {author: "a <a@example.test> x +0000", harmless: true},
		"badDateOverflow":         {author: "a <a@example.test> 99999999999999999999 +0000", harmless: true},
		"zeroPaddedDate":          {author: "a <a@example.test> 01 +0000", harmless: true},
		"badTimezone":             {author: "a <a@example.test> 1 0000", harmless: true},
		"multipleAuthors":         {author: person + "\nauthor " + person, harmless: true},
		"nulInCommit":             {message: "a\x00b", harmless: true},
		"zeroPaddedFilemode":      {tree: "0100644 a\x00" + raw(t, blob), harmless: true},
		"hasDotgit":               {tree: "100644 .git\x00" + raw(t, blob)},
		"hasDotdot":               {tree: "100644 ..\x00" + raw(t, blob)},
		"fullPathname":            {tree: "100644 a/b\x00" + raw(t, blob)},
		"treeNotSorted":           {tree: "100644 b\x00" + raw(t, blob) + "100644 a\x00" + raw(t, blob)},
		"duplicateEntries":        {tree: "100644 a\x00" + raw(t, blob) + "100644 a\x00" + raw(t, blob)},
		"missingAuthor":           {author: "-"},
	} {
		t.Run(fault, func(t *testing.T) {
			author := "author " + cmp.Or(c.author, person) + "\n"
			if c.author == "-" {
				author = ""
			}
			tree := object(t, p.theirs, "tree", c.tree)
			old := sallyport.ObjectID(object(t, p.theirs, "commit", "tree "+tree+"\n"+author+"committer "+person+"\n\n"+cmp.Or(c.message, "old")+"\n"))
			tip := forgetest.CommitIn(t, p.theirs, "new", old)
			forgetest.Git(t, p.theirs, "update-ref", ref, string(tip))
			fresh := forgetest.Bare(t)
			got, err := forge.Fetch(t.Context(), fresh, p.remote, ref)
			if !c.harmless {
				if err == nil || !strings.Contains(err.Error(), fault) {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil || got != tip {
				t.Fatalf("%s, %v", got, err)
			}
			if within, err := forge.Contains(t.Context(), fresh, tip, old); err != nil || !within {
				t.Errorf("the old one is in its history: %v, %v", within, err)
			}
		})
	}
}
