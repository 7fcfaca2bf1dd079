package e2e

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"sallyport.dev/sallyport"
)

// refused fails the test unless the request ended with the code, named what is wrong, gave a next step and
// left nothing half-made: no Attempt, no branch, no sandbox.
func (w *world) refused(r result, code int, words ...string) result {
	w.t.Helper()
	r.want(code).says(words...)
	if r.took > 20*time.Second {
		w.t.Errorf("%s took %v to refuse", r.name, r.took)
	}
	if strings.Contains(r.name, "--json") && code != 1 {
		rep := r.report()
		if rep.Attempt != "" || rep.State != "" || rep.Reason.Message == "" {
			w.t.Errorf("a refused request: attempt %q, state %q, %+v", rep.Attempt, rep.State, rep.Reason)
		}
	}
	if strings.Contains(r.err, "goroutine ") || strings.Contains(r.err, "panic") {
		w.t.Errorf("a stack for a person: %s", r.err)
	}
	w.clean()
	return r
}

// TestBadRepository: what is no repository to work on, each with its own words.
func TestBadRepository(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plain := filepath.Join(w.dir, "plain")
	w.must(os.Mkdir(plain, 0o755))
	w.own(plain)
	w.refused(w.runIn(plain, "x", "true"), 2, plain, "not a git repository", "git init")
	w.refused(w.run("x", "true"), 2, "no commit", "git commit")
	bare := filepath.Join(w.dir, "bare.git")
	w.git("init", "-q", "--bare", bare)
	w.refused(w.runIn(bare, "x", "true"), 2, "bare")
	w.small()
	w.refused(w.run("x", "true", "--base", "nosuchbranch"), 2, "nosuchbranch")
	w.refused(w.run("x", "true", "--base", "--upload-pack=x"), 2)
	w.refused(w.run("x", "true", "--base", "HEAD:a"), 2)
	w.in(plain, "init").want(2).says("git init")
	w.in(plain, "show").want(2)
}

// TestBadOrder: flags and files that cannot be right.
func TestBadOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.small()
	w.refused(w.sallyport("run", "--json", "--nosuch", "--", "true"), 2, "--nosuch")
	w.refused(w.sallyport("run", "--json", "-m", "x"), 2, "--agent")
	w.refused(w.sallyport("run", "--json", "-m", "x", "extra"), 2, "extra", "--")
	w.refused(w.sallyport("run", "--json", "-m", "x", "--agent", "claude-code", "--", "true"), 2, "agent", "command")
	w.refused(w.sallyport("run", "--json", "-m", "x", "--agent", "nosuchagent"), 2, "nosuchagent", "claude-code")
	w.refused(w.run("x", "true", "--time", "soon"), 2, "--time", "soon")
	w.refused(w.run("x", "true", "--memory", "lots"), 2, "--memory")
	w.refused(w.run("../x", "true"), 2, "../x")
	w.refused(w.sallyport("run", "--json", "-it", "--", "true"), 2, "-it")
	for _, f := range []struct{ name, text, place, words string }{
		{"unknown key", "version: 1\ntask: x\ncommand: [\"true\"]\nnosuch: 1\n", "wo.yaml:4:1", "nosuch"},
		{"duplicate key", "version: 1\ntask: x\ntask: y\ncommand: [\"true\"]\n", "wo.yaml:3:1", "task"},
		{"wrong type", "version: 1\ntask: x\ncommand: [\"true\"]\nattempts: many\n", "wo.yaml:4:11", "attempts"},
		{"second document", "version: 1\ntask: x\ncommand: [\"true\"]\n---\nversion: 1\n", "wo.yaml:4", "document"},
		{"alias", "version: 1\ntask: &a x\nname: *a\ncommand: [\"true\"]\n", "wo.yaml:", ""},
		{"no version", "task: x\ncommand: [\"true\"]\n", "wo.yaml", "version"},
		{"future version", "version: 2\ntask: x\ncommand: [\"true\"]\n", "wo.yaml:1:10", "1"},
		{"not YAML", "{[", "wo.yaml:1", ""},
	} {
		w.file("wo.yaml", f.text)
		w.refused(w.sallyport("run", "--json", "-f", "wo.yaml"), 2, f.place, f.words)
	}
	w.refused(w.sallyport("run", "--json", "-f", "absent.yaml"), 2, "absent.yaml")
	for _, f := range []struct {
		name, text, place, words string
		code                     int
	}{
		{"unknown key", "version: 1\nscop: {}\n", "sallyport.yaml:2:1", "scop", 2},
		{"check without run", "version: 1\nchecks:\n  - {name: x}\n", "sallyport.yaml:3", "run", 2},
		{"escaping dir", "version: 1\nchecks:\n  - {name: x, run: y, dir: ../..}\n", "sallyport.yaml:3", "../..", 2},
		{"two checks of a name", "version: 1\nchecks:\n  - {name: x, run: a}\n  - {name: x, run: b}\n", "sallyport.yaml:4", "x", 2},
		{"egress comes later", "version: 1\negress: [example.com]\n", "sallyport.yaml:2", "egress", 40},
		{"pr comes later", "version: 1\npublish: {to: pr}\n", "sallyport.yaml:2", "pr", 40},
	} {
		w.file("sallyport.yaml", f.text)
		r := w.run("x", "true")
		w.refused(r, f.code, f.place, f.words)
	}
}

