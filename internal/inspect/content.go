package inspect

import (
	"bytes"
	"context"
	"fmt"
	"hash/maphash"
	"time"
	"unicode/utf16"

	"sallyport.dev/sallyport"
)

// contents scans what the change adds. A limit that is met is said once, with how much was not read.
//
// Files that git reads come first: what they do must not be hidden behind the weight of others.
func (i *inspection) contents(ctx context.Context) error {
	for _, c := range gitFilesFirst(i.Changes) {
		if gone(c) || c.NewID == c.OldID && c.OldID != "" && isFile(c.OldMode) == isFile(c.NewMode) {
			continue
		}
		if c.NewMode == modeLink {
			if err := i.link(ctx, c); err != nil {
				return err
			}
			continue
		}
		if !isFile(c.NewMode) {
			continue
		}
		if i.spent >= i.Limits.TotalBytes || time.Now().After(i.end) {
			i.unread++
			continue
		}
		if err := i.content(ctx, c); err != nil {
			return err
		}
	}
	i.attributeEffects()
	if i.unread > 0 {
		i.found.add("scan.incomplete", "", fmt.Sprintf("%d files were not scanned: the limit on bytes or time was met", i.unread))
	}
	return nil
}

func gitFilesFirst(changes []sallyport.Change) []sallyport.Change {
	first := func(c sallyport.Change) bool {
		return dotModules.ends(c.Path) || dotAttributes.ends(c.Path) || dotLFS.ends(c.Path)
	}
	out := make([]sallyport.Change, 0, len(changes))
	for _, c := range changes {
		if first(c) {
			out = append(out, c)
		}
	}
	for _, c := range changes {
		if !first(c) {
			out = append(out, c)
		}
	}
	return out
}

func (i *inspection) content(ctx context.Context, c sallyport.Change) error {
	raw, err := i.blob(ctx, c.Path, c.NewID, i.Limits.BlobBytes+1)
	if err != nil {
		return err
	}
	if int64(len(raw)) > i.Limits.BlobBytes {
		raw = raw[:i.Limits.BlobBytes]
		i.found.add("scan.incomplete", c.Path, "only the first "+megabytes(i.Limits.BlobBytes)+" were scanned")
	}
	i.spent += int64(len(raw))
	var old []byte
	if c.OldID != "" && isFile(c.OldMode) {
		if old, err = i.blob(ctx, c.Path, c.OldID, i.Limits.BlobBytes); err != nil {
			return err
		}
		i.spent += int64(len(old))
	}
	b, before := asUTF8(raw), asUTF8(old)
	known := lineSet(before)
	i.secrets(c, b, known)
	if isBinary(b) {
		i.binary(c, raw, old)
	} else {
		i.text(c, b, known)
		i.generated(c, b)
	}
	i.lfs(c, raw, old)
	i.gitFiles(c, raw, old)
	i.manifests(c, b, before)
	return nil
}

// gitFiles reads the files that git itself reads in a tree, as bytes: git knows no UTF-16.
func (i *inspection) gitFiles(c sallyport.Change, now, before []byte) {
	switch {
	case dotModules.ends(c.Path):
		i.submodules(c, now, before)
	case dotAttributes.ends(c.Path):
		i.attributeFile(c, now, before)
	case dotLFS.ends(c.Path):
		i.lfsConfig(c, now, before)
	}
}

// asUTF8 turns UTF-16 with a byte order mark into UTF-8, so that it cannot hide what is looked for.
func asUTF8(b []byte) []byte {
	var at func(i int) uint16
	switch {
	case bytes.HasPrefix(b, []byte{0xFF, 0xFE}):
		at = func(i int) uint16 { return uint16(b[i]) | uint16(b[i+1])<<8 }
	case bytes.HasPrefix(b, []byte{0xFE, 0xFF}):
		at = func(i int) uint16 { return uint16(b[i+1]) | uint16(b[i])<<8 }
	default:
		return b
	}
	units := make([]uint16, 0, len(b)/2)
	for i := 2; i+1 < len(b); i += 2 {
		units = append(units, at(i))
	}
	return []byte(string(utf16.Decode(units)))
}

// lines of a file that the base's version has as well are not this change's doing.
type lines map[uint64]struct{}

var lineSeed = maphash.MakeSeed()

func lineSet(b []byte) lines {
	if len(b) == 0 {
		return nil
	}
	set := lines{}
	for line := range bytes.SplitSeq(b, []byte{'\n'}) {
		set[maphash.Bytes(lineSeed, line)] = struct{}{}
	}
	return set
}

func (l lines) has(line []byte) bool {
	if l == nil {
		return false
	}
	_, ok := l[maphash.Bytes(lineSeed, line)]
	return ok
}

// addedLines calls f for every line that the base's version does not have, numbered from 1, until f says no.
func addedLines(b []byte, known lines, f func(n int, line []byte) bool) {
	n := 0
	for line := range bytes.SplitSeq(b, []byte{'\n'}) {
		n++
		if len(line) > 0 && !known.has(line) && !f(n, line) {
			return
		}
	}
}

func lineWord(n int) string { return fmt.Sprintf("line %d", n) }

func megabytes(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
