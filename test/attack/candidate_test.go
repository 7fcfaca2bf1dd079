package attack

import (
	"strings"
	"testing"

	"sallyport.dev/sallyport/test/world"
)

// TestCheckStaysRed: a candidate that is wrong, and whose code in the check does what it can to be called
// right, also by tracing the very test that started it.
func TestCheckStaysRed(t *testing.T) {
	t.Parallel()
	for name, prog := range map[string]string{
		"kills the test":              "kill -9 $PPID; echo wrong",
		"kills everything":            "kill -9 -1; echo wrong",
		"ends the group":              "kill -9 0; echo wrong",
		"attacks the first process":   "./x first >/dev/null 2>&1; ./x parent 1 >/dev/null 2>&1; echo wrong",
		"traces the test":             "./x parent $PPID; echo wrong",
		"stops the first process":     "kill -STOP 1; kill -TERM 1; echo wrong",
		"leaves by two forks":         "(setsid sh -c 'sleep 0.3; exit 0' &) ; echo wrong; exit 0",
		"stays in the background":     "(setsid sh -c 'while :; do echo base; done' >/dev/null 2>&1 &); echo wrong",
		"floods":                      "yes wrong | head -c 30000000",
		"closes its output":           "exec >&- 2>&-; exit 0",
		"writes to others' outputs":   "for p in /proc/[0-9]*; do for f in $p/fd/*; do (echo base > $f) 2>/dev/null; done; done; echo wrong",
		"writes to others' memory":    "for p in /proc/[0-9]*; do (printf x > $p/mem) 2>/dev/null; done; echo wrong",
		"takes the place of a shell":  "cp /bin/true /tmp/sh; cp /bin/true $HOME/sh; cp /bin/true /usr/bin/sh 2>/dev/null; echo wrong",
		"uses up the memory":          "head -c 3000000000 /dev/zero | tail -c 2000000000 >/dev/null; echo wrong",
		"never ends":                  "sleep 1000",
		"stops the test, never ends":  "kill -STOP $PPID; sleep 1000",
		"limits the first process":    "prlimit --pid 1 --nofile=0:0 --as=1:1 --cpu=1:1 2>/dev/null; echo wrong",
		"attacks the terminal":        "exec < /dev/tty; echo wrong",
		"makes the workspace vanish":  "rm -rf ./* .[a-z]* 2>/dev/null; echo wrong",
		"exits as if it were the end": "exit 0",
	} {
		t.Run(name, func(t *testing.T) {
			world.Each(t, func(t *testing.T, w *world.World) {
				target(w)
				base(w, "sh t.sh", "time: 40s, memory: 1GiB")
				r := attack(w, "cat > prog <<'P'\n#!/bin/sh\n"+prog+"\nP\n")
				if r.Code != 20 && r.Code != 10 {
					t.Fatalf("exit %d\n%s\n%s", r.Code, r.Out, r.Err)
				}
				rep := r.Report()
				if len(rep.Checks) != 1 || rep.Checks[0].Status == "passed" || rep.Checks[0].BaseStatus != "passed" {
					t.Errorf("%+v", rep.Checks)
				}
				if out := w.Git("branch", "--list", "sallyport/*"); out != "" {
					t.Errorf("published: %s", out)
				}
			})
		})
	}
}

// leave plants whatever might be taken up by a later sandbox, wherever the agent can write.
const leave = `for d in $HOME /tmp /var/tmp /dev/shm $HOME/.cache $HOME/.config $HOME/.local/bin $HOME/bin $HOME/.sallyport/bin $HOME/.sallyport; do
	mkdir -p $d && for f in sh bash env sitecustomize.py usercustomize.py .bashrc .profile .bash_env .npmrc .gitconfig go/env .pythonrc left; do mkdir -p $d/$(dirname $f); printf '#!/bin/sh\nexit 0\n' > $d/$f; chmod 755 $d/$f; done; done 2>/dev/null
git config core.fsmonitor /tmp/sh; git config core.hooksPath /tmp; git config filter.x.smudge /tmp/sh; mkdir -p .git/info; echo '* filter=x' > .git/info/attributes; echo left > .git/left
cp /bin/true .git/hooks/post-checkout 2>/dev/null; git config --global core.pager /tmp/sh
(setsid sh -c 'while :; do echo left > /tmp/left; sleep 0.1; done' >/dev/null 2>&1 &)
echo new > new
`

// TestNothingIsLeftForTheCheck: the check fails if it finds anything that the agent left outside of the tree.
func TestNothingIsLeftForTheCheck(t *testing.T) {
	t.Parallel()
	world.Each(t, func(t *testing.T, w *world.World) {
		target(w)
		w.File("look.sh", "#!/bin/sh\nfind / -xdev \\( -name left -o -name sitecustomize.py -o -name .bash_env \\) -not -path '/usr/*' -not -path '/proc/*' 2>/dev/null\nfor d in $HOME /tmp /dev/shm; do find $d -path $PWD -prune -o -type f -newer look.sh -print; done\n! grep -s filter=x .git/info/attributes || echo attributes; git config --list | grep -e fsmonitor -e pager -e filter\necho end\n")
		base(w, "sh look.sh", "time: 40s")
		r := attack(w, leave).Want(0)
		log := w.Log(r.Report().Attempt, "check-test-validate")
		if strings.TrimSpace(log) != "end" {
			t.Errorf("the check found:\n%s", log)
		}
	})
}

// TestProgramsAreNotTheCandidates: folders of the repository on the person's PATH.
func TestProgramsAreNotTheCandidates(t *testing.T) {
	t.Parallel()
	world.Each(t, func(t *testing.T, w *world.World) {
		target(w)
		w.Env = append(w.Env, "PATH=.:"+w.Repo+"/bin:"+w.Repo+"/node_modules/.bin:/usr/local/bin:/usr/bin:/bin", "ENV="+w.Repo+"/evil", "BASH_ENV="+w.Repo+"/evil", "PERL5LIB="+w.Repo, "PYTHONPATH="+w.Repo)
		r := attack(w, `mkdir -p bin node_modules/.bin; for d in bin node_modules/.bin .; do for n in sh env grep; do printf '#!/bin/sh\nexit 0\n' > $d/$n; chmod +x $d/$n; done; done; echo 'exit 0' > evil; printf '#!/bin/sh\necho wrong\n' > prog`)
		if r.Code != 20 && r.Code != 10 {
			t.Errorf("exit %d\n%s", r.Code, r.Err)
		}
	})
}
