package attack

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sallyport.dev/sallyport/test/world"
)

// TestReach: from inside nothing beyond the sandbox can be seen, written, traced or connected to.
func TestReach(t *testing.T) {
	t.Parallel()
	world.Each(t, func(t *testing.T, w *world.World) {
		target(w)
		beyond := strings.Join([]string{w.State, filepath.Join(w.Dir, "canary"), "/root/.ssh", "/etc/shadow", "/run/docker.sock", "/sys/fs/cgroup", "/proc/1/root/etc"}, " ")
		w.Must(os.WriteFile(filepath.Join(w.Dir, "canary"), nil, 0o666))
		r := attack(w, "for a in first 'reach "+beyond+"' 'marks .' 'fileflags flags'; do ./x $a || echo WON ended early: $a; done; grep -qE '^Cap(Prm|Eff|Bnd|Amb|Inh):.*[1-9a-f]' /proc/self/status && echo WON a capability; rm -f flags; rm -r marked; true").Want(20)
		log := w.Log(r.Report().Attempt, "agent")
		if strings.Count(log, "done\n") != 4 {
			t.Errorf("not every attempt was made:\n%s", log)
		}
		for line := range strings.Lines(log) {
			// One id for all: the limits of a process of one's own uid are anybody's to set. It can end the
			// sandbox with that, and nothing else.
			if strings.HasPrefix(line, "WON") && !(w.UID != 0 && line == "WON limited the first process\n") {
				t.Error(line)
			}
		}
	})
}

// collectorAttack has git start a program when somebody reads the log, which stays and writes.
const collectorAttack = `mkdir -p /tmp/g; cat > /tmp/g/gpg <<G
#!/bin/sh
(setsid sh -c 'while :; do echo late > '$PWD'/late; echo late > '$PWD'/prog; done' > /dev/null 2>&1 &)
sleep 1000
G
chmod +x /tmp/g/gpg
printf 'new\n' > new; git add new; git commit -qm 'first words' --no-verify --no-gpg-sign
printf 'tree %s\nparent %s\nauthor a <a@b> 1 +0000\ncommitter a <a@b> 1 +0000\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n aaaa\n -----END PGP SIGNATURE-----\n\nsigned words\n' $(git write-tree) $(git rev-parse HEAD) > /tmp/c
git update-ref HEAD $(git hash-object -t commit -w --stdin < /tmp/c)
for k in gpg.program gpg.ssh.program gpg.x509.program core.fsmonitor core.pager core.sshCommand diff.external core.editor; do git config $k /tmp/g/gpg; done
git config log.showSignature true; git config core.hooksPath /tmp/g
`

// TestNothingOfTheAgentRunsWhileItsResultIsRead: the collector reads a git folder that the agent wrote.
func TestNothingOfTheAgentRunsWhileItsResultIsRead(t *testing.T) {
	t.Parallel()
	world.Each(t, func(t *testing.T, w *world.World) {
		target(w)
		attack(w, collectorAttack).Want(0)
		if got := w.Git("diff", "--name-status", "main", "sallyport/attack"); got != "A\tnew" {
			t.Errorf("the change is %q", got)
		}
		// It is read all the same.
		if got := w.Git("log", "-1", "--format=%B", "sallyport/attack"); !strings.Contains(got, "> first words\n") || !strings.Contains(got, "> signed words\n") {
			t.Errorf("the agent's own words are not in %q", got)
		}
	})
}