// TestBadAgent: a program that is not there, or lies where a sandbox cannot see it.
func TestBadAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.small()
	none := w.sallyport("run", "--json", "-m", "x", "--", "no-such-agent-zz")
	if none.code != 40 {
		none.want(2)
	}
	w.refused(none, none.code, "no-such-agent-zz", "hint")
	odd := filepath.Join(w.home, "opt", "odd-agent", "bin")
	w.file(filepath.Join(odd, "odd-agent"), "#!/bin/sh\necho good > a\n")
	w.env = append(w.env, "PATH="+odd+":"+os.Getenv("PATH"))
	r := w.sallyport("run", "--json", "--name", "odd", "-m", "x", "--", "odd-agent")
	if r.code == 0 {
		return // it was found and mounted: better still
	}
	if r.code != 40 {
		r.want(2)
	}
	w.refused(r, r.code, filepath.Join(odd, "odd-agent"), "tools: [auto, ")
	_, line, _ := strings.Cut(r.err, "tools: [auto, ")
	root, _, _ := strings.Cut(line, "]")
	w.file(filepath.Join(w.home, ".config", "sallyport", "config.yaml"), "version: 1\ntools: [auto, "+root+"]\n")
	w.sallyport("run", "--json", "--name", "odd", "-m", "x", "--", "odd-agent").want(0)
}

// TestBadState: a state folder that cannot be written, before and in the middle.
func TestBadState(t *testing.T) {
	t.Parallel()
	w := worldOf(t, ordinary)
	w.small()
	w.must(os.Mkdir(w.state, 0o555))
	w.own(w.state)
	w.refused(w.run("x", "echo good > a"), 1, w.state, "SALLYPORT_STATE")
	w.must(os.Chmod(w.state, 0o755))
	w.run("x", "echo good > a").want(0)
	file := newWorld(t)
	file.small()
	file.file(file.state, "not a folder\n")
	file.refused(file.run("x", "true"), 1, file.state)
}

// TestMountedState: a read-only and several sizes of full file system, mounted for one command only.
func TestMountedState(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount a small file system")
	}
	t.Parallel()
	w := newWorld(t)
	w.small()
	w.must(os.Mkdir(w.state, 0o755))
	// After the run the file system gets room, and what the run left must come to an end by itself.
	factory := filepath.Join(w.dir, "factory.json")
	inside := func(options, name string) result {
		os.Remove(factory)
		script := "mount --make-rprivate / && mount -t tmpfs -o " + options + ` none "$SALLYPORT_STATE" || exit 99
"$@"; code=$?
mount -o remount,rw,size=200m "$SALLYPORT_STATE" || exit 98
for i in $(seq 60); do
	"$1" reconcile >&2
	case $("$1" ps --json | tr -d ' \n') in *'"attempts":[]'*) break;; esac
	sleep 1
done
"$1" ps >&2
"$1" fsck >&2 || code=97
cp "$SALLYPORT_STATE/factory.json" ` + factory + `
exit $code`
		return w.commandWith(w.repo, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}, "",
			"sh", "-c", script, "sh", w.program(), "run", "--json", "--name", name, "-m", "x", "--", "sh", "-c", "echo good > a; head -c 300000 /dev/urandom > big")
	}
	w.refused(inside("mode=0700,ro", "ro"), 1, w.state, "read-only")
	for _, size := range []string{"64k", "700k"} {
		r := inside("mode=0700,size="+size, "full-"+size)
		if r.code != 1 && r.code != 30 {
			t.Errorf("size %s: exit %d\n%.3000s", size, r.code, r.err)
		}
		if !strings.Contains(r.err+r.out, "no space") && !strings.Contains(r.err+r.out, "full") {
			t.Errorf("size %s: does not say that there is no space:\n%.3000s", size, r.err)
		}
		if r.took > 60*time.Second {
			t.Errorf("size %s: took %v", size, r.took)
		}
		w.cleanWithin(30 * time.Second)
		if left := cgroupsOf(factory); len(left) > 0 {
			t.Errorf("size %s: left behind: %q", size, left)
		}
	}
	w.git("fsck", "--strict")
}

