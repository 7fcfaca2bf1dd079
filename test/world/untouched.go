package world

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Fingerprint is every path of the person's repository, .git included: kind, mode, owner-visible times where
// they matter, and content.
func (w *World) Fingerprint() map[string]string {
	w.T.Helper()
	out := map[string]string{}
	w.Must(filepath.WalkDir(w.Repo, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(w.Repo, path)
		fi, err := d.Info()
		if err != nil {
			return err
		}
		s := fi.Mode().String()
		switch {
		case fi.Mode().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			s += fmt.Sprintf(" %d %x", fi.ModTime().UnixNano(), sha256.Sum256(b))
		case fi.Mode()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(path)
			s += " -> " + to
		}
		out[name] = s
		return nil
	}))
	return out
}

// Untouched fails the test unless all that came to the repository since before is what publishing brings:
// the branches given, their logs, and objects reachable from them.
func (w *World) Untouched(before map[string]string, branches ...string) {
	w.T.Helper()
	after := w.Fingerprint()
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, ok := after[name]; !ok {
			w.T.Errorf("%s vanished from the repository", name)
		} else if after[name] != before[name] && !ours(name, branches) {
			w.T.Errorf("%s was touched:\n  %s\n  %s", name, before[name], after[name])
		}
	}
	var objects []string
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if _, ok := before[name]; ok || ours(name, branches) {
			continue
		}
		if rest, ok := strings.CutPrefix(name, ".git/objects/"); ok {
			if strings.HasPrefix(after[name], "d") {
				continue
			}
			objects = append(objects, strings.ReplaceAll(rest, "/", ""))
			continue
		}
		w.T.Errorf("%s appeared in the repository", name)
	}
	w.onlyPublished(objects, branches)
}

func ours(name string, branches []string) bool {
	for _, b := range branches {
		for _, ref := range []string{".git/refs/heads/" + b, ".git/logs/refs/heads/" + b} {
			if name == ref || strings.HasPrefix(ref, name+"/") {
				return true
			}
		}
	}
	return false
}

// onlyPublished fails the test if a new object, loose or in a pack, is not reachable from the branches.
func (w *World) onlyPublished(objects, branches []string) {
	w.T.Helper()
	reachable := map[string]bool{}
	if len(branches) > 0 {
		args := append([]string{"rev-list", "--objects", "--no-object-names"}, branches...)
		for _, o := range strings.Fields(w.Git(args...)) {
			reachable[o] = true
		}
	}
	for i := 0; i < len(objects); i++ {
		o := objects[i]
		if name, ok := strings.CutPrefix(o, "pack"); ok {
			if strings.HasSuffix(name, ".idx") {
				objects = append(objects, w.packed(name)...)
			}
			continue
		}
		if !reachable[o] {
			w.T.Errorf("object %s (%s) in the person's repository is reachable from no published branch", o, w.Git("cat-file", "-t", o))
		}
	}
}

// packed are the objects of one pack of the person's.
func (w *World) packed(idx string) []string {
	w.T.Helper()
	r := w.CommandWith("", nil, w.Read(filepath.Join(".git", "objects", "pack", idx)), "git", "show-index").Want(0)
	var out []string
	for line := range strings.Lines(r.Out) {
		if f := strings.Fields(line); len(f) > 1 {
			out = append(out, f[1])
		}
	}
	return out
}

// Holding lists the files below a folder that hold one of the texts.
func (w *World) Holding(dir string, texts ...string) (found []string) {
	w.T.Helper()
	w.Must(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(texts, func(text string) bool { return bytes.Contains(b, []byte(text)) }) {
			found = append(found, path)
		}
		return nil
	}))
	return found
}
