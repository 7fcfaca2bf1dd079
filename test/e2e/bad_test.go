package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/test/world"
)

// refused fails the test unless the request ended with the code, named what is wrong, gave a next step and
// left nothing half-made: no Attempt, no branch, no sandbox.
func refused(w *world.World, r world.Result, code int, words ...string) world.Result {
	w.T.Helper()
	r.Want(code).Says(words...)
	if r.Took > 20*time.Second {
		w.T.Errorf("%s took %v to refuse", r.Name, r.Took)
	}
	if strings.Contains(r.Name, "--json") && code != 1 {
		rep := r.Report()
		if rep.Attempt != "" || rep.State != "" || rep.Reason.Message == "" {
			w.T.Errorf("a refused request: attempt %q, state %q, %+v", rep.Attempt, rep.State, rep.Reason)
		}
	}
	if strings.Contains(r.Err, "goroutine ") || strings.Contains(r.Err, "panic") {
		w.T.Errorf("a stack for a person: %s", r.Err)
	}
	w.Clean()
	return r
}

// TestBadRepository: what is no repository to work on, each with its own words.
func TestBadRepository(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	plain := filepath.Join(w.Dir, "plain")
	w.Must(os.Mkdir(plain, 0o755))
	w.Own(plain)
	refused(w, w.RunIn(plain, "x", "true"), 2, plain, "not a git repository", "git init")
	refused(w, w.Run("x", "true"), 2, "no commit", "git commit")
	bare := filepath.Join(w.Dir, "bare.git")
	w.Git("init", "-q", "--bare", bare)
	refused(w, w.RunIn(bare, "x", "true"), 2, "bare")
	w.Small()
	refused(w, w.Run("x", "true", "--base", "nosuchbranch"), 2, "nosuchbranch")
	refused(w, w.Run("x", "true", "--base", "--upload-pack=x"), 2)
	refused(w, w.Run("x", "true", "--base", "HEAD:a"), 2)
	w.In(plain, "init").Want(2).Says("git init")
	w.In(plain, "show").Want(2)
}

// TestBadOrder: flags and files that cannot be right.
func TestBadOrder(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Small()
	refused(w, w.Sallyport("run", "--json", "--nosuch", "--", "true"), 2, "--nosuch")
	refused(w, w.Sallyport("run", "--json", "-m", "x"), 2, "--agent")
	refused(w, w.Sallyport("run", "--json", "-m", "x", "extra"), 2, "extra", "--")
	refused(w, w.Sallyport("run", "--json", "-m", "x", "--agent", "claude-code", "--", "true"), 2, "agent", "command")
	refused(w, w.Sallyport("run", "--json", "-m", "x", "--agent", "nosuchagent"), 2, "nosuchagent", "claude-code")
	refused(w, w.Run("x", "true", "--time", "soon"), 2, "--time", "soon")
	refused(w, w.Run("x", "true", "--memory", "lots"), 2, "--memory")
	refused(w, w.Run("../x", "true"), 2, "../x")
	refused(w, w.Sallyport("run", "--json", "-it", "--", "true"), 2, "-it")
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
		w.File("wo.yaml", f.text)
		refused(w, w.Sallyport("run", "--json", "-f", "wo.yaml"), 2, f.place, f.words)
	}
	refused(w, w.Sallyport("run", "--json", "-f", "absent.yaml"), 2, "absent.yaml")
	for _, f := range []struct {
		name, text, place, words string
		code                     int
	}{
		{"unknown key", "version: 1\nscop: {}\n", "sallyport.yaml:2:1", "scop", 2},
		{"check without run", "version: 1\nchecks:\n  - {name: x}\n", "sallyport.yaml:3", "run", 2},
		{"escaping dir", "version: 1\nchecks:\n  - {name: x, run: y, dir: ../..}\n", "sallyport.yaml:3", "../..", 2},
		{"two checks of a name", "version: 1\nchecks:\n  - {name: x, run: a}\n  - {name: x, run: b}\n", "sallyport.yaml:4", "x", 2},
		{"pr without a Publisher", "version: 1\npublish: {to: pr}\n", "publish.to pr", "publisher.yaml", 40},
	} {
		w.File("sallyport.yaml", f.text)
		r := w.Run("x", "true")
		refused(w, r, f.code, f.place, f.words)
	}
}