// TestCollection: what is left behind to confuse who collects it.
func TestCollection(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, script string
		code         int
		words, diff  string
	}{
		{"no rights on the workspace", "echo new > new; chmod 000 .", 0, "", "A\tnew"},
		{"no rights on /tmp", "echo new > new; chmod 000 /tmp", 0, "", "A\tnew"},
		{"no rights on files and folders", "mkdir d; echo new > d/new; chmod 000 d/new d t.sh", 0, "", "A\td/new\nM\tt.sh"},
		{"a huge sparse file", "echo new > new; truncate -s 1T big", 30, `"big": file is larger than the limit`, ""},
		{"many sparse files", "for i in 1 2 3 4 5; do truncate -s 1000M big$i; done", 30, "larger than the limit", ""},
		{"too deep", "./x deep q 130", 30, "levels deep, the limit is 128", ""},
		{"a name taken for .git", "mkdir git~1; echo z > git~1/config", 30, `"git~1/config"`, ""},
		{"git folders at odd places", "mkdir -p s/.git s/.GIT; echo x > s/.git/config; echo x > s/.GIT/config; echo x > .Git; echo new > new", 0, "3 nested-git", "A\tnew"},
		{"hostile names", "./x names h", 20, "reverse", ""},
		{"special files", "mkfifo f; perl -e 'use Socket; socket(S, PF_UNIX, SOCK_STREAM, 0); bind(S, pack_sockaddr_un(\"s\"))'; echo new > new", 0, "1 fifo, 1 socket", "A\tnew"},
		{"hard links", "echo new > new; ln new other; ln t.sh third", 0, "", "A\tnew\nA\tother\nA\tthird"},
		{"set-uid", "echo new > new; chmod 6777 new", 0, "", "A\tnew"},
		{"a link in place of a folder", "ln -s /etc new", 20, "absolute", ""},
		{"everything gone", "rm -rf * .[a-z]* 2>/dev/null; true", 20, "", ""},
		{"a git folder that never answers", "echo new > new; mkfifo /tmp/f; git config include.path /tmp/f", 0, "", "A\tnew"},
		{"a HEAD that never answers", "echo new > new; rm .git/HEAD; mkfifo .git/HEAD", 0, "", "A\tnew"},
		{"no git folder to speak of", "echo new > new; rm -rf .git/*; ln -s / .git/objects", 0, "", "A\tnew"},
		{"many orphans", "./x zombies 300; echo new > new", 0, "", "A\tnew"},
		{"overlay marks", "./x marks .", 0, "1 fifo", "A\tmarked/file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			world.Each(t, func(t *testing.T, w *world.World) {
				target(w)
				r := attack(w, c.script).Want(c.code).Says(c.words)
				if c.code == 0 {
					if got := w.Git("diff", "--no-renames", "--name-status", "main", "sallyport/attack"); got != c.diff {
						t.Errorf("the change is %q, want %q", got, c.diff)
					}
				}
				if strings.ContainsAny(r.Err, "\x1b\u202e") {
					t.Errorf("raw bytes for a person: %q", r.Err)
				}
			})
		})
	}
}

// TestTooMuch: each limit ends what exceeds it, and what it leaves can be removed.
func TestTooMuch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, limits, script, words string
		root                        bool
	}{
		{"a file without a name", "time: 40s, disk: 64MiB", "./x hide open 200 /tmp", "disk limit", false},
		{"a file without a name, held read-only", "time: 40s, disk: 64MiB", "./x hide read-only 200 $HOME", "disk limit", false},
		{"many files without a name", "time: 40s, disk: 64MiB", "./x hide many 200 .", "disk limit", false},
		{"a file without a name, held by a thread that outlived the first", "time: 40s, disk: 64MiB", "./x hide thread 200 /tmp", "disk limit", false},
		{"ignoring every signal", "time: 2s", "trap '' TERM INT HUP; (trap '' TERM; setsid sleep 1000 &) ; kill -STOP $$; sleep 1000", "runtime limit", false},
		// Refused its own next fork the shell ends by itself, or the clock ends it.
		{"a fork bomb", "time: 4s, pids: 100", "b() { b | b & }; b; sleep 1000", "Cannot fork", true},
		{"memory in files", "time: 40s, memory: 128MiB", "head -c 400000000 /dev/zero > /dev/shm/x; head -c 400000000 /dev/zero | tail > /dev/null; exit 9", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			world.Each(t, func(t *testing.T, w *world.World) {
				target(w)
				if c.root && w.UID != 0 {
					return // not held without a cgroup (THREATS.md, 7)
				}
				base(w, "sh t.sh", c.limits)
				r := attack(w, c.script).Want(30).Says(c.words)
				if strings.Contains(r.Out, `"exit": 0`) {
					t.Errorf("%s", r.Out)
				}
			})
		})
	}
}

