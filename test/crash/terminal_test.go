package crash_test

import (
	"syscall"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/test/world"
)

// TestTerminalIsLost: a run with -it outlives its terminal, and attach gives it another.
func TestTerminalIsLost(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"hung up", "killed"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			one := w.Terminal("", "run", "-it", "--name", "job", "-m", "make it right", "--", "sh", "-c",
				`echo hello from the agent; echo screen one; read x; echo "got <$x>"; echo ran >> ran; echo right > value`)
			one.Shows("screen one")
			id := w.Created()
			driver := w.Driver()
			if how == "killed" {
				one.Signal(syscall.SIGKILL)
			}
			one.HangUp()
			if world.Dead(driver) || w.Show(id).State != sallyport.AttemptRunning {
				t.Fatalf("the run went with its terminal\n%s", w.Story())
			}
			two := w.Terminal("", "attach", string(id))
			two.Shows("screen one")
			two.Keys("good day\r")
			two.Shows("got <good day>")
			two.Exits(0)
			awaitEnd(w, id)
			if n := w.Count(lifecycle.LeaseAcquired, "", id); n != 1 {
				t.Errorf("%d drivers\n%s", n, w.Story())
			}
			accepted(w, id)
		})
	}
}

// TestDriverOfATerminalIsKilled: the terminal's session goes over to the next driver.
func TestDriverOfATerminalIsKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.Terminal("", "run", "-it", "--name", "job", "-m", "make it right", "--", "sh", "-c",
		`echo hello from the agent; echo screen one; read x; echo "got <$x>"; echo ran >> ran; echo right > value`)
	one.Shows("screen one")
	id := w.Created()
	one.Signal(syscall.SIGKILL)
	one.HangUp()
	w.Kill(w.Driver())
	two := w.Terminal("", "attach", string(id))
	two.Shows("screen one")
	two.Keys("good day\r")
	two.Shows("got <good day>")
	two.Exits(0)
	awaitEnd(w, id)
	accepted(w, id)
}
