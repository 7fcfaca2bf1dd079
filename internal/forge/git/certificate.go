package git

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
)

// CA makes an SSH key for each publication, with a certificate that the server takes because it trusts who signed it.
type CA struct {
	Certificate forge.Certificate
	// Key reads the private key that signs, in OpenSSH's or a PEM format, without a passphrase. It is asked for each certificate.
	Key func(context.Context) ([]byte, error)
	// Folder has a folder for each mark, with the key and its certificates. It is made where it is not there, and is ours alone.
	Folder string
	Now    func() time.Time // nil: time.Now
}

// The files below Folder/MARK. A forced command makes one connection good for one thing, and we read as well as push: then
// there are two certificates for the one key, each with the one command of git that it is for. Neither reaches another
// repository, and the server needs no wrapper that tells the two apart. Without a command one is good for both.
const (
	keyFile  = "key"
	readFile = "read-cert.pub"
	pushFile = "push-cert.pub"
	bothFile = "both-cert.pub"
)

// skew is how far the server's clock may be behind.
const skew = time.Minute

// A mark becomes the name of a folder.
var markForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$`)

// check also fills in what may be left out.
func (c *CA) check() error {
	if c.Certificate.Valid == 0 {
		c.Certificate.Valid = forge.DefaultCertificate
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if part, expected := c.Certificate.Check(); part != "" {
		return invalid(part, expected)
	}
	if c.Key == nil || !filepath.IsAbs(c.Folder) {
		return invalid("certificates", "expected the key of who signs them, and the whole path of a folder")
	}
	return nil
}

// mintCertificate makes key and certificates anew, also where an earlier call under the mark had begun.
func (d *Driver) mintCertificate(ctx context.Context, mark string) (forge.Grant, error) {
	if !markForm.MatchString(mark) {
		return forge.Grant{}, d.fail("make a certificate", sallyport.CodeInvalid, "expected a mark that is a plain name", nil)
	}
	signer, err := d.signer(ctx)
	if err != nil {
		return forge.Grant{}, err
	}
	files, expires, err := d.c.CA.issue(signer, mark, d.c.CA.Now())
	if err == nil {
		err = d.c.CA.store(mark, files)
	}
	if err != nil {
		return forge.Grant{}, d.fail("make a certificate", codeOr(err, sallyport.CodeUnavailable), "it was not made", err)
	}
	return forge.Grant{ID: mark, Key: filepath.Join(d.c.CA.Folder, mark, keyFile), Class: forge.ClassMinted, Scope: d.c.CA.scope(), Expires: expires}, nil
}

// signer reads the key of who signs. No error says anything of what is in it.
func (d *Driver) signer(ctx context.Context) (ssh.Signer, error) {
	text, err := d.c.CA.Key(ctx)
	if err != nil {
		return nil, d.fail("read the key that signs certificates", sallyport.CodeDenied, "it cannot be read", err)
	}
	signer, err := ssh.ParsePrivateKey(text)
	var locked *ssh.PassphraseMissingError
	switch {
	case errors.As(err, &locked):
		return nil, d.fail("read the key that signs certificates", sallyport.CodeInvalid, "it has a passphrase, and nobody is there to say it", nil)
	case err != nil:
		return nil, d.fail("read the key that signs certificates", sallyport.CodeInvalid, "expected a private key in OpenSSH's or a PEM format", nil)
	}
	return signer, nil
}

// scope is what was asked for: a server tells nothing.
func (c *CA) scope() []string {
	s := []string{"principal " + c.Certificate.Principal}
	if c.Certificate.Push != "" {
		s = append(s, c.Certificate.Push, c.Certificate.Read())
	}
	return s
}

// issue makes a key and its certificates, by file name.
func (c *CA) issue(signer ssh.Signer, mark string, now time.Time) (files map[string][]byte, expires time.Time, err error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, expires, err
	}
	block, err := ssh.MarshalPrivateKey(key, mark)
	if err != nil {
		return nil, expires, err
	}
	public, err := ssh.NewPublicKey(key.Public())
	if err != nil {
		return nil, expires, err
	}
	files = map[string][]byte{keyFile: pem.EncodeToMemory(block)}
	expires = now.Add(c.Certificate.Valid).Truncate(time.Second) // a certificate counts seconds
	commands := map[string]string{bothFile: ""}
	if c.Certificate.Push != "" {
		commands = map[string]string{readFile: c.Certificate.Read(), pushFile: c.Certificate.Push}
	}
	for name, command := range commands {
		cert := &ssh.Certificate{
			CertType: ssh.UserCert, Key: public, KeyId: mark, ValidPrincipals: []string{c.Certificate.Principal},
			ValidAfter: uint64(now.Add(-skew).Unix()), ValidBefore: uint64(expires.Unix()),
		}
		if files[name], err = sign(cert, command, signer); err != nil {
			return nil, expires, err
		}
	}
	return files, expires, nil
}

// sign ends a certificate, without any extension: no terminal, no forwarding of anything.
func sign(cert *ssh.Certificate, command string, signer ssh.Signer) ([]byte, error) {
	var err error
	if command != "" {
		cert.CriticalOptions = map[string]string{"force-command": command}
	}
	if cert.Serial, err = serial(); err != nil {
		return nil, err
	}
	if err := cert.SignCert(rand.Reader, signer); err != nil {
		return nil, err
	}
	return ssh.MarshalAuthorizedKey(cert), nil
}

// serial is by what an operator can put one certificate on a list of revoked ones. 0 means that there is none.
func serial() (uint64, error) {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(b[:]) | 1, nil
}

// store writes the files of one mark, and nothing of an earlier call remains. An error leaves none.
func (c *CA) store(mark string, files map[string][]byte) (err error) {
	if err := os.MkdirAll(c.Folder, 0o700); err != nil {
		return err
	}
	root, err := openFolder(c.Folder)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.RemoveAll(mark); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, root.RemoveAll(mark))
		}
	}()
	if err := root.Mkdir(mark, 0o700); err != nil {
		return err
	}
	for name, b := range files {
		if err := root.WriteFile(filepath.Join(mark, name), b, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// openFolder opens the folder of all marks, if it is ours alone: what lies in it is used without a further look.
func openFolder(folder string) (*os.Root, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	fi, err := root.Stat(".")
	if err != nil {
		root.Close()
		return nil, err
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() || fi.Mode().Perm()&0o077 != 0 {
		root.Close()
		return nil, &sallyport.Error{Op: "open the folder of certificates", Code: sallyport.CodeDenied, Subject: folder, Message: "it is not ours alone", Hint: "chmod 700 " + folder}
	}
	return root, nil
}

// certificates are the files for reading and for pushing.
func (d *Driver) certificates(g forge.Grant) (read, push string) {
	read, push = bothFile, bothFile
	if d.c.CA != nil && d.c.CA.Certificate.Push != "" {
		read, push = readFile, pushFile
	}
	dir := filepath.Dir(g.Key)
	return filepath.Join(dir, read), filepath.Join(dir, push)
}

// Revoke implements forge.Driver: the key is deleted where it was written, whatever is configured by now. No server is told:
// it would take the certificate until it expires, and nobody has the key any more.
func (d *Driver) Revoke(_ context.Context, g forge.Grant) error {
	if g.Class != forge.ClassMinted {
		return nil
	}
	dir := filepath.Dir(g.Key)
	if filepath.Base(g.Key) != keyFile || filepath.Base(dir) != g.ID || !filepath.IsAbs(dir) {
		return d.fail("delete a certificate", sallyport.CodeInvalid, "its key is not where we put one", nil)
	}
	return d.remove(filepath.Dir(dir), g.ID)
}

// RevokeMark ends what was made under a mark, if anything was. Where no certificates are made any more there is nothing to
// look for: what an earlier configuration left has expired in 15 minutes.
func (d *Driver) RevokeMark(_ context.Context, mark string) error {
	if d.c.CA == nil {
		return nil
	}
	return d.remove(d.c.CA.Folder, mark)
}

// remove deletes what lies under a mark. Gone already: nil.
func (d *Driver) remove(folder, mark string) error {
	if !markForm.MatchString(mark) {
		return d.fail("delete a certificate", sallyport.CodeInvalid, "expected a mark that is a plain name", nil)
	}
	root, err := openFolder(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return d.fail("delete a certificate", codeOr(err, sallyport.CodeUnavailable), "", err)
	}
	defer root.Close()
	if err := root.RemoveAll(mark); err != nil {
		return d.fail("delete a certificate", sallyport.CodeUnavailable, "", err)
	}
	return nil
}

// codeOr is the code that err has, or one for what has none.
func codeOr(err error, code sallyport.Code) sallyport.Code {
	var e *sallyport.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return code
}
