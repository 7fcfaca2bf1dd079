package crash_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/test/world"
)

// agent is the usual agent: it says something, marks that it ran and makes the change.
const agent = `echo hello from the agent; echo ran >> ran; echo right > value`

// awaitEnd waits, without any Sallyport process of ours helping, until nothing is left to do for id.
func awaitEnd(w *world.World, id sallyport.AttemptID) {
	w.T.Helper()
	w.Await("the end of "+string(id), func() bool {
		ended, publishing := false, false
		for _, e := range w.Events() {
			if e.Attempt != id {
				continue
			}
			switch e.Type {
			case lifecycle.AttemptDecided, lifecycle.AttemptFailed, lifecycle.AttemptCancelled:
				ended = true
			case lifecycle.PublicationIntended:
				publishing = true
			case lifecycle.PublicationDone, lifecycle.PublicationRefused:
				publishing = false
			}
		}
		return ended && !publishing && w.Driver() == 0
	})
}

// accepted judges an Attempt of agent that was hurt and has to be none the worse.
func accepted(w *world.World, id sallyport.AttemptID) {
	w.T.Helper()
	acceptedSaying(w, id, 1)
}

// acceptedSaying is accepted, where what the agent said is in its log so many times.
func acceptedSaying(w *world.World, id sallyport.AttemptID, times int) {
	w.T.Helper()
	rep, code := w.Wait(id)
	if code != 0 || rep.State != sallyport.AttemptAccepted {
		w.T.Errorf("%s: exit %d, %s: %+v\n%s", id, code, rep.State, rep.Reason, w.Story())
		return
	}
	if refs := w.Git("for-each-ref", "--format=%(refname)", "refs/heads/sallyport/"); refs != "refs/heads/sallyport/"+rep.Name {
		w.T.Errorf("branches %q, want exactly one", refs)
		return
	}
	branch := "refs/heads/sallyport/" + rep.Name
	if n := w.Git("rev-list", "--count", "main.."+branch); n != "1" {
		w.T.Errorf("%s commits on the branch, want 1", n)
	}
	if got := w.Git("show", branch+":ran"); got != "ran" {
		w.T.Errorf("the agent ran other than once: %q", got)
	}
	if got := w.Git("show", branch+":value"); got != "right" {
		w.T.Errorf("the branch has %q", got)
	}
	if log := w.Sallyport("logs", string(id)).Want(0); strings.Count(log.Out+log.Err, "hello from the agent") != times {
		w.T.Errorf("the log: %q", log.Out+log.Err)
	}
	if n := w.Count(lifecycle.AllocationIntended, `"execute"`, id); n != 1 {
		w.T.Errorf("%d sandboxes for the agent, want 1\n%s", n, w.Story())
	}
	if n := w.Count(lifecycle.PublicationDone, "", id); n != 1 {
		w.T.Errorf("%d publications\n%s", n, w.Story())
	}
	if len(rep.Checks) != 1 || rep.Checks[0].Status != sallyport.CheckPassed || rep.Checks[0].BaseStatus != sallyport.CheckFailed {
		w.T.Errorf("checks %+v", rep.Checks)
	}
	tidy(w)
}

// tidy judges what is left in the world once everything has ended: nothing.
func tidy(w *world.World) {
	w.T.Helper()
	w.Await("the last process's end", func() bool { return len(w.Processes()) == 0 })
	if r := w.Sallyport("fsck"); r.Code != 0 || strings.Contains(r.Out, "FAULT") || strings.Contains(r.Out, "to reconcile") {
		w.T.Errorf("fsck: exit %d\n%s%s\n%s", r.Code, r.Out, r.Err, w.Story())
	}
	w.Clean()
	swept(w)
	if s := w.Git("status", "--porcelain"); s != "" {
		w.T.Errorf("the user's checkout was touched: %s", s)
	}
}

// swept: a collection of garbage that is old enough leaves no half-written file anywhere.
func swept(w *world.World) {
	w.T.Helper()
	old := time.Now().Add(-30 * 24 * time.Hour)
	for _, d := range []string{"quarantine", "attempts", "manifests", "base-checks", "checks", "setup", "repos", "local"} {
		_ = filepath.WalkDir(filepath.Join(w.State, d), func(p string, _ fs.DirEntry, err error) error {
			if err == nil && halfWritten(p) {
				_ = os.Chtimes(p, old, old)
			}
			return nil
		})
	}
	top, err := os.ReadDir(w.State)
	w.Must(err)
	for _, e := range top {
		if halfWritten(filepath.Join(w.State, e.Name())) {
			_ = os.Chtimes(filepath.Join(w.State, e.Name()), old, old)
		}
	}
	publisher := filepath.Join(w.Home, ".config", "sallyport", "publisher")
	_ = filepath.WalkDir(publisher, func(p string, _ fs.DirEntry, err error) error {
		if err == nil && halfWritten(p) {
			_ = os.Chtimes(p, old, old)
		}
		return nil
	})
	if _, err := os.Lstat(publisher); err == nil {
		w.Command("", filepath.Join(filepath.Dir(w.Program()), "sallyport-publisher"), "reconcile").Want(0)
	}
	w.Sallyport("gc").Want(0)
	for _, root := range []string{w.State, filepath.Join(w.Repo, ".git"), publisher} {
		_ = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
			if err == nil && halfWritten(p) {
				w.T.Errorf("half-written and left: %s", p)
			}
			return nil
		})
	}
}

// halfWritten: temporary names of ours (x.tmp, and .x12345 beside x) and of git (x.lock, tmp_pack_…).
func halfWritten(path string) bool {
	name := filepath.Base(path)
	for _, begins := range []string{".new-", ".minter-", "incoming-"} {
		if strings.HasPrefix(name, begins) {
			return true
		}
	}
	switch {
	case strings.HasPrefix(name, "new-"):
		return strings.Contains(path, "/state/repos/") && !strings.Contains(path, "/cache/") // those are swept when the next one is made
	case strings.HasPrefix(name, "tmp_"):
		return !strings.Contains(path, "/state/repos/") // git's own, in a checkout that is evicted as a whole
	case strings.HasSuffix(name, ".tmp"):
		return true
	case strings.HasSuffix(name, ".lock"):
		return !strings.HasPrefix(name, "wo_") && !strings.Contains(path, "/repos/") || strings.HasSuffix(name, "index.lock")
	case strings.HasPrefix(name, ".") && strings.ContainsAny(name, "0123456789") && strings.Contains(name, ".json"):
		return true
	}
	return false
}
