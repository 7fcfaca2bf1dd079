package attack

import (
	"os"
	"path/filepath"

	"sallyport.dev/sallyport/internal/testkit"
	"sallyport.dev/sallyport/test/world"
)

// stranger is a third user, besides root and the ordinary one.
const stranger = 1001

// target prepares a world to be attacked: the program x does it (cmd/sallyport-hostile), and the repository's check wants of
// its program prog that it prints "base". Its PATH is short and every user's.
func target(w *world.World) *world.World {
	w.T.Helper()
	w.Env = append(w.Env, "PATH=/usr/local/bin:/usr/bin:/bin")
	hostile, err := os.ReadFile(filepath.Join(testkit.Programs(w.T), "sallyport-hostile"))
	w.Must(err)
	w.File("x", string(hostile))
	w.File("prog", "#!/bin/sh\necho base\n")
	w.File("t.sh", "#!/bin/sh\nout=$(./prog)\n[ \"$out\" = base ] || { echo wrong; exit 1; }\necho fine\n")
	base(w, "sh t.sh", "time: 40s")
	return w
}

// base commits all there is, with a policy of one check.
func base(w *world.World, check, limits string) {
	w.T.Helper()
	w.File("sallyport.yaml", "version: 1\nlimits: {"+limits+"}\nchecks:\n  - {name: test, run: "+check+", timeout: 10s}\n")
	w.Commit("base")
}

// attack runs a shell script as the agent.
func attack(w *world.World, script string) world.Result {
	w.T.Helper()
	return w.Run("attack", script)
}
