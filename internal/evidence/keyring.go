package evidence

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"sallyport.dev/sallyport"
)

// KeyLifetime is how long a new key may sign. Long enough that rotation is not a chore on one machine, short
// enough that a forgotten backup of a key does not sign for ever.
const KeyLifetime = 365 * 24 * time.Hour

// backdate is taken off a new key's beginning: hosts that share a folder disagree by seconds.
const backdate = time.Minute

// Keyring is a folder of private keys, one of them current:
//
//	DIR/            0700
//	  current       key id of the key that signs
//	  ID.pem        PKCS #8 private key; ID is the 16 hexadecimal characters of the key id
//	  ID.json       its validity: {"key_id","not_before","not_after"}
//	  ID.rotation   the envelope by which the key before introduced this one; absent for the first
//	  lock          flock: one writer at a time
//
// All files are 0600 and owned by the user; anything wider is refused, as the key may have been read. All
// methods are safe for concurrent use, also by several processes.
type Keyring struct {
	dir string
	now func() time.Time

	mu      sync.Mutex
	current string // key id
	keys    map[string]keyFile
}

type keyFile struct {
	public  PublicKey
	private ed25519.PrivateKey
}

// validity is the side file.
type validity struct {
	KeyID     string `json:"key_id"`
	NotBefore string `json:"not_before"`
	NotAfter  string `json:"not_after"`
}

// OpenKeyring opens the key folder and makes it, with a first key, where there is none; its parent must
// exist. Wrong permissions or owner: CodeDenied. Files that contradict each other: CodeCorrupt; no key is
// ever overwritten or removed to get further. Nothing needs to be closed.
func OpenKeyring(dir string) (*Keyring, error) { return openKeyring(dir, time.Now) }

func openKeyring(dir string, now func() time.Time) (*Keyring, error) {
	k := &Keyring{dir: dir, now: now}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, k.fault(sallyport.CodeUnavailable, dir, "cannot make the key folder", err)
	}
	if err := checkPrivate(dir, true); err != nil {
		return nil, err
	}
	err := k.locked(func() error {
		if err := k.load(); err != nil {
			return err
		}
		if k.current != "" {
			return k.finishRotation()
		}
		return k.begin()
	})
	if err != nil {
		return nil, err
	}
	return k, nil
}

// locked runs f as the only one of all processes that use this folder.
func (k *Keyring) locked(f func() error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	path := filepath.Join(k.dir, "lock")
	l, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return k.fault(sallyport.CodeUnavailable, path, "cannot open the lock", err)
	}
	defer l.Close()
	if err := syscall.Flock(int(l.Fd()), syscall.LOCK_EX); err != nil {
		return k.fault(sallyport.CodeUnavailable, path, "cannot take the lock", err)
	}
	// Whoever writes has the lock, so what is half-written now is of one who was killed. It may hold a key.
	halves, err := filepath.Glob(filepath.Join(k.dir, newFile))
	if err != nil {
		return k.fault(sallyport.CodeInvalid, k.dir, "cannot be searched", err)
	}
	for _, h := range halves {
		_ = os.Remove(h)
	}
	return f()
}

// newFile is what a file is called while it is written.
const newFile = ".new-*"

// begin finds a folder without a current key: new, or left by a crash between a first key and its
// appointment. In the second case that key is appointed; more than one can only mean that "current" was lost.
func (k *Keyring) begin() error {
	if len(k.keys) > 1 {
		return k.fault(sallyport.CodeCorrupt, filepath.Join(k.dir, "current"), "expected the id of the key that signs; the file is gone and there are several keys", nil)
	}
	for id := range k.keys {
		return k.appoint(id)
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return k.fault(sallyport.CodeUnavailable, k.dir, "no randomness", err)
	}
	key, err := k.add(private)
	if err != nil {
		return err
	}
	return k.appoint(key.public.ID)
}

