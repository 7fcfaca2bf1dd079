package credential

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
)

const (
	refreshTimeout = 30 * time.Second
	lockWait       = time.Minute // two refreshes of somebody else's
	lockEvery      = 50 * time.Millisecond
	lastUse        = 30 * time.Second // a token that cannot be refreshed now is used until this shortly before its end
)

// fromLogin is the access token of a login. A refresh token may be good for one use only, so the road of a new one to
// the file has no step at which it could be lost by us:
//
//	lock       one process of ours at a time; what another one did meanwhile is read again
//	answer     the endpoint has made the old token void
//	journal    the answer is on disk beside the file: a kill before here loses it, one after here does not: resume
//	file       replaced whole, on disk
//	journal    removed
//
// Where it is known how the tool locks, its locks are taken as well. Where it was faster all the same the endpoint
// refuses our token, and what the tool wrote is read.
func (s *Set) fromLogin(ctx context.Context, e *entry) (Secret, error) {
	l, err := loginNamed(e.Source.Login, s.deps.Logins)
	if err != nil {
		return Secret{}, err
	}
	path := l.path(s.deps.Home, s.deps.Getenv)
	st, err := l.look(e.Name, path)
	if err != nil {
		return Secret{}, err
	}
	// The old ones too: they may go on being good.
	if err := s.hearAll(e, l.tokens(e.Name, st)); err != nil {
		return Secret{}, err
	}
	if _, err := os.Lstat(journalOf(path)); err == nil || !s.fresh(st) {
		if st, err = s.refreshed(ctx, e, l, path); err != nil {
			return Secret{}, err
		}
	}
	if err := s.hearAll(e, l.tokens(e.Name, st)); err != nil {
		return Secret{}, err
	}
	return usable(e.Name, []byte(st.access))
}

func (s *Set) fresh(st state) bool { return s.deps.Now().Before(st.expires.Add(-renewBefore)) }

func journalOf(path string) string { return path + ".sallyport-refresh" }
func lockOf(path string) string    { return path + ".sallyport-lock" }

// rotation is the answer of an endpoint on its way to the file.
type rotation struct {
	Version int    `json:"version"`
	Was     string `json:"was"` // SHA-256 of the refresh token that it replaces
	Edits   []edit `json:"edits"`
}

func digestOf(refresh string) string {
	sum := sha256.Sum256([]byte(refresh))
	return hex.EncodeToString(sum[:])
}

func (s *Set) refreshed(ctx context.Context, e *entry, l login, path string) (state, error) {
	unlock, err := s.lock(ctx, e.Name, lockOf(path))
	if err != nil {
		return state{}, err
	}
	defer unlock()
	for _, lock := range l.locks(path) {
		release, err := toolLock(ctx, e.Name, lock)
		if err != nil {
			return state{}, err
		}
		defer release()
	}
	if err := s.resume(e.Name, l, path); err != nil {
		return state{}, err
	}
	st, err := l.look(e.Name, path)
	if err != nil || s.fresh(st) {
		return st, err
	}
	if st.refresh == "" {
		if s.deps.Now().Before(st.expires) {
			return st, nil
		}
		return st, failure(sallyport.CodeDenied, e.Name, path+": the login has ended and holds nothing to refresh it with", "log in again: "+l.Login)
	}
	r, err := s.exchange(ctx, e, l, st)
	if err != nil {
		return s.without(e, l, path, st, err)
	}
	s.reached("answer")
	b, err := json.Marshal(r)
	if err != nil {
		return st, err
	}
	// Commit point. Killed before: the answer is lost with us. Killed after: resume brings it to the file.
	if err := writeDurable(journalOf(path), b, 0o600); err != nil {
		return st, err
	}
	s.reached("journal")
	if err := s.apply(e.Name, l, path, r); err != nil {
		return st, err
	}
	s.reached("file")
	if err := s.forget(path); err != nil {
		return st, err
	}
	return l.look(e.Name, path)
}

// reached is for tests, which end the process there.
func (s *Set) reached(step string) {
	if s.at != nil {
		s.at(step)
	}
}

// without decides what is used after a refresh that failed.
func (s *Set) without(e *entry, l login, path string, st state, cause error) (state, error) {
	again, err := l.look(e.Name, path)
	switch {
	case err == nil && again.refresh != st.refresh && s.fresh(again):
		return again, nil // the tool was faster
	case sallyport.CodeOf(cause) != sallyport.CodeDenied && s.deps.Now().Before(st.expires.Add(-lastUse)):
		return st, nil // it is good for a while
	}
	return st, cause
}