// TestBadAgent: a program that is not there, or lies where a sandbox cannot see it.
func TestBadAgent(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Small()
	refused(w, w.Sallyport("run", "--json", "-m", "x", "--", "no-such-agent-zz"), 2, "no-such-agent-zz", "is not on PATH", "hint")
	local := w.File(filepath.Join(w.Home, ".local", "bin", "local-agent"), "#!/bin/sh\necho good > a\n")
	refused(w, w.Sallyport("run", "--json", "-m", "x", "--", "local-agent"), 2, "it lies at "+local, "put "+filepath.Dir(local)+" on PATH")
	odd := filepath.Join(w.Home, "opt", "odd-agent", "bin")
	w.File(filepath.Join(odd, "odd-agent"), "#!/bin/sh\necho good > a\n")
	w.Env = append(w.Env, "PATH="+odd+":"+os.Getenv("PATH"))
	r := w.Sallyport("run", "--json", "--name", "odd", "-m", "x", "--", "odd-agent")
	refused(w, r, 2, filepath.Join(odd, "odd-agent"), "tools: [auto, ")
	_, line, _ := strings.Cut(r.Err, "tools: [auto, ")
	root, _, _ := strings.Cut(line, "]")
	w.File(filepath.Join(w.Home, ".config", "sallyport", "config.yaml"), "version: 1\ntools: [auto, "+root+"]\n")
	w.Sallyport("run", "--json", "--name", "odd", "-m", "x", "--", "odd-agent").Want(0)
}

// TestBadState: a state folder that cannot be written, before and in the middle.
func TestBadState(t *testing.T) {
	t.Parallel()
	w := world.As(t, world.Ordinary)
	w.Small()
	w.Must(os.Mkdir(w.State, 0o555))
	w.Own(w.State)
	refused(w, w.Run("x", "echo good > a"), 1, w.State, "SALLYPORT_STATE")
	w.Must(os.Chmod(w.State, 0o755))
	w.Run("x", "echo good > a").Want(0)
	file := world.New(t)
	file.Small()
	file.File(file.State, "not a folder\n")
	refused(file, file.Run("x", "true"), 1, file.State)
}

// TestMountedState: a read-only and several sizes of full file system, mounted for one command only.
func TestMountedState(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount a small file system")
	}
	t.Parallel()
	w := world.New(t)
	w.Small()
	w.Must(os.Mkdir(w.State, 0o755))
	// After the run the file system gets room, and what the run left must come to an end by itself.
	factory := filepath.Join(w.Dir, "factory.json")
	inside := func(options, name string) world.Result {
		os.Remove(factory)
		script := "mount --make-rprivate / && mount -t tmpfs -o " + options + ` none "$SALLYPORT_STATE" || exit 99
"$@"; code=$?
mount -o remount,rw,size=200m "$SALLYPORT_STATE" || exit 98
ended=96
for i in $(seq 180); do
	"$1" reconcile >&2
	case $("$1" ps --json | tr -d ' \n') in *'"attempts":[]'*) ended=; break;; esac
	sleep 1
done
"$1" ps >&2
"$1" fsck >&2 || code=97
cp "$SALLYPORT_STATE/factory.json" ` + factory + `
exit ${ended:-$code}`
		return w.CommandWith(w.Repo, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}, "",
			"sh", "-c", script, "sh", w.Program(), "run", "--json", "--name", name, "-m", "x", "--", "sh", "-c", "echo good > a; head -c 300000 /dev/urandom > big")
	}
	refused(w, inside("mode=0700,ro", "ro"), 1, w.State, "read-only")
	for _, size := range []string{"64k", "700k"} {
		r := inside("mode=0700,size="+size, "full-"+size)
		if r.Code != 1 && r.Code != 30 {
			t.Errorf("size %s: exit %d\n%.3000s", size, r.Code, r.Err)
		}
		if !strings.Contains(r.Err+r.Out, "no space") && !strings.Contains(r.Err+r.Out, "full") {
			t.Errorf("size %s: does not say that there is no space:\n%.3000s", size, r.Err)
		}
		w.CleanWithin(30 * time.Second)
		if left := world.CgroupsOf(factory); len(left) > 0 {
			t.Errorf("size %s: left behind: %q", size, left)
		}
	}
	w.Git("fsck", "--strict")
}

