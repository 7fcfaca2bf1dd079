package credential

import (
	"cmp"
	"context"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"sallyport.dev/sallyport"
)

// Deps is what a Set needs of the world. The zero value of each field has a meaning of its own.
type Deps struct {
	Home   string              // what "~/" stands for; absolute
	Getenv func(string) string // nil: os.Getenv
	Now    func() time.Time    // nil: time.Now
	Client *http.Client        // for forges and token endpoints; nil: one of its own. It follows no redirect either way.
	// Ledger keeps what is minted; nil: a GitHub App is CodeUnsupported.
	Ledger Ledger
	// Logins holds files that replace the data of built-in logins (OwnLogins); nil: none.
	Logins fs.FS
	// Heard is told each value before Value returns it, so that it can be redacted wherever it turns up; nil: nobody.
	Heard func(name string, value Secret) error
}

// Set is the credentials of one Attempt. Safe for concurrent use; values are held in memory until Close.
type Set struct {
	deps  Deps
	named map[string]*entry
	mu    sync.Mutex        // over each entry's known
	at    func(step string) // tests only
}

// entry is one credential. Its mutex is held while its source is read: two requests that come at the same time run a
// command or mint a token once.
type entry struct {
	sallyport.Credential
	mu     chan struct{} // a mutex that a context can give up on; holds one value while free
	known  []Secret
	kept   Secret // of a command: read once
	minted minted
	closed bool
}

// Open takes credentials as a Manifest freezes them. Nothing is read yet. CodeInvalid: a source that is not exactly
// one; CodeUnsupported: a login that this version does not know, a GitHub App without a Ledger.
func Open(list []sallyport.Credential, deps Deps) (*Set, error) {
	if deps.Getenv == nil {
		deps.Getenv = os.Getenv
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	deps.Client = guarded(deps.Client)
	s := &Set{deps: deps, named: map[string]*entry{}}
	for _, c := range list {
		if err := s.check(c); err != nil {
			return nil, err
		}
		e := &entry{Credential: c, mu: make(chan struct{}, 1)}
		e.mu <- struct{}{}
		s.named[c.Name] = e
	}
	return s, nil
}

func (s *Set) check(c sallyport.Credential) error {
	src, said := c.Source, 0
	for _, is := range []bool{src.Env != "", src.File != "", len(src.Command) > 0, src.GitHubApp != nil, src.Login != ""} {
		if is {
			said++
		}
	}
	if _, twice := s.named[c.Name]; twice || said != 1 {
		return failure(sallyport.CodeInvalid, c.Name, "expected one credential of this name with exactly one source", "")
	}
	if src.GitHubApp != nil && s.deps.Ledger == nil {
		return failure(sallyport.CodeUnsupported, c.Name, "nothing here could record what is minted", "")
	}
	if src.Login != "" {
		_, err := loginNamed(src.Login, s.deps.Logins)
		return err
	}
	return nil
}

// guarded is a client that a server can neither send elsewhere nor keep waiting.
func guarded(c *http.Client) *http.Client {
	if c == nil {
		c = &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxIdleConns: 2, IdleConnTimeout: 10 * time.Second,
			TLSHandshakeTimeout: 10 * time.Second, MaxResponseHeaderBytes: 64 << 10}}
	}
	own := *c
	own.Timeout = cmp.Or(own.Timeout, 30*time.Second)
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &own
}

// Names are the credentials, sorted.
func (s *Set) Names() []string { return slices.Sorted(maps.Keys(s.named)) }

// Value reads one credential now. What is read again each time: variables, files, logins (which are refreshed where
// they are about to end). What is kept: a command's answer until Close, a minted token until shortly before its end.
// CodeNotFound: there is no such credential, variable or file; CodeDenied: a file that others can read, a forge that
// refuses or gives more than was asked; CodeInvalid: what was read cannot be used; CodeUnavailable: wait and try again.
// No error holds the value.
func (s *Set) Value(ctx context.Context, name string) (Secret, error) {
	e, ok := s.named[name]
	if !ok {
		return Secret{}, failure(sallyport.CodeNotFound, name, "this Attempt has no such credential", "")
	}
	select {
	case <-e.mu:
		defer func() { e.mu <- struct{}{} }()
	case <-ctx.Done():
		return Secret{}, failure(sallyport.CodeUnavailable, name, "it was not read in time", "")
	}
	if e.closed {
		return Secret{}, failure(sallyport.CodeDenied, name, "the Attempt's credentials have ended", "")
	}
	v, err := s.read(ctx, e)
	if err != nil {
		return Secret{}, err
	}
	if err := s.hear(e, e.Name, v); err != nil {
		return Secret{}, err
	}
	return v, nil
}

