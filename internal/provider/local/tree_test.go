package local

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/provider"
)

// hostile leaves trees that are unpleasant to remove, in every place that a command can write to.
const hostile = `for d in /work/repo /tmp $HOME; do cd $d || exit 1
	mkdir -p closed/inner && echo x > closed/inner/f && chmod 000 closed/inner closed
	mkdir -p readonly/sub && echo x > readonly/sub/f && chmod 444 readonly/sub/f && chmod 555 readonly/sub readonly
	mkfifo pipe; mkdir -p many && (cd many && seq 1 7000 | xargs touch)
	perl -e 'mkdir "odd"; for my $n ("a\nb", "\xff\xfe", "-rf", " ", "n" x 255, "\x1b[2J", "*") { open F, ">", "odd/$n" or die "$n $!" }
		symlink "/", "root"; symlink "loop", "loop"; link "odd/*", "odd/hard"; use Socket; socket(S, PF_UNIX, SOCK_STREAM, 0); bind(S, pack_sockaddr_un("sock")) or die;' || exit 2
done; echo made
for d in /work/repo /tmp $HOME; do
	perl -e 'chdir $ARGV[0]; mkdir "deep"; chdir "deep"; for (1..3000) { mkdir "d" or die $!; chdir "d" or die $! } open F, ">end" or die; chmod 0, "."' $d || exit 3
done`

func TestDestroyOfHostileTrees(t *testing.T) {
	b := newBench(t)
	l := b.start(b.spec("sh", "-c", hostile))
	// So deep a tree may count as too much disk before it is complete.
	if out, e := l.all(); out != "made\n" || e.Code != 0 && e.Cause != "disk" {
		t.Fatalf("%+v %s", e, out)
	}
	began := time.Now()
	if err := b.Destroy(b.ctx(), l.id); err != nil {
		t.Fatal(err)
	}
	t.Logf("Destroy took %v", time.Since(began))
	if left := b.traces(l.spec.Allocation); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// What cannot be part of a change is no reason to lose the work beside it.
func TestCollectBesideHostileTrees(t *testing.T) {
	b := newBench(t)
	l := b.start(b.spec("sh", "-c", "mkdir closed && echo x > closed/in && chmod 000 closed; mkfifo pipe; echo good > good.txt"))
	if _, e := l.all(); e.Code != 0 {
		t.Fatalf("%+v", e)
	}
	if got := strings.Join(l.collected(), "\n"); !strings.Contains(got, `file good.txt 100644 "good\n"`) || !strings.Contains(got, "left out") {
		t.Errorf("changes %s", got)
	}
}

// A tree beyond every limit is refused as one, and refused alike when asked again.
func TestCollectRefusesTooDeepATree(t *testing.T) {
	b := newBench(t)
	l := b.start(b.spec("perl", "-e", `for (1..300) { mkdir "d"; chdir "d" } open F, ">f"`))
	if _, e := l.all(); e.Code != 0 {
		t.Fatalf("%+v", e)
	}
	for range 2 {
		if err := l.Collect(b.ctx(), io.Discard); sallyport.CodeOf(err) != sallyport.CodeExhausted {
			t.Errorf("Collect: %v (%v)", err, sallyport.CodeOf(err))
		}
	}
}

// The collector dies in the middle: the next holder gets the result all the same.
func TestCollectorKilled(t *testing.T) {
	b := newBench(t)
	l := b.start(b.spec("sh", "-c", "mkdir many; cd many; seq 1 20000 | xargs touch; echo good > good.txt"))
	if _, e := l.all(); e.Code != 0 {
		t.Fatalf("%+v", e)
	}
	failed := make(chan error, 1)
	go func() { failed <- l.Collect(b.ctx(), io.Discard) }()
	killed := false
	for !killed && len(failed) == 0 {
		for _, p := range bearing(t, "sallyport-runner\x00"+string(l.spec.Allocation)) {
			pid, err := strconv.Atoi(strings.Fields(p)[0])
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Millisecond)
			killed = unix.Kill(pid, unix.SIGKILL) == nil
		}
	}
	if err := <-failed; !killed || err == nil {
		t.Fatalf("killed %v, Collect: %v", killed, err)
	}
	soon(t, "a keeper that can collect", func() bool {
		w, err := b.Connect(b.shortCtx(), l.id, l.auth)
		if err != nil {
			return false
		}
		l.Wire = w
		return w.Collect(b.ctx(), io.Discard) == nil
	})
	if got := l.collected(); len(got) != 20001 {
		t.Errorf("%d changes", len(got))
	}
}

// Space taken by what has no name any more, or lies deeper than anybody looks, is taken all the same.
func TestDiskLimitSeesWhatHides(t *testing.T) {
	for name, script := range map[string]string{
		"home":    "dd if=/dev/zero of=$HOME/big bs=1M count=64 2>/dev/null",
		"tmp":     "dd if=/dev/zero of=/tmp/big bs=1M count=64 2>/dev/null",
		"closed":  "mkdir c; dd if=/dev/zero of=c/big bs=1M count=64 2>/dev/null; chmod 000 c",
		"deleted": "exec 3>big; rm big; dd if=/dev/zero bs=1M count=64 2>/dev/null >&3",
		"deep":    "perl -e 'for (1..300) { mkdir \"d\"; chdir \"d\" } open F, \">big\"; for (1..64) { print F \"\\0\" x 1048576 } close F'",
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			spec, auth := b.spec("sh", "-c", script+"; echo written; sleep 1000")
			spec.Limits.Disk = 16 << 20
			spec.Limits.Time = 6 * time.Second
			l := b.start(spec, auth)
			if _, e := l.all(); e.Cause != "disk" {
				t.Errorf("%+v", e)
			}
		})
	}
}

// A mount of the host's keeps whatever limits its own file system sets; the sandbox's own writes count there too.
func TestDiskLimitCountsCopyOnWriteMounts(t *testing.T) {
	b := newBench(t)
	cow := t.TempDir()
	if err := os.Chmod(cow, 0o755); err != nil {
		t.Fatal(err)
	}
	spec, auth := b.spec("sh", "-c", "dd if=/dev/zero of="+filepath.Join(cow, "big")+" bs=1M count=64 2>/dev/null; sleep 1000")
	spec.Mounts = append(spec.Mounts, sallyport.Mount{Path: cow, Mode: "cow", Reason: "cache test"})
	spec.Limits.Disk, spec.Limits.Time = 16<<20, 6*time.Second
	l := b.start(spec, auth)
	if _, e := l.all(); e.Cause != "disk" {
		t.Errorf("%+v", e)
	}
}

var _ provider.Provider = (*Provider)(nil)
