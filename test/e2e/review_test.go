package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport/test/world"
)

// unseen is a line of code as a terminal would not show it: the rest of it is hidden in a title, reversed, and
// beside a link and the clipboard.
const unseen = `printf 'x = "\033]0;"; evil() # \007\342\200\256gpj.exe \033]8;;http://x\033\\link\033]52;c;QUFB\007\r\n' > hidden.txt`

// TestReview: what a reviewer is shown of a rejected and of an accepted Attempt, on the screen and as a file.
func TestReview(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.File("a", "base\n")
	w.File("t_test.sh", "#!/bin/sh\ngrep -q 'good|base' -E a\n")
	w.File("sallyport.yaml", world.Policy("sh t_test.sh"))
	w.Commit("a small repository")
	bad := w.Run("bad", "echo bad > a; echo '# looser' >> t_test.sh; mkdir -p sub/folder; echo new > sub/folder/x; "+unseen).Want(20).Report()
	good := w.Run("good", "echo good > a").Want(0).Report()
	before := w.Fingerprint()

	page := w.Sallyport("show", string(bad.Attempt)).Want(0).Out
	ordered(t, page, "REJECTED", "Asked\n  Task of bad\n", "on main ", "tests and what checks run by, to look at first\n    modified t_test.sh (executable)\n", "./\n", "hidden.txt", "sub/folder/\n    added    x\n", "test: passed on the base → failed", "Findings\n", "What held the agent\n", "filesystem  held", "Not checked\n", "Verify it yourself\n", "sallyport verify", "Attempt\n")
	page = w.Sallyport("show", string(good.Attempt)).Want(0).Out
	ordered(t, page, "ACCEPTED", "no control", "next      git merge sallyport/good", "no control: nothing shows that it can fail", "Not checked\n", `check "test" has no control`, "--commit "+string(good.Commit))
	if got := w.Sallyport("report", string(good.Attempt)).Want(0).Out; got != page {
		t.Errorf("report says\n%s\nand show\n%s", got, page)
	}

	const spelled = `+x = "<ESC>]0;"; evil() # <BEL><U+202E>gpj.exe <ESC>]8;;http://x<ESC>\link<ESC>]52;c;QUFB<BEL><CR>`
	w.Sallyport("diff", string(bad.Attempt)).Want(0).Says("\n"+spelled+"\n", "\n-base\n+bad\n")
	w.Sallyport("diff", "--words", string(bad.Attempt), "--", "t_test.sh").Want(0).Says("+# looser")
	w.Sallyport("diff", string(bad.Attempt), string(good.Attempt), "--", "a").Want(0).Says("\n-bad\n+good\n").Silent("base")
	w.Sallyport("diff", "--name-only", string(good.Attempt), string(bad.Attempt)).Want(0).Says("hidden.txt\n")

	name := w.Path("sallyport-" + strings.TrimPrefix(string(bad.Attempt), "att_")[:12] + ".html")
	w.Sallyport("report", string(bad.Attempt), "--html").Want(0).Says("wrote " + filepath.Base(name))
	if fi, err := os.Stat(name); err != nil || fi.Mode() != 0o600 {
		t.Errorf("%v, %v", fi, err)
	}
	html := w.Read(name)
	ordered(t, html, "<title>REJECTED: bad</title>", "Task of bad", "t_test.sh", "passed on the base", "failed", "sallyport verify", "&lt;ESC&gt;]0;", "</html>")
	if strings.Contains(html, "<script") || strings.Contains(html, "\x1b") || strings.Contains(html, "\u202e") {
		t.Error("the file holds what the agent wrote as it was")
	}
	w.Sallyport("report", string(bad.Attempt), "--html").Want(2).Says("--force")
	w.Sallyport("report", string(bad.Attempt), "--html", "--force").Want(0)
	w.Must(os.Remove(name))
	w.Untouched(before)
}

// TestReviewOfALiveAttempt: there is a page while the agent works, and it claims nothing.
func TestReviewOfALiveAttempt(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Small()
	id := w.Start("live", "echo good > a; sleep 60")
	page := w.Sallyport("show", string(id)).Want(0).Says("Task of live", "nothing was collected yet", "test: not run yet", "nothing is signed yet", "sallyport attach").Out
	if strings.Contains(page, "ACCEPTED") || strings.Contains(page, "Findings\n  none") {
		t.Errorf("%s", page)
	}
	w.Sallyport("report", string(id), "--html", "-").Want(0).Says("nothing was collected yet", "</html>")
	w.Sallyport("diff", string(id)).Want(2).Says("no result was collected")
	w.Sallyport("cancel", string(id)).Want(0)
}

// TestPager is a person who reads a long diff in the real less, and one who leaves it with most still to come.
func TestPager(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("less"); err != nil {
		t.Skip("missing capability: less is not installed")
	}
	w := world.New(t)
	w.Small()
	id := string(w.Run("long", "echo good > a; seq 200000 > numbers; "+unseen, "--approve", "never").Report().Attempt)
	s := w.Terminal("", "diff", id)
	s.Shows("diff --git a/a b/a").Keys("G")
	s.Shows("+200000").Keys("\x03")
	err := errors.New("not tried")
	for try := 0; try < 20 && err != nil; try++ { // what is typed right after an interrupt is flushed with it
		s.Keys("g/evil\r")
		err = s.Look("<ESC>]0;", 2*time.Second)
	}
	w.Must(err)
	s.Keys("!id\r") // less must run nothing
	s.Keys("q")
	s.Exits(0)
	if out := s.Bytes(); !strings.Contains(out, "\x1b[32m+good") || strings.Contains(out, "\x1b]") || strings.Contains(out, "uid=") {
		t.Errorf("%.2000q", out)
	}
	s = w.Terminal("", "diff", id)
	s.Shows("diff --git a/a b/a").Keys("q")
	s.Exits(0)
	s = w.Terminal("", "diff", "--no-pager", "--name-only", id)
	s.Shows("numbers")
	s.Exits(0)
}

// ordered fails unless every text comes after the one before it.
func ordered(t *testing.T, got string, texts ...string) {
	t.Helper()
	at := 0
	for _, want := range texts {
		i := strings.Index(got[at:], want)
		if i < 0 {
			t.Fatalf("%q is missing behind %q in\n%s", want, got[max(0, at-100):at], got)
		}
		at += i + len(want)
	}
}
