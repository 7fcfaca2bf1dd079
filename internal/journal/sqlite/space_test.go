package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

// inMountNamespace runs a role where it may mount, and where its mounts vanish with it.
func inMountNamespace(t *testing.T, role string) {
	cmd := child(t, role, t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.Output()
	var errno syscall.Errno
	if errors.As(err, &errno) {
		t.Skipf("missing: user and mount namespaces for this user (%v)", errno)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", out)
}

func TestAFullDisk(t *testing.T)           { inMountNamespace(t, "full") }
func TestAReadOnlyFileSystem(t *testing.T) { inMountNamespace(t, "readonly") }

func expect(err error, code sallyport.Code, words ...string) error {
	if err == nil || sallyport.CodeOf(err) != code || sallyport.HintOf(err) == "" {
		return fmt.Errorf("error %v, code %v, hint %q; want code %v and a hint", err, sallyport.CodeOf(err), sallyport.HintOf(err), code)
	}
	for _, w := range words {
		if !strings.Contains(err.Error()+sallyport.HintOf(err), w) {
			return fmt.Errorf("%q does not name %q", err, w)
		}
	}
	return nil
}

// childFull fills a small disk by appending, and goes on when there is space again.
func childFull(folder string, _ []string) error {
	if err := unix.Mount("none", folder, "tmpfs", 0, "size=2m,mode=700"); err != nil {
		return err
	}
	db, err := Open(filepath.Join(folder, "journal.db"), Options{})
	if err != nil {
		return err
	}
	filler := filepath.Join(folder, "filler")
	if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); err != nil {
		return err
	}
	ctx, text, acked := context.Background(), strings.Repeat("x", 50_000), int64(0)
	for err == nil {
		if acked++; acked > 1000 {
			return errors.New("the disk never became full")
		}
		err = appendCheckpoint(db, text)
	}
	acked--
	if err := expect(err, sallyport.CodeExhausted, folder); err != nil {
		return err
	}
	if seq, _, err := db.Head(ctx); err != nil || seq != acked {
		return fmt.Errorf("head %d after %d acknowledged appends: %w", seq, acked, err)
	}
	if err := os.Remove(filler); err != nil {
		return err
	}
	if err := appendCheckpoint(db, "after"); err != nil {
		return fmt.Errorf("with space again: %w", err)
	}
	if err := db.Check(ctx); err != nil {
		return err
	}
	fmt.Printf("full after %d appends\n", acked)
	return db.Close()
}

func childReadOnly(folder string, _ []string) error {
	if err := unix.Mount("none", folder, "tmpfs", 0, "size=2m,mode=700"); err != nil {
		return err
	}
	path := filepath.Join(folder, "journal.db")
	db, err := Open(path, Options{})
	if err != nil {
		return err
	}
	if err := db.Close(); err != nil {
		return err
	}
	if err := unix.Mount("none", folder, "tmpfs", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return err
	}
	for _, p := range []string{path, filepath.Join(folder, "new.db"), filepath.Join(folder, "new", "journal.db")} {
		_, err = Open(p, Options{})
		if err := expect(err, sallyport.CodeUnavailable, folder, "read-only"); err != nil {
			return err
		}
	}
	return nil
}

func appendCheckpoint(db *DB, text string) error {
	_, err := db.Append(context.Background(), nil, checkpoint(text))
	return err
}