// TestDamagedJournal: a journal with other bytes than were written is never taken for whole.
func TestDamagedJournal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.small()
	w.run("x", "echo good > a").want(0)
	journal := filepath.Join(w.state, "journal.db")
	whole := w.read(journal)
	tip := w.git("rev-parse", "sallyport/x")
	for name, damage := range map[string]func(){
		"not a database": func() { w.must(os.WriteFile(journal, []byte(strings.Repeat("garbage ", 4096)), 0o600)) },
		"cut":            func() { w.must(os.Truncate(journal, int64(len(whole)/3))) },
		"header":         func() { w.must(os.WriteFile(journal, []byte("XXXX"+whole[4:]), 0o600)) },
	} {
		for _, s := range []string{"-wal", "-shm"} {
			os.Remove(journal + s)
		}
		damage()
		r := w.run("y", "echo good > a").want(1)
		r.says("journal")
		if rep := r.report(); rep.Attempt != "" {
			t.Errorf("%s: an Attempt was made: %s", name, rep.Attempt)
		}
		w.sallyport("ps", "-a").want(1)
		w.sallyport("fsck").want(1)
		w.must(os.WriteFile(journal, []byte(whole), 0o600))
	}
	// A row rewritten with SQL: the file is a sound database, and the chain is not.
	w.sallyport("fsck").want(0)
	tables := execSQL(t, journal, `select name from sqlite_master where type='table'`)
	done := false
	for _, table := range tables {
		if table != "events" && table != "event" {
			continue
		}
		execSQL(t, journal, "drop trigger if exists no_update") // whatever guards it is the attacker's to drop
		for _, tr := range execSQL(t, journal, `select name from sqlite_master where type='trigger'`) {
			execSQL(t, journal, `drop trigger "`+tr+`"`)
		}
		execSQL(t, journal, `delete from "`+table+`" where seq = (select max(seq) from "`+table+`")`)
		done = true
	}
	if !done {
		t.Fatalf("no table of events among %q", tables)
	}
	w.sallyport("fsck").want(1)
	if w.git("rev-parse", "sallyport/x") != tip || w.command(w.repo, "git", "rev-parse", "-q", "--verify", "sallyport/y").code == 0 {
		t.Error("a branch was moved")
	}
	w.must(os.WriteFile(journal, []byte(whole), 0o600))
	for _, s := range []string{"-wal", "-shm"} {
		os.Remove(journal + s)
	}
	w.sallyport("fsck").want(0)
}

// execSQL runs one statement and returns the first column of its rows.
func execSQL(t *testing.T, path, query string) []string {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestLockedJournal: another process that holds the journal is named, within bounded time, and once it lets
// go everything works.
func TestLockedJournal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.small()
	w.run("x", "echo good > a").want(0)
	db, err := sql.Open("sqlite", filepath.Join(w.state, "journal.db"))
	w.must(err)
	defer db.Close()
	db.SetMaxOpenConns(1)
	_, err = db.Exec("begin immediate")
	w.must(err)
	r := w.run("y", "echo good > a")
	r.want(1).says("lock")
	if r.took > 60*time.Second {
		t.Errorf("took %v", r.took)
	}
	_, err = db.Exec("rollback")
	w.must(err)
	w.run("y", "echo good > a").want(0)
}

// TestNoUserNamespaces: an ordinary user on a machine that gives no user namespaces is refused, told the
// reason and the fix; nothing runs unconfined instead.
func TestNoUserNamespaces(t *testing.T) {
	t.Parallel()
	w := worldOf(t, ordinary)
	if os.Getuid() != 0 {
		t.Skip("needs root, to take user namespaces away from a process")
	}
	w.small()
	mark := filepath.Join(w.dir, "ran")
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 65536}}, GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 65536}}, GidMappingsEnableSetgroups: true}
	script := fmt.Sprintf(`echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --reuid %d --regid %d --clear-groups "$@"`, ordinary, ordinary)
	r := w.commandWith(w.repo, attr, "", "sh", "-c", script, "sh", w.program(), "run", "--json", "--name", "x", "-m", "x", "--", "sh", "-c", "touch "+mark+"; echo good > a")
	r.want(40).says("user namespace", "hint")
	rep := r.report()
	if rep.State != "" && rep.State != sallyport.AttemptFailed || rep.Branch != "" {
		t.Errorf("%s, branch %q", rep.State, rep.Branch)
	}
	if _, err := os.Lstat(mark); err == nil {
		t.Error("the agent ran outside of a sandbox")
	}
	w.clean()
	w.run("y", "echo good > a").want(0)
}
