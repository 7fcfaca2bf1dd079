package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/journal/journaltest"
	"sallyport.dev/sallyport/internal/lifecycle"
)

// childEnv makes this test binary play one of the roles below in a process of its own.
const childEnv = "JOURNAL_TEST_CHILD"

var roles = map[string]func(path string, args []string) error{
	"append": childAppend, "acquire": childAcquire, "full": childFull, "readonly": childReadOnly,
}

func TestMain(m *testing.M) {
	role, ok := os.LookupEnv(childEnv)
	if !ok {
		os.Exit(m.Run())
	}
	if err := roles[role](os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, role+":", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func child(t testing.TB, role string, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), childEnv+"="+role)
	cmd.Stderr = os.Stderr
	return cmd
}

// childAppend appends notices to an Attempt of its own under a lease, n times or for ever, and prints what
// was acknowledged only after it was.
func childAppend(path string, args []string) error {
	db, err := Open(path, Options{})
	if err != nil {
		return err
	}
	ctx, att := context.Background(), sallyport.AttemptID(args[0])
	h, err := journal.SelfHolder()
	if err != nil {
		return err
	}
	if _, err := db.Append(ctx, nil, journaltest.Created(att, "wo_child")); err != nil {
		return err
	}
	l, err := db.Acquire(ctx, att, h, 1<<40, nil)
	if err != nil {
		return err
	}
	var n int
	if _, err := fmt.Sscan(args[1], &n); err != nil {
		return err
	}
	for i := 0; n < 0 || i < n; i++ {
		events, err := db.Append(ctx, &l, note(att, fmt.Sprintf("note %d", i)), note(att, fmt.Sprintf("and %d", i)))
		if err != nil {
			return err
		}
		fmt.Println(events[0].Seq, events[0].Hash, events[1].Seq, events[1].Hash)
	}
	return db.Close()
}

// childAcquire waits for a line on stdin and then tries for the lease.
func childAcquire(path string, args []string) error {
	db, err := Open(path, Options{})
	if err != nil {
		return err
	}
	h, err := journal.SelfHolder()
	if err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	l, err := db.Acquire(context.Background(), sallyport.AttemptID(args[0]), h, 1<<40, nil)
	switch {
	case err == nil:
		fmt.Println("won", l.Fence)
	case sallyport.CodeOf(err) == sallyport.CodeConflict:
		fmt.Println("lost")
	default:
		return err
	}
	return db.Close()
}

func note(att sallyport.AttemptID, text string) journal.Record {
	return journal.Record{Type: lifecycle.AttemptNotice, Attempt: att, Data: lifecycle.Notice{Text: text}}
}

func lines(r io.Reader) []string {
	b, _ := io.ReadAll(r) // a pipe of a killed child ends with EOF
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}
