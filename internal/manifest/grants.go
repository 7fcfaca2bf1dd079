package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

// Grants is the file in which the invoking user, as operator, keeps what was granted to which repository.
// It is JSON with mode 0600, replaced atomically; several processes may use it at once. A file that cannot
// be understood is CodeCorrupt, never "nothing granted": that answer would silently forget a refusal's
// reason. A missing file holds no grant.
type Grants struct{ path string }

// Granting is one entry.
type Granting struct {
	Repository string           `json:"repository"` // absolute path of the work tree
	Digest     sallyport.Digest `json:"digest"`     // AsksDigest
	Asks       []Ask            `json:"asks"`       // as shown when it was granted
	At         time.Time        `json:"at"`         // UTC
}

type grantsFile struct {
	Version int        `json:"version"`
	Grants  []Granting `json:"grants"`
}

const maxGrantsBytes = 8 << 20

// OpenGrants names the store; nothing is read or made yet.
func OpenGrants(path string) *Grants { return &Grants{path: path} }

// GrantsPath is the store's place below the user's configuration folder (os.UserConfigDir).
func GrantsPath(configDir string) string { return filepath.Join(configDir, "sallyport", "grants.json") }

// Granted reports whether exactly digest was granted to repository.
func (g *Grants) Granted(repository string, digest sallyport.Digest) (bool, error) {
	list, err := g.List()
	return slices.ContainsFunc(list, func(x Granting) bool { return x.Repository == repository && x.Digest == digest }), err
}

// List returns all grants, by repository and time.
func (g *Grants) List() ([]Granting, error) {
	f, err := g.read()
	slices.SortStableFunc(f.Grants, func(a, b Granting) int {
		if c := strings.Compare(a.Repository, b.Repository); c != 0 {
			return c
		}
		return a.At.Compare(b.At)
	})
	return f.Grants, err
}

// Grant records that what rep asks for was granted to repository at now. Again: the old entry stays. It
// returns after the file is durable.
func (g *Grants) Grant(repository string, rep Repository, now time.Time) error {
	if !filepath.IsAbs(repository) || filepath.Clean(repository) != repository {
		return g.fail(sallyport.CodeInvalid, "expected the absolute path of a work tree", "", nil)
	}
	x := Granting{Repository: repository, Digest: AsksDigest(rep), Asks: Asks(rep), At: now.UTC().Round(0)}
	return g.change(func(list []Granting) []Granting {
		if slices.ContainsFunc(list, func(y Granting) bool { return y.Repository == x.Repository && y.Digest == x.Digest }) {
			return list
		}
		return append(list, x)
	})
}

// Revoke removes what was granted to repository under digest. Not there: nil.
func (g *Grants) Revoke(repository string, digest sallyport.Digest) error {
	return g.change(func(list []Granting) []Granting {
		return slices.DeleteFunc(list, func(x Granting) bool { return x.Repository == repository && x.Digest == digest })
	})
}

// change reads, edits and replaces the file under an exclusive lock, so that two grants at once are both
// kept. The lock is a file of its own: the store itself is replaced.
func (g *Grants) change(edit func([]Granting) []Granting) error {
	if err := os.MkdirAll(filepath.Dir(g.path), 0o700); err != nil {
		return g.fail(sallyport.CodeUnavailable, "its folder cannot be made", "", err)
	}
	lock, err := os.OpenFile(g.path+".lock", os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return g.fail(sallyport.CodeUnavailable, "its lock cannot be opened", "", err)
	}
	defer lock.Close() // ends the lock
	if err := flock(lock); err != nil {
		return g.fail(sallyport.CodeUnavailable, "it cannot be locked", "", err)
	}
	f, err := g.read()
	if err != nil {
		return err
	}
	f.Version, f.Grants = 1, edit(f.Grants)
	data, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return g.fail(sallyport.CodeInvalid, "a grant cannot be written as JSON", "", err)
	}
	// Commit point: before the rename the old grants stand, after it the new ones.
	if err := renameio.WriteFile(g.path, append(data, '\n'), 0o600, renameio.IgnoreUmask(), renameio.WithTempDir(filepath.Dir(g.path))); err != nil {
		return g.fail(sallyport.CodeUnavailable, "it cannot be written", "", err)
	}
	return nil
}

func flock(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func (g *Grants) read() (grantsFile, error) {
	empty := grantsFile{Version: 1, Grants: []Granting{}}
	f, err := os.OpenFile(g.path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return empty, nil
	}
	if err != nil {
		return empty, g.fail(sallyport.CodeUnavailable, "it cannot be opened", "", err)
	}
	defer f.Close()
	if err := g.checkFile(f); err != nil {
		return empty, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxGrantsBytes+1))
	if err != nil {
		return empty, g.fail(sallyport.CodeUnavailable, "it cannot be read", "", err)
	}
	return g.parse(data)
}

// checkFile refuses a store that somebody else could have written.
func (g *Grants) checkFile(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return g.fail(sallyport.CodeUnavailable, "it cannot be examined", "", err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return g.fail(sallyport.CodeCorrupt, "expected a regular file", "", nil)
	case st.Mode&0o022 != 0:
		return g.fail(sallyport.CodeDenied, fmt.Sprintf("others may write to it (mode %04o); expected 0600", st.Mode&0o7777), "look at its grants, then chmod 600 "+g.path, nil)
	case int(st.Uid) != os.Geteuid() && st.Uid != 0:
		return g.fail(sallyport.CodeDenied, fmt.Sprintf("it belongs to uid %d; expected %d", st.Uid, os.Geteuid()), "look at its grants, then change its owner", nil)
	}
	return nil
}

func (g *Grants) parse(data []byte) (grantsFile, error) {
	damaged := func(what string) (grantsFile, error) {
		return grantsFile{Grants: []Granting{}}, g.fail(sallyport.CodeCorrupt, what, "move the file away and grant again with sallyport trust", nil)
	}
	if len(data) > maxGrantsBytes {
		return damaged("it is larger than 8 MiB")
	}
	var f grantsFile
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil || f.Grants == nil {
		return damaged("it is not a list of grants")
	}
	if _, err := d.Token(); err != io.EOF {
		return damaged("something follows the list of grants")
	}
	if f.Version != 1 {
		return f, g.fail(sallyport.CodeUnsupported, fmt.Sprintf("expected version 1, found %d", f.Version), "use the version of sallyport that wrote it", nil)
	}
	for _, x := range f.Grants {
		if !filepath.IsAbs(x.Repository) || x.Digest.Check() != nil {
			return damaged("an entry has no repository path or no digest")
		}
	}
	return f, nil
}

func (g *Grants) fail(code sallyport.Code, message, hint string, err error) error {
	return &sallyport.Error{Op: "grants", Code: code, Subject: g.path, Message: message, Hint: hint, Err: err}
}
