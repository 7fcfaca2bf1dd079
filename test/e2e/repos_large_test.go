package e2e

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"sallyport.dev/sallyport/test/world"
)

// fill has git fast-import make the person's history; write is given its input.
func fill(w *world.World, write func(*bufio.Writer)) {
	w.T.Helper()
	cmd := w.Verb()
	cmd.Path, cmd.Args = "/usr/bin/git", []string{"git", "-c", "core.compression=0", "-c", "fastimport.unpackLimit=0", "fast-import", "--quiet", "--depth=0"}
	in, err := cmd.StdinPipe()
	w.Must(err)
	cmd.Stderr = os.Stderr
	w.Must(cmd.Start())
	b := bufio.NewWriterSize(in, 1<<20)
	write(b)
	w.Must(b.Flush())
	w.Must(in.Close())
	if code := w.WaitFor(cmd); code != 0 {
		w.T.Fatalf("git fast-import ended with %d", code)
	}
}

func commitHead(b *bufio.Writer, n int) {
	fmt.Fprintf(b, "commit refs/heads/main\nmark :%d\ncommitter U <u@example.invalid> %d +0000\ndata 1\nm\n", n, 1700000000+n)
}

func inline(b *bufio.Writer, path, content string) {
	fmt.Fprintf(b, "M 100644 inline %s\ndata %d\n%s\n", path, len(content), content)
}

func small(b *bufio.Writer) {
	inline(b, "a", "base\n")
	inline(b, "t.sh", "grep -qE 'good|base' a\n")
	inline(b, "sallyport.yaml", world.Policy("sh t.sh"))
}

// TestManyFiles: 50,000 of them.
func TestManyFiles(t *testing.T) {
	w := world.New(t)
	fill(w, func(b *bufio.Writer) {
		commitHead(b, 1)
		small(b)
		for i := range 50_000 {
			inline(b, fmt.Sprintf("d%02d/e%02d/f%d", i%50, i/50%40, i), strconv.Itoa(i)+"\n")
		}
	})
	w.Git("reset", "-q", "--hard")
	before := w.Fingerprint()
	began := time.Now()
	rep := w.Run("many", `[ "$(git ls-files | wc -l)" = 50003 ] && [ -z "$(git status --porcelain)" ] && echo good > a && echo more >> d07/e00/f7 && rm -r d08/e00`).Want(0).Report()
	t.Logf("50,000 files: %v, stages %v", time.Since(began).Round(time.Millisecond), rep.Timings)
	if n := len(rep.Changes); n != 2+25 {
		t.Errorf("%d changes", n)
	}
	if got := w.Git("show", rep.Branch+":d07/e00/f7"); got != "7\nmore" {
		t.Errorf("%q", got)
	}
	w.Untouched(before, rep.Branch)
	began = time.Now()
	w.Run("again", "echo good > a").Want(0)
	t.Logf("again: %v", time.Since(began).Round(time.Millisecond))
}

// TestLargeHistory: a history far larger than the tree, with and without it inside: of 256 MB, or as many as
// SALLYPORT_TEST_HISTORY_MB says (2048 needs 6 GB of disk and a minute).
func TestLargeHistory(t *testing.T) {
	w := world.New(t)
	mb := historyMB(w)
	fill(w, func(b *bufio.Writer) {
		noise := rand.NewChaCha8([32]byte{1})
		for i := range mb {
			commitHead(b, i+1)
			if i == 0 {
				small(b)
			}
			fmt.Fprintf(b, "M 100644 inline blob\ndata %d\n", 1<<20)
			_, err := io.CopyN(b, noise, 1<<20)
			w.Must(err)
			b.WriteByte('\n')
		}
		commitHead(b, mb+1)
		b.WriteString("D blob\n")
	})
	w.Git("reset", "-q", "--hard")
	for _, history := range []string{"1", "full"} {
		began := time.Now()
		rep := w.Run("history-"+history, fmt.Sprintf(`git rev-list --count HEAD; du -sm .git/objects | cut -f1; [ "$(git rev-list --count HEAD)" = %s ] && echo good > a`,
			map[string]string{"1": "1", "full": strconv.Itoa(mb + 1)}[history]), "--history", history).Want(0).Report()
		took := time.Since(began)
		t.Logf("history of %d MB, %s inside: %v; agent said %q", mb, history, took.Round(time.Millisecond), w.Log(rep.Attempt, "agent"))
		if took > time.Minute {
			t.Errorf("%s: %v", history, took)
		}
		var commits, size int
		if _, err := fmt.Sscan(w.Log(rep.Attempt, "agent"), &commits, &size); err != nil {
			t.Fatal(err)
		}
		if history == "1" && size > 1 || history == "full" && size < mb {
			t.Errorf("with history %s the git folder inside has %d MB", history, size)
		}
	}
}

func historyMB(w *world.World) int {
	w.T.Helper()
	if s := os.Getenv("SALLYPORT_TEST_HISTORY_MB"); s != "" {
		n, err := strconv.Atoi(s)
		w.Must(err)
		return n
	}
	return 256
}
