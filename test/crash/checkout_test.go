package crash_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/test/world"
)

// A driver that is killed takes with it what it knew of the checkout below its agent. The next one compares it
// anew before it takes anything of that agent, however far the one before had come.
func TestTheNextDriverComparesTheCheckoutAnew(t *testing.T) {
	for _, c := range []struct {
		last   lifecycle.Type
		damage func(files string) error
	}{
		{lifecycle.AllocationIntended, func(files string) error { return os.Chmod(filepath.Join(files, "value"), 0o755) }},
		{lifecycle.AllocationBound, func(files string) error { return os.Remove(filepath.Join(files, "test.sh")) }},
		{lifecycle.AllocationReady, func(files string) error { return os.WriteFile(filepath.Join(files, "extra"), nil, 0o644) }},
		{lifecycle.AllocationRunning, sameSizeAndTime},
	} {
		t.Run(string(c.last), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			run := w.Verb("run", "-d", "--name", "job", "-m", "make it right", "--", "sh", "-c", "sleep 1; "+agent)
			w.Must(run.Start())
			pid := 0
			w.Await("the driver", func() bool { pid = w.Driver(); return pid != 0 })
			for w.Count(c.last, "") == 0 && !world.Dead(pid) {
				time.Sleep(200 * time.Microsecond)
			}
			w.Kill(pid)
			w.Must(run.Wait())
			found, err := filepath.Glob(filepath.Join(w.State, "repos/*/*/cache/files-*/data"))
			if err != nil || len(found) != 1 {
				t.Fatalf("cached checkouts: %q, %v", found, err)
			}
			w.Must(c.damage(found[0]))
			id := w.Created()
			rep, _ := w.Wait(id)
			if rep.State != sallyport.AttemptFailed || rep.Reason.Code != "checkout-damaged" {
				t.Errorf("%s: %+v\n%s", rep.State, rep.Reason, w.Story())
			}
			if n := w.Count(lifecycle.AttemptBundle, "", id) + w.Count(lifecycle.AttemptAgent, "", id) + w.Count(lifecycle.AttemptCheck, "", id); n != 0 {
				t.Errorf("%d results were taken\n%s", n, w.Story())
			}
			again := w.Start("job", agent)
			accepted(w, again)
		})
	}
}

func sameSizeAndTime(files string) error {
	p := filepath.Join(files, "test.sh")
	fi, err := os.Stat(p)
	if err != nil {
		return err
	}
	if err := os.WriteFile(p, []byte("! grep -q rig value\n"), 0o644); err != nil { // the opposite of right
		return err
	}
	return os.Chtimes(p, fi.ModTime(), fi.ModTime())
}
