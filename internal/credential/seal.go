package credential

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"filippo.io/age"
	"github.com/google/renameio/v2"

	"sallyport.dev/sallyport"
)

// Sealer keeps tokens so that only the holder of the minter's key can read them again.
type Sealer struct{ identity *age.X25519Identity }

// OpenSealer reads the minter's key, or makes one: a file of mode 0600 that is durable before it is used. Of two
// processes that make it, one does. CodeDenied for a key that others can read, CodeCorrupt for one that is none.
func OpenSealer(path string) (*Sealer, error) {
	b, _, err := readOwn("minter's key", path, maxFile)
	if sallyport.CodeOf(err) == sallyport.CodeNotFound {
		if err := makeKey(path); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, &sallyport.Error{Op: "make the minter's key", Code: sallyport.CodeUnavailable, Subject: path, Err: err}
		}
		b, _, err = readOwn("minter's key", path, maxFile)
	}
	if err != nil {
		return nil, err
	}
	sweepKeys(filepath.Dir(path))
	id, err := age.ParseX25519Identity(string(bytes.TrimSpace(b)))
	if err != nil {
		return nil, &sallyport.Error{Op: "read the minter's key", Code: sallyport.CodeCorrupt, Subject: path, Message: "it is no age identity; tokens sealed to it cannot be revoked"}
	}
	return &Sealer{id}, nil
}

// newKey is what a key is called while it is written.
const newKey = ".minter-*"

// sweepKeys removes what one who was killed while making a key has left; nobody takes a minute for it.
func sweepKeys(dir string) {
	halves, _ := filepath.Glob(filepath.Join(dir, newKey))
	for _, h := range halves {
		if fi, err := os.Lstat(h); err == nil && time.Since(fi.ModTime()) > time.Minute {
			_ = os.Remove(h)
		}
	}
}

// makeKey writes the key beside its place and links it there, so that what is there is whole.
func makeKey(path string) error {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, newKey) // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(id.String() + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil {
		return err
	}
	return syncFolder(dir)
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// Encrypt seals b to the minter's key.
func (s *Sealer) Encrypt(b []byte) ([]byte, error) {
	var sealed bytes.Buffer
	w, err := age.Encrypt(&sealed, s.identity.Recipient())
	if err != nil {
		return nil, err
	}
	_, err = w.Write(b)
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	return sealed.Bytes(), nil
}

// Decrypt is the inverse of Encrypt. An error: it was not sealed to this key, or was changed.
func (s *Sealer) Decrypt(sealed []byte) ([]byte, error) {
	r, err := age.Decrypt(bytes.NewReader(sealed), s.identity)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, maxFile))
}

// Seal writes t, sealed, durably to path with mode 0600.
func (s *Sealer) Seal(path string, t Token) error {
	b, err := json.Marshal(t)
	if err != nil {
		return err
	}
	sealed, err := s.Encrypt(b)
	if err != nil {
		return err
	}
	return writeDurable(path, sealed, 0o600)
}

// Unseal reads what Seal wrote. CodeNotFound: nothing is there; CodeCorrupt: it is not this minter's.
func (s *Sealer) Unseal(path string) (Token, error) {
	corrupt := &sallyport.Error{Op: "unseal a token", Code: sallyport.CodeCorrupt, Subject: path, Message: "it was not sealed to this minter's key, or was changed"}
	sealed, _, err := readOwn("sealed token", path, maxFile)
	if err != nil {
		return Token{}, err
	}
	b, err := s.Decrypt(sealed)
	if err != nil {
		return Token{}, corrupt
	}
	var t Token
	if err := json.Unmarshal(b, &t); err != nil || t.Value == "" || t.BaseURL == "" {
		return Token{}, corrupt
	}
	return t, nil
}

// writeDurable replaces a file: whole, on disk, and its folder too.
func writeDurable(path string, b []byte, mode fs.FileMode) error {
	dir := filepath.Dir(path)
	if err := renameio.WriteFile(path, b, mode, renameio.WithTempDir(dir), renameio.IgnoreUmask()); err != nil {
		return &sallyport.Error{Op: "write", Code: sallyport.CodeUnavailable, Subject: path, Err: err}
	}
	if err := syncFolder(dir); err != nil {
		return &sallyport.Error{Op: "write", Code: sallyport.CodeUnavailable, Subject: dir, Err: err}
	}
	return nil
}
