package e2e

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"sallyport.dev/sallyport/test/world"
)

// pointerTo is what Git LFS commits for a file, and the file's name in its store.
func pointerTo(content string) (pointer, oid string) {
	oid = fmt.Sprintf("%x", sha256.Sum256([]byte(content)))
	return fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n", oid, len(content)), oid
}

// stored puts a file into the local store of Git LFS and returns its pointer.
func stored(w *world.World, content string) string {
	w.T.Helper()
	pointer, oid := pointerTo(content)
	w.File(filepath.Join(".git/lfs/objects", oid[:2], oid[2:4], oid), content)
	return pointer
}

// TestLFS: the sandboxes have the pointers; none that is left alone changes, and what would be committed raw where
// Git LFS belongs is found. git-lfs itself need not be there, and is not started.
func TestLFS(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Small()
	w.File(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
	big := strings.Repeat("a picture ", 200)
	w.File("art/one.bin", stored(w, big))
	away, _ := pointerTo("never fetched")
	w.File("art/two.bin", away)
	w.Commit("with large files")
	// As git-lfs leaves it: a filter that would fail if it ran, and the content in the work tree.
	w.Git("config", "filter.lfs.clean", "touch "+filepath.Join(w.Dir, "ran")+"; exit 1")
	w.Git("config", "filter.lfs.smudge", "touch "+filepath.Join(w.Dir, "ran")+"; exit 1")
	w.Git("config", "filter.lfs.required", "true")
	before := w.Fingerprint()
	rep := w.Run("beside", `grep -q git-lfs art/one.bin && grep -q git-lfs art/two.bin && [ -z "$(git status --porcelain)" ] && echo good > a`).Want(0).Report()
	took(w, rep, map[string]string{"a": "good\n"})
	noticed(w, rep, "2 files", "Git LFS", "pointers")
	w.Untouched(before, rep.Branch)
	moved := w.Run("moved", "echo good > a; mv art/one.bin art/three.bin", "--approve", "never").Want(0).Report()
	took(w, moved, map[string]string{"a": "good\n", "art/one.bin": "-", "art/three.bin": w.Read("art/one.bin")})
	unknown, _ := pointerTo("made up")
	for name, k := range map[string]struct {
		script, rule string
	}{
		"replaced": {"echo raw content > art/one.bin", "lfs.raw"},
		"added":    {"head -c 300000 /dev/zero > art/new.bin", "lfs.raw"},
		"dodged":   {"echo > .gitattributes; echo raw > art/one.bin", "lfs.raw"},
		"tracked":  {"echo '*.iso filter=lfs' >> .gitattributes; echo raw > x.iso", "lfs.raw"},
		"unknown":  {"cat > art/one.bin <<'EOF'\n" + unknown + "EOF", "lfs.missing"},
	} {
		rep := w.Run(name, "echo good > a; "+k.script).Want(20).Report()
		if !finds(rep, k.rule) {
			t.Errorf("%s: no finding %s: %+v", name, k.rule, rep.Findings)
		}
	}
	if found, _ := filepath.Glob(filepath.Join(w.Dir, "ran")); len(found) > 0 {
		t.Error("the person's filter was started")
	}
}
