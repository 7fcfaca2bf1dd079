package sqlite

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal/journaltest"
)

// TestKilledAppenderLosesNothingAcknowledged kills a process with SIGKILL at some moment of a loop of
// appends, many times on the same file.
func TestKilledAppenderLosesNothingAcknowledged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "journal.db")
	total := 0
	for round := range 12 {
		att := sallyport.AttemptID(journaltest.NewID(t, sallyport.AttemptPrefix))
		acked := killedAppender(t, path, att, time.Duration(round*7)*time.Millisecond)
		total += len(acked)
		db, err := Open(path, Options{})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if err := db.Check(t.Context()); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		inJournal := map[string]bool{}
		events, err := db.Events(t.Context(), att, 0, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		if len(events)%2 != 0 { // created, acquired, then pairs
			t.Errorf("round %d: half of an append is in the journal (%d events)", round, len(events))
		}
		for _, e := range events {
			inJournal[fmt.Sprintf("%d %s", e.Seq, e.Hash)] = true
		}
		for _, line := range acked {
			f := strings.Fields(line)
			if !inJournal[f[0]+" "+f[1]] || !inJournal[f[2]+" "+f[3]] {
				t.Errorf("round %d: acknowledged and lost: %s", round, line)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if total == 0 {
		t.Error("no append was ever acknowledged: this test saw nothing")
	}
}

// killedAppender returns the complete lines that the child printed before it was killed.
func killedAppender(t *testing.T, path string, att sallyport.AttemptID, after time.Duration) []string {
	cmd := child(t, "append", path, string(att), "-1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(out)
	first, err := r.ReadString('\n') // it is appending now
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan string)
	go func() { b, _ := io.ReadAll(r); done <- string(b) }()
	time.Sleep(after)
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	text := first + <-done
	if err := cmd.Wait(); err == nil {
		t.Fatal("the child ended by itself")
	}
	return strings.Split(text[:strings.LastIndexByte(text, '\n')], "\n")
}

func TestTwoProcessesOnOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "journal.db")
	const processes, each = 3, 60
	var wg sync.WaitGroup
	for range processes { // all make the file at once
		cmd := child(t, "append", path, journaltest.NewID(t, sallyport.AttemptPrefix), fmt.Sprint(each))
		wg.Go(func() {
			if out, err := cmd.Output(); err != nil || len(strings.Split(strings.TrimSpace(string(out)), "\n")) != each {
				t.Errorf("child: %v", err)
			}
		})
	}
	wg.Wait()
	db := openAt(t, path, Options{})
	if err := db.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if seq, _, err := db.Head(t.Context()); err != nil || seq != processes*(2+2*each) {
		t.Errorf("head %d, want %d (%v)", seq, processes*(2+2*each), err)
	}
}

func TestALeaseIsWonByOneProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	db := openAt(t, path, Options{})
	att := sallyport.AttemptID(journaltest.NewID(t, sallyport.AttemptPrefix))
	if _, err := db.Append(t.Context(), nil, journaltest.Created(att, "wo_1")); err != nil {
		t.Fatal(err)
	}
	var racers []*exec.Cmd
	var in []io.WriteCloser
	var out []*bufio.Reader
	for range 4 {
		cmd := child(t, "acquire", path, string(att))
		w, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		r, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		racers, in, out = append(racers, cmd), append(in, w), append(out, bufio.NewReader(r))
	}
	for _, r := range out {
		if _, err := r.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range in {
		if _, err := io.WriteString(w, "go\n"); err != nil {
			t.Fatal(err)
		}
	}
	won := 0
	for i, r := range out {
		for _, line := range lines(r) {
			if strings.HasPrefix(line, "won") {
				won++
			}
		}
		if err := racers[i].Wait(); err != nil {
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d processes won the lease", won)
	}
	if err := db.Check(t.Context()); err != nil {
		t.Error(err)
	}
}
