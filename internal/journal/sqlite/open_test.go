package sqlite

import (
	"bytes"
	"crypto/rand"
	"database/sql"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal/journaltest"
)

func TestFilesArePrivate(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new", "state")
	db := openAt(t, filepath.Join(folder, "journal.db"), Options{})
	if _, err := db.Append(t.Context(), nil, journaltest.Created(sallyport.AttemptID(journaltest.NewID(t, "att")), "wo_1")); err != nil {
		t.Fatal(err)
	}
	seen := 0
	err := filepath.WalkDir(folder, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		i, err := d.Info()
		if err != nil {
			return err
		}
		seen++
		if i.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", p, i.Mode())
		}
		return nil
	})
	if err != nil || seen != 4 { // folder, journal, -wal, -shm
		t.Errorf("%d files, %v", seen, err)
	}
}

func TestAFileThatOthersCanReadIsTightened(t *testing.T) {
	path := sample(t)
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	openAt(t, path, Options{})
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
}

func TestPathsAreTakenLiterally(t *testing.T) {
	for _, name := range []string{"a?mode=memory", "b#c", "d%20e", "f g", "ü&x=1", ";", ":memory:"} {
		path := filepath.Join(t.TempDir(), name, "journal?.db")
		openAt(t, path, Options{})
		if st, err := os.Stat(path); err != nil || st.Size() == 0 {
			t.Errorf("%q: no journal there: %v", path, err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	garbage := make([]byte, 8192)
	if _, err := rand.Read(garbage); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		make func(t *testing.T, path string)
		code sallyport.Code
		says string
	}{
		{"a newer schema", func(t *testing.T, path string) {
			copySample(t, path)
			edit(t, path, `UPDATE schema_version SET version = 99`)
		}, sallyport.CodeUnsupported, "schema 99"},
		{"no schema version", func(t *testing.T, path string) { copySample(t, path); edit(t, path, `DELETE FROM schema_version`) }, sallyport.CodeCorrupt, "schema version"},
		{"two schema versions", func(t *testing.T, path string) {
			copySample(t, path)
			edit(t, path, `INSERT INTO schema_version VALUES (1)`)
		}, sallyport.CodeCorrupt, "schema version"},
		{"garbage", func(t *testing.T, path string) { write(t, path, garbage) }, sallyport.CodeCorrupt, "not a journal"},
		{"text", func(t *testing.T, path string) { write(t, path, bytes.Repeat([]byte("hello\n"), 999)) }, sallyport.CodeCorrupt, "not a journal"},
		{"somebody else's database", otherDatabase, sallyport.CodeCorrupt, "another SQLite database"},
		{"a damaged first page", func(t *testing.T, path string) { copySample(t, path); scribble(t, path, 100, garbage[:3000]) }, sallyport.CodeCorrupt, "damaged"},
		{"a folder", func(t *testing.T, path string) { mkdir(t, path) }, sallyport.CodeUnavailable, "cannot be opened"},
		{"a symbolic link", func(t *testing.T, path string) {
			if err := os.Symlink(sample(t), path); err != nil {
				t.Fatal(err)
			}
		}, sallyport.CodeUnavailable, "symbolic link"},
		{"a folder that everybody can write in", func(t *testing.T, path string) {
			if err := os.Chmod(filepath.Dir(path), 0o1777); err != nil {
				t.Fatal(err)
			}
		}, sallyport.CodeDenied, "everybody"},
		{"a file in place of the folder", func(t *testing.T, path string) {
			if err := os.Remove(filepath.Dir(path)); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Dir(path), nil)
		}, sallyport.CodeUnavailable, "folder"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s", "journal.db")
			mkdir(t, filepath.Dir(path))
			tt.make(t, path)
			before := content(path)
			db, err := Open(path, Options{BusyTimeout: 200 * time.Millisecond})
			if err == nil {
				db.Close()
			}
			wantCode(t, err, tt.code)
			if !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), filepath.Dir(path)) || sallyport.HintOf(err) == "" {
				t.Errorf("error %q, hint %q: want %q, the path and a hint", err, sallyport.HintOf(err), tt.says)
			}
			if !bytes.Equal(before, content(path)) {
				t.Error("the refused file was changed")
			}
		})
	}
}

func TestDamageInTheMiddleIsFoundByCheck(t *testing.T) {
	path := sample(t)
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	for off := int64(4096); off < st.Size(); off += 4096 { // every page but the first
		b := content(path)
		scribble(t, path, off, bytes.Repeat([]byte{0xa5}, 4096))
		db, err := Open(path, Options{})
		if err == nil {
			err = db.Check(t.Context())
			db.Close()
		}
		if sallyport.CodeOf(err) != sallyport.CodeCorrupt {
			t.Errorf("damage at %d: %v", off, err)
		}
		write(t, path, b)
	}
}

func TestLockedByAnotherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	db := openAt(t, path, Options{BusyTimeout: 100 * time.Millisecond})
	other, err := sql.Open("sqlite", dsn(path, time.Second, "_txlock=immediate"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	tx, err := other.Begin()
	if err != nil {
		t.Fatal(err)
	}
	att := sallyport.AttemptID(journaltest.NewID(t, "att"))
	_, err = db.Append(t.Context(), nil, journaltest.Created(att, "wo_1"))
	wantCode(t, err, sallyport.CodeUnavailable)
	if !strings.Contains(err.Error(), "locked") || !strings.Contains(err.Error(), path) || sallyport.HintOf(err) == "" {
		t.Errorf("%v, hint %q", err, sallyport.HintOf(err))
	}
	if _, err := db.Attempts(t.Context(), true); err != nil {
		t.Errorf("readers wait for a writer: %v", err)
	}
	_, err = Open(path, Options{BusyTimeout: 100 * time.Millisecond})
	wantCode(t, err, sallyport.CodeUnavailable)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Append(t.Context(), nil, journaltest.Created(att, "wo_1")); err != nil {
		t.Errorf("after the lock was given back: %v", err)
	}
}

func TestNetworkFileSystemsAreRefused(t *testing.T) {
	for magic := range networkFS {
		wantCode(t, checkFileSystem("/x", magic), sallyport.CodeUnsupported)
	}
	for _, magic := range []int64{unix.EXT4_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.OVERLAYFS_SUPER_MAGIC} {
		if err := checkFileSystem("/x", magic); err != nil {
			t.Errorf("%x: %v", magic, err)
		}
	}
}

func copySample(t *testing.T, path string) { write(t, path, content(sample(t))) }

func content(path string) []byte {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil // absent or a folder
	}
	return b
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
}

func scribble(t *testing.T, path string, off int64, b []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, off); err != nil {
		t.Fatal(err)
	}
}

func otherDatabase(t *testing.T, path string) {
	db, err := sql.Open("sqlite", dsn(path, time.Second, "_txlock=immediate"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(`CREATE TABLE cookies (name TEXT)`); err != nil {
		t.Fatal(err)
	}
}
