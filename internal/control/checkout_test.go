package control_test

import (
	"os"
	"path/filepath"
	"testing"

	"sallyport.dev/sallyport"
)

const verdict = "grep -q right lib/value\n"

// shelf has a check that tells the base (failed) from a change that makes it right (passed).
func shelf(t *testing.T) *world {
	w := newWorld(t, map[string]string{"sallyport.yaml": policy, "lib/value": "wrong\n", "lib/other": "\n", "test.sh": verdict})
	if err := os.Symlink("lib/value", filepath.Join(w.repo, "link")); err != nil {
		t.Fatal(err)
	}
	w.git("add", "-A")
	w.git("commit", "-qm", "link")
	return w
}

// damageFiles are the ways in which a cached checkout of shelf can become another one.
var damageFiles = map[string]func(dir string) error{
	"content, same size and time": func(dir string) error {
		p := filepath.Join(dir, "test.sh")
		fi, err := os.Stat(p)
		if err != nil {
			return err
		}
		opposite := []byte("! grep -q rig lib/value\n") // of the same size
		if err := os.WriteFile(p, opposite, 0o644); err != nil {
			return err
		}
		return os.Chtimes(p, fi.ModTime(), fi.ModTime())
	},
	"mode":           func(dir string) error { return os.Chmod(filepath.Join(dir, "test.sh"), 0o755) },
	"extra file":     func(dir string) error { return os.WriteFile(filepath.Join(dir, "lib/extra"), nil, 0o644) },
	"missing file":   func(dir string) error { return os.Remove(filepath.Join(dir, "test.sh")) },
	"missing folder": func(dir string) error { return os.RemoveAll(filepath.Join(dir, "lib")) },
	"target of link": func(dir string) error {
		if err := os.Remove(filepath.Join(dir, "link")); err != nil {
			return err
		}
		return os.Symlink("lib/other", filepath.Join(dir, "link"))
	},
	"all of it": os.RemoveAll,
}

// cached are the folders of files in the cache of the world's only repository.
func (w *world) cached() []string {
	w.t.Helper()
	dirs, err := filepath.Glob(filepath.Join(filepath.Dir(w.repo), "state/repos/*/*/cache/files-*/data"))
	if err != nil {
		w.t.Fatal(err)
	}
	return dirs
}

// damage does it to the one cached checkout there is.
func (w *world) damage(do func(dir string) error) {
	w.t.Helper()
	dirs := w.cached()
	if len(dirs) != 1 {
		w.t.Fatalf("%d cached checkouts, want 1: %q", len(dirs), dirs)
	}
	if err := do(dirs[0]); err != nil {
		w.t.Fatal(err)
	}
}

// An agent's result counts only if what it started from was sound: the sandbox is started beside the comparison.
func TestNothingIsTakenFromAnAgentOnADamagedCheckout(t *testing.T) {
	w := shelf(t)
	work := sallyport.WorkOrder{Task: "t", Command: []string{"sh", "-c", "echo right > lib/value"}}
	if at := w.run(work); at.Report.State != sallyport.AttemptAccepted {
		t.Fatalf("%s: %+v", at.Report.State, at.Report.Reason)
	}
	for name, do := range damageFiles {
		w.damage(do)
		at := w.run(work)
		r := at.Report
		if r.State != sallyport.AttemptFailed || r.Reason.Code != "checkout-damaged" || r.Reason.Hint == "" {
			t.Errorf("%s: %s: %+v", name, r.State, r.Reason)
		}
		if r.Bundle != "" || at.Imported != nil || len(r.Checks) > 0 || at.Published {
			t.Errorf("%s: something was taken: %+v", name, r)
		}
		at = w.run(work)
		if at.Report.State != sallyport.AttemptAccepted {
			t.Errorf("%s: the next one: %s: %+v", name, at.Report.State, at.Report.Reason)
		}
	}
	if _, err := w.c.Fsck(t.Context()); err != nil {
		t.Error(err)
	}
}

// A check that ran on a damaged checkout has told nothing: it is run again on another, the base's as well, whose
// answer is remembered.
func TestNoCheckIsBelievedOnADamagedCheckout(t *testing.T) {
	w := shelf(t)
	at := w.run(sallyport.WorkOrder{Task: "t", Command: []string{"sh", "-c", "echo right > lib/value"}})
	if at.Report.State != sallyport.AttemptAccepted {
		t.Fatalf("%s: %+v", at.Report.State, at.Report.Reason)
	}
	remembered := filepath.Join(filepath.Dir(w.repo), "state/base-checks")
	for name, do := range damageFiles {
		for _, base := range []bool{true, false} {
			w.damage(do)
			if base {
				if err := os.RemoveAll(remembered); err != nil {
					t.Fatal(err)
				}
				if err := os.Mkdir(remembered, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			got, err := w.c.Check(t.Context(), string(at.Report.Attempt), "test")
			if err != nil || len(got) != 1 || got[0].Status != sallyport.CheckPassed || got[0].BaseStatus != sallyport.CheckFailed {
				t.Errorf("%s, base %v: %+v, %v", name, base, got, err)
			}
			if again, err := w.c.Check(t.Context(), string(at.Report.Attempt), "test"); err != nil || len(again) != 1 || again[0].BaseStatus != sallyport.CheckFailed {
				t.Errorf("%s, base %v: what is remembered: %+v, %v", name, base, again, err)
			}
		}
	}
	if _, err := w.c.Fsck(t.Context()); err != nil {
		t.Error(err)
	}
}
