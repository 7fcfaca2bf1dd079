package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sallyport.dev/sallyport/test/world"
)

// TestCopies: files that are listed are the agent's to read and to spoil; no check sees them, no change has them,
// and what they hold is masked where it is repeated.
func TestCopies(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	const value = "q8Zr-2vLw-77xK-copied"
	w.File(".gitignore", ".env\n")
	w.File("a", "base\n")
	w.File("sallyport.yaml", world.Policy("test ! -e .env && test ! -e conf/local.ini && grep -qE 'good|base' a"))
	w.Commit("a repository")
	w.File(".env", "API_TOKEN="+value+"\nMODE=test\n")
	w.File("conf/local.ini", "[x]\npassword = "+value+"-2\n")
	before := w.Fingerprint()
	script := `set -e
		grep -q ` + value[:4] + ` .env; grep -q ` + value[:4] + ` conf/local.ini; cat .env conf/local.ini
		echo EXTRA=1 >> .env; echo x > conf/local.ini; git add -f .env conf/local.ini; git commit -qm 'with secrets'; echo good > a`
	r := w.Run("copies", script, "--copy", ".env", "--copy", "conf/local.ini").Want(0).Silent(value)
	rep := r.Report()
	took(w, rep, map[string]string{"a": "good\n"})
	noticed(w, rep, ".env", "conf/local.ini")
	noticed(w, rep, "2 copied-in")
	if log := w.Log(rep.Attempt, "agent"); strings.Contains(log, value) || !strings.Contains(log, "MODE=test") {
		t.Errorf("the agent's log: %q", log)
	}
	w.Untouched(before, rep.Branch)
	for _, path := range w.Holding(w.State, value) {
		if !strings.HasPrefix(path, filepath.Join(w.State, "quarantine")) {
			t.Errorf("%s holds a copied value", path)
		}
	}
	without := w.Run("without", `[ ! -e .env ] && [ ! -e conf ] && echo good > a`).Want(0).Report()
	took(w, without, map[string]string{"a": "good\n"})
	removed := w.Run("removed", `rm -r .env conf; mkdir .env; echo x > .env/y; echo good > a`, "--copy", ".env", "--copy", "conf/local.ini").Want(0).Report()
	took(w, removed, map[string]string{"a": "good\n"})
}

// TestCopiesFromPolicy: the repository may ask for files, and a person's grant gives them; what is no file within
// the work tree is refused.
func TestCopiesFromPolicy(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.File(".gitignore", ".env\nout\n")
	w.File("a", "base\n")
	w.File("sallyport.yaml", world.Policy("test ! -e .env && grep -qE 'good|base' a", "copy: [.env]"))
	w.Commit("asks for a copy")
	w.File(".env", "MODE=test\n")
	refused(w, w.Run("asks", "true"), 40, ".env", "sallyport trust")
	w.Sallyport("trust", "--yes").Want(0).Says(".env")
	took(w, w.Run("granted", "grep -q MODE .env && echo good > a").Want(0).Report(), map[string]string{"a": "good\n"})
	w.Must(os.Remove(w.Path(".env")))
	absent := w.Run("absent", "[ ! -e .env ] && echo good > a").Want(0).Report()
	noticed(w, absent, ".env", "no such file")
	outside := w.File(filepath.Join(w.Dir, "outside"), "not-for-agents\n")
	w.Must(os.Symlink(outside, w.Path(".env")))
	if r := w.Run("link", "cat .env; echo good > a"); r.Code == 0 {
		t.Errorf("a link out of the work tree was followed: %s", r.Out)
	}
	for _, path := range []string{"../outside", outside, ".git/config"} {
		if r := w.Run("bad", "true", "--copy", path); r.Code != 2 && r.Code != 40 {
			t.Errorf("--copy %s: exit %d", path, r.Code)
		}
	}
}