// TestDamagedJournal: a journal with other bytes than were written is never taken for whole.
func TestDamagedJournal(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Small()
	w.Run("x", "echo good > a").Want(0)
	journal := filepath.Join(w.State, "journal.db")
	w.Rest()
	whole := w.Read(journal)
	tip := w.Git("rev-parse", "sallyport/x")
	for name, damage := range map[string]func(){
		"not a database": func() { w.Must(os.WriteFile(journal, []byte(strings.Repeat("garbage ", 4096)), 0o600)) },
		"cut":            func() { w.Must(os.Truncate(journal, int64(len(whole)/3))) },
		"header":         func() { w.Must(os.WriteFile(journal, []byte("XXXX"+whole[4:]), 0o600)) },
	} {
		for _, s := range []string{"-wal", "-shm"} {
			os.Remove(journal + s)
		}
		damage()
		r := w.Run("y", "echo good > a").Want(1)
		r.Says("journal")
		if rep := r.Report(); rep.Attempt != "" {
			t.Errorf("%s: an Attempt was made: %s", name, rep.Attempt)
		}
		w.Sallyport("ps", "-a").Want(1)
		w.Sallyport("fsck").Want(1)
		w.Must(os.WriteFile(journal, []byte(whole), 0o600))
	}
	// A row rewritten with SQL: the file is a sound database, and the chain is not.
	w.Sallyport("fsck").Want(0)
	tables := execSQL(w, `select name from sqlite_master where type='table'`)
	done := false
	for _, table := range tables {
		if table != "events" && table != "event" {
			continue
		}
		execSQL(w, "drop trigger if exists no_update") // whatever guards it is the attacker's to drop
		for _, tr := range execSQL(w, `select name from sqlite_master where type='trigger'`) {
			execSQL(w, `drop trigger "`+tr+`"`)
		}
		execSQL(w, `delete from "`+table+`" where seq = (select max(seq) from "`+table+`")`)
		done = true
	}
	if !done {
		t.Fatalf("no table of events among %q", tables)
	}
	w.Sallyport("fsck").Want(1)
	if w.Git("rev-parse", "sallyport/x") != tip || w.Command(w.Repo, "git", "rev-parse", "-q", "--verify", "sallyport/y").Code == 0 {
		t.Error("a branch was moved")
	}
	w.Must(os.WriteFile(journal, []byte(whole), 0o600))
	for _, s := range []string{"-wal", "-shm"} {
		os.Remove(journal + s)
	}
	w.Sallyport("fsck").Want(0)
}

// execSQL runs one statement and returns the first column of its rows.
func execSQL(w *world.World, query string) []string {
	w.T.Helper()
	db := w.Writable()
	defer db.Close()
	rows, err := db.Query(query)
	if err != nil {
		w.T.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var s string
		w.Must(rows.Scan(&s))
		out = append(out, s)
	}
	w.Must(rows.Err())
	return out
}

// TestLockedJournal: another process that holds the journal is named, within bounded time, and once it lets
// go everything works.
func TestLockedJournal(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Small()
	w.Run("x", "echo good > a").Want(0)
	w.Rest()
	db := w.Writable()
	defer db.Close()
	db.SetMaxOpenConns(1)
	_, err := db.Exec("begin immediate")
	w.Must(err)
	r := w.Run("y", "echo good > a")
	r.Want(1).Says("lock")
	if r.Took > 60*time.Second {
		t.Errorf("took %v", r.Took)
	}
	_, err = db.Exec("rollback")
	w.Must(err)
	w.Run("y", "echo good > a").Want(0)
}

// TestNoUserNamespaces: an ordinary user on a machine that gives no user namespaces is refused, told the
// reason and the fix; nothing runs unconfined instead.
func TestNoUserNamespaces(t *testing.T) {
	t.Parallel()
	w := world.As(t, world.Ordinary)
	if os.Getuid() != 0 {
		t.Skip("needs root, to take user namespaces away from a process")
	}
	w.Small()
	mark := filepath.Join(w.Dir, "ran")
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 65536}}, GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 65536}}, GidMappingsEnableSetgroups: true}
	script := fmt.Sprintf(`echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --reuid %d --regid %d --clear-groups "$@"`, world.Ordinary, world.Ordinary)
	r := w.CommandWith(w.Repo, attr, "", "sh", "-c", script, "sh", w.Program(), "run", "--json", "--name", "x", "-m", "x", "--", "sh", "-c", "touch "+mark+"; echo good > a")
	r.Want(40).Says("user namespace", "hint")
	rep := r.Report()
	if rep.State != "" && rep.State != sallyport.AttemptFailed || rep.Branch != "" {
		t.Errorf("%s, branch %q", rep.State, rep.Branch)
	}
	if _, err := os.Lstat(mark); err == nil {
		t.Error("the agent ran outside of a sandbox")
	}
	w.Clean()
	w.Run("y", "echo good > a").Want(0)
}