// hear makes a value known before anybody gets it.
func (s *Set) hear(e *entry, as string, v Secret) error {
	s.mu.Lock()
	known := slices.Contains(e.known, v)
	s.mu.Unlock()
	if known {
		return nil
	}
	if s.deps.Heard != nil {
		if err := s.deps.Heard(as, v); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e.known = append(e.known, v)
	return nil
}

func (s *Set) read(ctx context.Context, e *entry) (Secret, error) {
	switch src := e.Source; {
	case src.Env != "":
		return s.fromEnv(e)
	case src.File != "":
		return s.fromFile(e)
	case len(src.Command) > 0:
		if e.kept == (Secret{}) {
			v, err := run(ctx, e.Credential, s.deps.Home)
			if err != nil {
				return Secret{}, err
			}
			e.kept = v
		}
		return e.kept, nil
	case src.GitHubApp != nil:
		return s.mint(ctx, e)
	}
	return s.fromLogin(ctx, e)
}

func (s *Set) fromEnv(e *entry) (Secret, error) {
	name := e.Source.Env
	value := s.deps.Getenv(name)
	if value == "" {
		return Secret{}, failure(sallyport.CodeNotFound, e.Name, "the environment variable "+name+" is not set", "set "+name+" where you call sallyport; it never enters the sandbox")
	}
	return usable(e.Name, []byte(value))
}

// Ready says what of the credentials could not be read now, without asking anybody: no command is run, nothing is
// minted or refreshed. What can be read is Known afterwards. The first error of Value's kinds; all are looked at.
func (s *Set) Ready() error {
	var errs []error
	for _, name := range s.Names() {
		e := s.named[name]
		<-e.mu
		errs = append(errs, s.ready(e))
		e.mu <- struct{}{}
	}
	return firstOf(errs)
}

func (s *Set) ready(e *entry) error {
	switch src := e.Source; {
	case src.Env != "":
		v, err := s.fromEnv(e)
		return firstOf([]error{err, s.hearAll(e, map[string]string{e.Name: v.Reveal()})})
	case src.File != "":
		v, err := s.fromFile(e)
		return firstOf([]error{err, s.hearAll(e, map[string]string{e.Name: v.Reveal()})})
	case src.GitHubApp != nil:
		_, err := s.appKey(e)
		return err
	case src.Login != "":
		l, err := loginNamed(src.Login, s.deps.Logins)
		if err != nil {
			return err
		}
		st, err := l.look(e.Name, l.path(s.deps.Home, s.deps.Getenv))
		return firstOf([]error{err, s.hearAll(e, l.tokens(e.Name, st))})
	}
	return nil
}

// hearAll makes known what is there of values by name.
func (s *Set) hearAll(e *entry, values map[string]string) error {
	var errs []error
	for _, as := range slices.Sorted(maps.Keys(values)) {
		if values[as] != "" {
			errs = append(errs, s.hear(e, as, Secretly(values[as])))
		}
	}
	return firstOf(errs)
}

// Known are the values that were read so far, by the credential's name: what must be redacted.
func (s *Set) Known() map[string][]Secret {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string][]Secret{}
	for name, e := range s.named {
		out[name] = slices.Clone(e.known)
	}
	return out
}

// Close ends the credentials: no value is given afterwards, and what was minted is revoked. The error says what could
// not be revoked; the Ledger knows too, and Revoke can be repeated by anybody. Repeat: nil.
func (s *Set) Close(ctx context.Context) error {
	var wg sync.WaitGroup
	errs := make([]error, len(s.named))
	for i, name := range s.Names() {
		e := s.named[name]
		wg.Go(func() {
			<-e.mu
			defer func() { e.mu <- struct{}{} }()
			if e.closed {
				return
			}
			e.closed, e.kept = true, Secret{}
			if e.minted.id != "" {
				errs[i] = s.revoke(ctx, e.minted)
				e.minted = minted{}
			}
		})
	}
	wg.Wait()
	return firstOf(errs)
}

func firstOf(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