// add makes a key durable. The side file comes first: a key without one is never found.
func (k *Keyring) add(private ed25519.PrivateKey) (keyFile, error) {
	public := private.Public().(ed25519.PublicKey)
	begin := k.now().UTC().Truncate(time.Second).Add(-backdate)
	key := keyFile{PublicKey{KeyID(public), public, begin, begin.Add(KeyLifetime)}, private}
	if err := k.writeValidity(key.public); err != nil {
		return key, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return key, k.fault(sallyport.CodeInvalid, k.dir, "the key cannot be encoded", err)
	}
	if err := k.write(stem(key.public.ID)+".pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})); err != nil {
		return key, err
	}
	k.keys[key.public.ID] = key
	return key, nil
}

// appoint is the commit point of a first key and of a rotation: before it the old key signs, after it the new.
func (k *Keyring) appoint(id string) error {
	if err := k.write("current", []byte(id+"\n")); err != nil {
		return err
	}
	k.current = id
	return nil
}

func (k *Keyring) writeValidity(p PublicKey) error {
	b, err := json.Marshal(validity{p.ID, Time(p.NotBefore), Time(p.NotAfter)})
	if err != nil {
		return k.fault(sallyport.CodeInvalid, p.ID, "the validity cannot be encoded", err)
	}
	return k.write(stem(p.ID)+".json", append(b, '\n'))
}

// write replaces a file as a whole: temporary file, fsync, rename, fsync of the folder.
func (k *Keyring) write(name string, data []byte) error {
	path := filepath.Join(k.dir, name)
	f, err := os.CreateTemp(k.dir, newFile) // 0600
	if err != nil {
		return k.fault(sallyport.CodeUnavailable, path, "cannot write", err)
	}
	defer os.Remove(f.Name()) // gone already when the rename succeeded
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err == nil {
		err = syncDir(k.dir)
	}
	if err != nil {
		return k.fault(sallyport.CodeUnavailable, path, "cannot write", err)
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// load reads the folder afresh.
func (k *Keyring) load() error {
	keys := map[string]keyFile{}
	entries, err := os.ReadDir(k.dir)
	if err != nil {
		return k.fault(sallyport.CodeUnavailable, k.dir, "cannot list the key folder", err)
	}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".pem"); ok {
			key, err := k.loadKey(name)
			if err != nil {
				return err
			}
			keys[key.public.ID] = key
		}
	}
	k.keys, k.current = keys, ""
	b, err := k.read("current")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	id := strings.TrimSuffix(string(b), "\n")
	if _, ok := keys[id]; !ok {
		return k.fault(sallyport.CodeCorrupt, filepath.Join(k.dir, "current"), "expected the id of a key in this folder", nil)
	}
	k.current = id
	return nil
}

func (k *Keyring) loadKey(name string) (keyFile, error) {
	var key keyFile
	path := filepath.Join(k.dir, name+".pem")
	corrupt := func(message string) (keyFile, error) {
		return key, k.fault(sallyport.CodeCorrupt, path, message, nil)
	}
	b, err := k.read(name + ".pem")
	if err != nil {
		return key, err
	}
	// Decoding errors are not passed on: they could quote the key.
	block, rest := pem.Decode(b)
	if block == nil || block.Type != "PRIVATE KEY" || len(bytes.TrimSpace(rest)) > 0 {
		return corrupt("expected one PKCS #8 private key in PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return corrupt("expected a PKCS #8 private key")
	}
	private, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return corrupt("expected an Ed25519 key")
	}
	key.private = private
	key.public.Key = private.Public().(ed25519.PublicKey)
	key.public.ID = KeyID(key.public.Key)
	if stem(key.public.ID) != name {
		return corrupt("expected the key that the file is named after")
	}
	if err := k.loadValidity(&key.public); err != nil {
		return key, err
	}
	return key, nil
}

func (k *Keyring) loadValidity(p *PublicKey) error {
	name := stem(p.ID) + ".json"
	corrupt := func(err error) error {
		return k.fault(sallyport.CodeCorrupt, filepath.Join(k.dir, name), "expected the key's id, not_before and not_after", err)
	}
	b, err := k.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return corrupt(err)
	}
	if err != nil {
		return err
	}
	if err := checkJSON(b); err != nil {
		return corrupt(err)
	}
	if _, err := members(b, name, "key_id", "not_before", "not_after"); err != nil {
		return corrupt(err)
	}
	var v validity
	if err := json.Unmarshal(b, &v); err != nil {
		return corrupt(err)
	}
	var err1, err2 error
	p.NotBefore, err1 = parseTime(v.NotBefore)
	p.NotAfter, err2 = parseTime(v.NotAfter)
	if err := errors.Join(err1, err2); err != nil || v.KeyID != p.ID {
		return corrupt(err)
	}
	if err := p.Check(); err != nil {
		return corrupt(err)
	}
	return nil
}

