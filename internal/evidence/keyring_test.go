package evidence

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport.dev/sallyport"
)

func clockAt(s string) func() time.Time { return func() time.Time { return date(s) } }

func TestKeyringKeepsItsKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	var ids []string
	for range 3 {
		k, err := OpenKeyring(dir)
		if err != nil {
			t.Fatal(err)
		}
		s, err := k.Signer()
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, s.KeyID())
	}
	if ids[0] != ids[1] || ids[1] != ids[2] || !strings.HasPrefix(ids[0], "ed25519:") || len(ids[0]) != 8+16 {
		t.Errorf("ids %v", ids)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != 0o600 || strings.HasPrefix(e.Name(), ".new") {
			t.Errorf("%s has mode %v", e.Name(), info.Mode())
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder: %v, %v", info, err)
	}
}

// What one who was killed has left of a key goes with the next who opens the folder.
func TestKeyringKeepsNoHalf(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	if _, err := OpenKeyring(dir); err != nil {
		t.Fatal(err)
	}
	half := filepath.Join(dir, ".new-123456789")
	if err := os.WriteFile(half, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenKeyring(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(half); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
}

func TestKeyringManyOpenersOneKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	var wg sync.WaitGroup
	ids := make([]string, 8)
	for i := range ids {
		wg.Go(func() {
			k, err := OpenKeyring(dir)
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = k.Keys()[0].ID
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Fatalf("ids %v", ids)
		}
	}
}

func TestKeyringRefusesWhatOthersCouldReadOrReplace(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(dir, key string) error
		want  sallyport.Code
	}{
		{"key readable by the group", func(_, key string) error { return os.Chmod(key, 0o640) }, sallyport.CodeDenied},
		{"key readable by others", func(_, key string) error { return os.Chmod(key, 0o604) }, sallyport.CodeDenied},
		{"folder open", func(dir, _ string) error { return os.Chmod(dir, 0o755) }, sallyport.CodeDenied},
		{"validity writable", func(_, key string) error { return os.Chmod(strings.TrimSuffix(key, "pem")+"json", 0o622) }, sallyport.CodeDenied},
		{"second link", func(dir, key string) error { return os.Link(key, dir+"-copy") }, sallyport.CodeDenied},
		{"symbolic link", func(dir, key string) error {
			if err := os.Rename(key, dir+"-moved"); err != nil {
				return err
			}
			return os.Symlink(dir+"-moved", key)
		}, sallyport.CodeUnavailable},
		{"key truncated", func(_, key string) error { return os.Truncate(key, 40) }, sallyport.CodeCorrupt},
		{"validity gone", func(_, key string) error { return os.Remove(strings.TrimSuffix(key, "pem") + "json") }, sallyport.CodeCorrupt},
		{"key gone", func(_, key string) error { return os.Remove(key) }, sallyport.CodeCorrupt},
		{"current elsewhere", func(dir, _ string) error {
			return os.WriteFile(filepath.Join(dir, "current"), []byte("ed25519:0000000000000000\n"), 0o600)
		}, sallyport.CodeCorrupt},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "keys")
			if _, err := OpenKeyring(dir); err != nil {
				t.Fatal(err)
			}
			pems, err := filepath.Glob(filepath.Join(dir, "*.pem"))
			if err != nil || len(pems) != 1 {
				t.Fatal(pems, err)
			}
			raw, err := os.ReadFile(pems[0])
			if err != nil {
				t.Fatal(err)
			}
			if err := c.spoil(dir, pems[0]); err != nil {
				t.Fatal(err)
			}
			_, err = OpenKeyring(dir)
			if err == nil || sallyport.CodeOf(err) != c.want {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			for _, line := range strings.Split(string(raw), "\n") {
				if len(line) > 20 && !strings.HasPrefix(line, "-") && strings.Contains(err.Error(), line) {
					t.Error("the error holds the key")
				}
			}
		})
	}
}

func TestKeyringAdoptsAnUnappointedFirstKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	k, err := OpenKeyring(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "current")); err != nil { // killed just before the commit point
		t.Fatal(err)
	}
	again, err := OpenKeyring(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(again.Keys()) != 1 || again.Keys()[0].ID != k.Keys()[0].ID {
		t.Errorf("got %v", again.Keys())
	}
	if _, err := again.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "current")); err != nil { // with two keys nobody can know
		t.Fatal(err)
	}
	if _, err := OpenKeyring(dir); sallyport.CodeOf(err) != sallyport.CodeCorrupt {
		t.Errorf("got %v, want corrupt", err)
	}
}