// exchange asks the endpoint for new tokens. Once it is asked the caller's patience does not count any more.
func (s *Set) exchange(ctx context.Context, e *entry, l login, st state) (rotation, error) {
	ask := map[string]string{"grant_type": "refresh_token", "refresh_token": st.refresh, "client_id": st.clients}
	if st.scope != "" {
		ask["scope"] = st.scope
	}
	body, err := json.Marshal(ask)
	if err != nil {
		return rotation{}, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refreshTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.Endpoint, bytes.NewReader(body))
	if err != nil {
		return rotation{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "sallyport")
	status, answer, err := do(s.deps.Client, req)
	switch {
	case err != nil:
		return rotation{}, failure(sallyport.CodeUnavailable, e.Name, "the token endpoint did not answer: "+err.Error(), "")
	case status >= 400 && status < 500 && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout:
		return rotation{}, failure(sallyport.CodeDenied, e.Name, fmt.Sprintf("the token endpoint refuses the login (%d)", status), "log in again: "+l.Login)
	case status != http.StatusOK:
		return rotation{}, failure(sallyport.CodeUnavailable, e.Name, fmt.Sprintf("the token endpoint answers %d; expected 200", status), "")
	}
	return s.rotated(e, l, st, answer)
}

func (s *Set) rotated(e *entry, l login, st state, answer []byte) (rotation, error) {
	bad := failure(sallyport.CodeUnavailable, e.Name, "the token endpoint's answer cannot be read", "")
	var all map[string]json.RawMessage
	if err := json.Unmarshal(answer, &all); err != nil {
		return rotation{}, bad
	}
	r := rotation{Version: 1, Was: digestOf(st.refresh)}
	access := ""
	for name, path := range l.Answer {
		raw, ok := all[name]
		if !ok || string(raw) == "null" {
			continue
		}
		var value string
		if json.Unmarshal(raw, &value) != nil || value == "" {
			return rotation{}, bad
		}
		if name == "access_token" {
			access = value
		}
		if err := s.hear(e, e.Name+"."+name, Secretly(value)); err != nil {
			return rotation{}, err
		}
		r.Edits = append(r.Edits, edit{path, raw})
	}
	if access == "" {
		return rotation{}, bad
	}
	now := s.deps.Now()
	if len(l.Expires) > 0 {
		var seconds float64
		if json.Unmarshal(all["expires_in"], &seconds) != nil || seconds <= 0 || seconds > 10*365*24*3600 {
			return rotation{}, bad
		}
		r.Edits = append(r.Edits, edit{l.Expires, json.RawMessage(fmt.Sprint(now.Add(time.Duration(seconds * float64(time.Second))).UnixMilli()))})
	}
	if len(l.RefreshedAt) > 0 {
		b, err := json.Marshal(now.UTC().Format(time.RFC3339Nano))
		if err != nil {
			return rotation{}, err
		}
		r.Edits = append(r.Edits, edit{l.RefreshedAt, b})
	}
	slices.SortFunc(r.Edits, func(a, b edit) int { return slices.Compare(a.Path, b.Path) })
	return r, nil
}

// resume brings an answer to the file that an earlier process had on disk and no more.
func (s *Set) resume(name string, l login, path string) error {
	b, _, err := readOwn(name, journalOf(path), maxAnswer)
	if sallyport.CodeOf(err) == sallyport.CodeNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	var r rotation
	if err := json.Unmarshal(b, &r); err != nil || r.Version != 1 {
		return failure(sallyport.CodeCorrupt, name, journalOf(path)+" is not a refresh that this version wrote", "look at it: it may hold the only copy of a refresh token")
	}
	if err := s.apply(name, l, path, r); err != nil {
		return err
	}
	return s.forget(path)
}

// apply writes an answer to the file that still holds the refresh token it replaces. A file that holds another one was
// written already, or by somebody who logged in since: it stays.
func (s *Set) apply(name string, l login, path string, r rotation) error {
	st, err := l.look(name, path)
	if err != nil {
		return err
	}
	if digestOf(st.refresh) != r.Was {
		return nil
	}
	doc, err := edited(st.doc, r.Edits)
	if err != nil {
		return failure(sallyport.CodeInvalid, name, path+": "+err.Error(), "log in again: "+l.Login)
	}
	return writeDurable(path, doc, st.mode)
}

func (s *Set) forget(path string) error {
	if err := os.Remove(journalOf(path)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return &sallyport.Error{Op: "refresh a login", Code: sallyport.CodeUnavailable, Subject: journalOf(path), Err: err}
	}
	if err := syncFolder(filepath.Dir(path)); err != nil {
		return &sallyport.Error{Op: "refresh a login", Code: sallyport.CodeUnavailable, Subject: path, Err: err}
	}
	return nil
}

// lock waits for the one who refreshes. The kernel gives the lock back whatever happens to its holder.
func (s *Set) lock(ctx context.Context, name, path string) (unlock func(), err error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, failure(sallyport.CodeUnavailable, name, fmt.Sprintf("cannot open %s: %v", path, err), "the folder of a login must be writable, so that a new refresh token can be kept")
	}
	deadline := time.Now().Add(lockWait)
	for {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = unix.Close(fd) }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) || time.Now().After(deadline) {
			_ = unix.Close(fd)
			return nil, failure(sallyport.CodeUnavailable, name, fmt.Sprintf("cannot lock %s: %v", path, err), "another process refreshes the login")
		}
		select {
		case <-ctx.Done():
			_ = unix.Close(fd)
			return nil, failure(sallyport.CodeUnavailable, name, "another process refreshes the login, and nobody waits any more", "")
		case <-time.After(lockEvery):
		}
	}
}