// TestDepthCanBeRemoved: a tree deeper than there are descriptors.
func TestDepthCanBeRemoved(t *testing.T) {
	t.Parallel()
	world.Each(t, func(t *testing.T, w *world.World) {
		target(w)
		// Nothing may be left: the world looks at its end.
		w.Command("", "sh", "-c", `ulimit -n 700 && exec "$0" run --json --name attack -m x -- sh -c "./x deep /tmp/d 3000; chmod 000 /tmp/d; sleep 30"`, w.Program()).Want(30)
	})
}

// TestStrangersLookAlike: another user's process that bears a sandbox's id cannot keep it from ending.
func TestStrangersLookAlike(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("missing capability: only root can act as two users")
	}
	t.Parallel()
	w := target(world.As(t, world.Ordinary))
	done := make(chan world.Result, 1)
	go func() {
		done <- attack(w, "echo new > new; until [ -e /tmp/never ]; do sleep 0.1; [ $((i+=1)) -gt 40 ] && break; done; true")
	}()
	var id string
	for id == "" { // however long a busy machine takes to start it
		select {
		case r := <-done:
			t.Fatalf("no sandbox was seen: %+v", r)
		case <-time.After(20 * time.Millisecond):
		}
		if l, err := filepath.Glob(filepath.Join(w.State, "local/allocations/alc_*/started.json")); err == nil && len(l) > 0 {
			id = filepath.Base(filepath.Dir(l[0]))
		}
	}
	fake := exec.Command("/bin/sh")
	fake.Args = []string{"sallyport-keeper", id, "fac_x"}
	dir := t.TempDir()
	w.Must(os.Chmod(filepath.Dir(dir), 0o755))
	w.Must(os.Chmod(dir, 0o755))
	w.Must(os.WriteFile(filepath.Join(dir, id), []byte("while :; do sleep 1; done\n"), 0o644))
	fake.Dir, fake.SysProcAttr = dir, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stranger, Gid: stranger}}
	w.Must(fake.Start())
	defer func() { _ = fake.Process.Kill(); _ = fake.Wait() }()
	r := <-done
	r.Want(0)
	if err := fake.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the look-alike did not last: %v", err)
	}
}

// TestStateIsPrivate: whatever the umask, nobody else reads or writes what Sallyport keeps.
func TestStateIsPrivate(t *testing.T) {
	t.Parallel()
	world.Each(t, func(t *testing.T, w *world.World) {
		target(w)
		for _, mask := range []string{"000", "077"} {
			script := fmt.Sprintf(`umask %s; exec "$0" run --json --name m%s -m x -- /bin/sh -c 'echo %s > new'`, mask, mask, mask)
			w.Command("", "sh", "-c", script, w.Program()).Want(0)
		}
		fi, err := os.Stat(w.State)
		w.Must(err)
		if fi.Mode().Perm() != 0o700 {
			t.Errorf("the state folder has mode %v", fi.Mode())
		}
		for _, f := range []string{"journal.db", "factory.json"} {
			if fi, err := os.Stat(filepath.Join(w.State, f)); err != nil || fi.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s: %v, %v", f, fi.Mode(), err)
			}
		}
		keys, err := os.Stat(filepath.Join(w.State, "keys"))
		w.Must(err)
		if keys.Mode().Perm() != 0o700 {
			t.Errorf("keys: %v", keys.Mode())
		}
	})
}
