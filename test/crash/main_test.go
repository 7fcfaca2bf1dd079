// Package crash_test kills every kind of process of Sallyport at every point of an Attempt's life and judges
// what is left: by the real binaries, a real kernel and a real repository. What single rooms promise is tested
// there; here stands only what holds when some part of the whole is suddenly gone.
package crash_test

import (
	"flag"
	"os"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge/forgetest"
	"sallyport.dev/sallyport/test/world"
)

// Most of a test is waiting for a disk or a lease, so more of them than processors go at once.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f != nil && f.Value.String() == f.DefValue {
		_ = flag.Set("test.parallel", "4")
	}
	code := m.Run()
	forgetest.EndShared()
	os.Exit(code)
}

// right is a test that fails on the base and passes on the change of agent.
const right = "grep -q right value\n"

func newWorld(t *testing.T) *world.World {
	t.Helper()
	return newWorldWith(t, right)
}

// newWorldWith has one check, "sh test.sh".
func newWorldWith(t *testing.T, test string) *world.World {
	t.Helper()
	return coldWorld(t, test).Warm()
}

// coldWorld has yet to try what the limits are worth.
func coldWorld(t *testing.T, test string) *world.World {
	t.Helper()
	w := world.New(t)
	w.Env = append(w.Env, "PATH=/usr/local/bin:/usr/bin:/bin")
	w.File("value", "wrong\n")
	w.File("test.sh", test)
	w.File("sallyport.yaml", "version: 1\nchecks:\n  - {name: test, run: sh test.sh, timeout: 1m}\npublish: {to: branch, approve: on-finding}\n")
	w.Commit("base")
	return w
}

// start runs a script detached, as "job".
func start(w *world.World, script string) sallyport.AttemptID {
	w.T.Helper()
	return w.Start("job", script)
}