func TestKeyringRotate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	k, err := openKeyring(dir, clockAt("2030-01-01T00:00:00Z"))
	if err != nil {
		t.Fatal(err)
	}
	first := k.Keys()[0]
	signer, err := k.Signer()
	if err != nil {
		t.Fatal(err)
	}
	before := sealed(t, signer, func(p *Predicate) {
		p.Started, p.Ended, p.Signed = "2030-02-01T00:00:00Z", "2030-02-01T00:00:00Z", "2030-02-01T00:00:00Z"
	})
	after := sealed(t, signer, nil) // signed in June with the key that ends in March

	k.now = clockAt("2030-03-01T00:00:00Z")
	record, err := k.Rotate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	old, next, err := VerifyRotation(record.Envelope, first)
	if err != nil {
		t.Fatal(err)
	}
	now, err := k.Signer()
	if err != nil {
		t.Fatal(err)
	}
	if next.ID != now.KeyID() || next.ID == first.ID || !old.NotAfter.Equal(date("2030-03-01T00:00:00Z")) {
		t.Errorf("old %+v next %+v", old, next)
	}
	if list := k.Keys(); len(list) != 2 || list[0].ID != next.ID || !list[1].NotAfter.Equal(old.NotAfter) {
		t.Errorf("keys right after the rotation: %+v", list)
	}
	reopened, err := openKeyring(dir, k.now)
	if err != nil {
		t.Fatal(err)
	}
	public, err := reopened.Public()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := ParsePublicKeys(public)
	if err != nil || len(keys) != 2 || keys[0].ID != next.ID {
		t.Fatalf("keys %v, %v", keys, err)
	}
	if _, err := Verify(before, keys, Expect{}); err != nil {
		t.Errorf("evidence from before the rotation: %v", err)
	}
	if _, err := Verify(after, keys, Expect{}); sallyport.CodeOf(err) != sallyport.CodeDenied {
		t.Errorf("evidence by the old key after the rotation: got %v, want denied", err)
	}
	list, err := reopened.Rotations()
	if err != nil || len(list) != 1 || !bytes.Equal(list[0].Envelope, record.Envelope) {
		t.Errorf("rotations %v, %v", list, err)
	}
	if _, _, err := VerifyRotation(record.Envelope, next); err == nil {
		t.Error("a rotation from another key was accepted")
	}
	if _, _, err := VerifyRotation(bytes.Replace(record.Envelope, []byte(`"signatures":[`), []byte(`"signatures":[ `), 1), first); err != nil {
		t.Errorf("white space: %v", err)
	}
}

// TestRotationCutShort: killed between the appointment and the end of the old key's validity.
func TestRotationCutShort(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	k, err := openKeyring(dir, clockAt("2030-01-01T00:00:00Z"))
	if err != nil {
		t.Fatal(err)
	}
	first := k.Keys()[0]
	side := filepath.Join(dir, stem(first.ID)+".json")
	long, err := os.ReadFile(side)
	if err != nil {
		t.Fatal(err)
	}
	k.now = clockAt("2030-03-01T00:00:00Z")
	if _, err := k.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(side, long, 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := openKeyring(dir, k.now)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range again.Keys() {
		if key.ID == first.ID && !key.NotAfter.Equal(date("2030-03-01T00:00:00Z")) {
			t.Errorf("the old key still ends at %v", key.NotAfter)
		}
	}
}

func TestRotationMustBeSignedByBoth(t *testing.T) {
	a, b := signerOf(1), signerOf(2)
	k := &Keyring{now: clockAt("2030-03-01T00:00:00Z")}
	r, err := k.introduce(t.Context(), keyFile{a.trusted(), a.key}, keyFile{b.trusted(), b.key})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := VerifyRotation(r.Envelope, a.trusted()); err != nil {
		t.Fatal(err)
	}
	e, err := parseEnvelope(r.Envelope, RotationType)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []Signer{a, b} {
		alone, _, err := sealBytes(t.Context(), RotationType, e.payload, s)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := VerifyRotation(alone, a.trusted()); sallyport.CodeOf(err) != sallyport.CodeDenied {
			t.Errorf("signed by %s alone: got %v, want denied", s.KeyID(), err)
		}
	}
}

func TestKeyExpires(t *testing.T) {
	k, err := openKeyring(filepath.Join(t.TempDir(), "keys"), clockAt("2030-01-01T00:00:00Z"))
	if err != nil {
		t.Fatal(err)
	}
	k.now = clockAt("2031-01-02T00:00:00Z")
	if _, err := k.Signer(); sallyport.CodeOf(err) != sallyport.CodeDenied || sallyport.HintOf(err) == "" {
		t.Errorf("got %v, want denied with a hint", err)
	}
	r, err := k.Rotate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.Rotation.OldNotAfter >= "2031-01-02" {
		t.Errorf("the expired key was made to last until %s", r.Rotation.OldNotAfter)
	}
	if _, err := k.Signer(); err != nil {
		t.Errorf("after the rotation: %v", err)
	}
}

func TestParsePublicKeysStrict(t *testing.T) {
	good, err := MarshalPublicKeys([]PublicKey{signerOf(1).trusted(), signerOf(2).trusted()})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := ParsePublicKeys(append([]byte("\n"), good...))
	if err != nil || len(keys) != 2 {
		t.Fatalf("%v, %v", keys, err)
	}
	text := string(good)
	for name, bad := range map[string]string{
		"empty":       "",
		"no validity": text[strings.Index(text, pemBegin):],
		"other id":    strings.Replace(text, signerOf(1).KeyID(), signerOf(2).KeyID(), 1),
		"no end":      strings.Replace(text, "# not-after 2030-12-31T00:00:00Z", "# not-after ", 1),
		"reversed":    strings.Replace(text, "# not-after 2030-12-31T00:00:00Z", "# not-after 2029-12-31T00:00:00Z", 1),
		"cut":         text[:len(text)-10],
		"private key": strings.ReplaceAll(text, "PUBLIC KEY", "PRIVATE KEY"),
		"text after":  text + "hello\n",
	} {
		if _, err := ParsePublicKeys([]byte(bad)); sallyport.CodeOf(err) != sallyport.CodeInvalid {
			t.Errorf("%s: got %v, want invalid", name, err)
		}
	}
}