// read opens without following links and looks at what was opened, not at the name.
func (k *Keyring) read(name string) ([]byte, error) {
	path := filepath.Join(k.dir, name)
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, k.fault(sallyport.CodeUnavailable, path, "cannot read", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, k.fault(sallyport.CodeUnavailable, path, "cannot read", err)
	}
	if err := checkInfo(path, info, false); err != nil {
		return nil, err
	}
	const limit = 64 << 10
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil || len(b) > limit {
		return nil, k.fault(sallyport.CodeCorrupt, path, "expected a small file", err)
	}
	return b, nil
}

func checkPrivate(path string, dir bool) error {
	info, err := os.Lstat(path)
	if err != nil {
		return &sallyport.Error{Op: "open keyring", Code: sallyport.CodeUnavailable, Subject: path, Err: err}
	}
	return checkInfo(path, info, dir)
}

// checkInfo fails closed: a key that others could read may have signed for them, one that they could write
// may be theirs.
func checkInfo(path string, info fs.FileInfo, dir bool) error {
	e := &sallyport.Error{Op: "open keyring", Code: sallyport.CodeDenied, Subject: path}
	want := "0600"
	if dir {
		want = "0700"
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case dir && !info.IsDir(), !dir && !info.Mode().IsRegular():
		e.Message = "expected a folder with regular files in it"
	case info.Mode().Perm()&0o077 != 0:
		e.Message = fmt.Sprintf("expected mode %s, found %04o: others may have read or replaced the key", want, info.Mode().Perm())
		e.Hint = fmt.Sprintf("if nobody else could have read it: chmod %s %s; otherwise move the folder away and let a new key be made", want, path)
	case !ok || int(st.Uid) != os.Geteuid():
		e.Message = "expected a file of the user who runs this"
		e.Hint = "run as the owner of the key folder"
	case !dir && st.Nlink != 1:
		e.Message = "expected a file with one name; a second link may lie where others can read it"
	default:
		return nil
	}
	return e
}

// Signer is the current key. CodeDenied outside its validity: verifiers would refuse what it signs.
func (k *Keyring) Signer() (Signer, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key := k.keys[k.current]
	if now := k.now(); !key.public.ValidAt(now) {
		e := k.fault(sallyport.CodeDenied, k.current, fmt.Sprintf("the key is valid from %s to %s only", Time(key.public.NotBefore), Time(key.public.NotAfter)), nil).(*sallyport.Error)
		e.Hint = "check the clock; if it is right, rotate the key: sallyport keys --rotate"
		return nil, e
	}
	return key, nil
}

func (k keyFile) KeyID() string             { return k.public.ID }
func (k keyFile) Public() ed25519.PublicKey { return slices.Clone(k.public.Key) }
func (k keyFile) Sign(_ context.Context, msg []byte) ([]byte, error) {
	return ed25519.Sign(k.private, msg), nil
}

// Keys lists every public key of the folder, current first, then the newest.
func (k *Keyring) Keys() []PublicKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []PublicKey
	for _, key := range k.keys {
		out = append(out, key.public)
	}
	slices.SortFunc(out, func(a, b PublicKey) int {
		if (a.ID == k.current) != (b.ID == k.current) {
			if a.ID == k.current {
				return -1
			}
			return 1
		}
		if c := b.NotBefore.Compare(a.NotBefore); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return out
}

// Public is the file to hand out: all keys with their validities, for ParsePublicKeys.
func (k *Keyring) Public() ([]byte, error) { return MarshalPublicKeys(k.Keys()) }

// fault is an error about the keyring; it never holds a key's bytes.
func (k *Keyring) fault(code sallyport.Code, subject, message string, err error) error {
	return &sallyport.Error{Op: "keyring", Code: code, Subject: subject, Message: message, Err: err}
}

func stem(id string) string { return strings.TrimPrefix(id, "ed25519:") }
