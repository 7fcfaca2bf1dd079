package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/credential"
	"sallyport.dev/sallyport/internal/id"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/internal/manifest"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/internal/screen"
	"sallyport.dev/sallyport/internal/secret"
)

// The credentials of an Attempt live from just before the agent starts until it has ended. What is minted for one is
// an Allocation like a sandbox is, with a token as its resource: intended before the forge is asked; bound once it is
// sealed to the minter's key in the Attempt's folder, and only then used; torn down with the forge's own word.

// tokenProvider is whose resource a token is, in the journal.
const tokenProvider = "github-app"

const (
	revokeTimeout = 20 * time.Second
	// tokenGone is when a token of which nobody saw the answer cannot be valid any more.
	tokenGone = credential.TokenLife + 10*time.Minute
)

// credentialSet opens the credentials of m. heard may be nil.
func credentialSet(m sallyport.Manifest, ledger credential.Ledger, heard func(string, credential.Secret) error) (*credential.Set, error) {
	deps := credential.Deps{Home: m.Home, Ledger: ledger, Heard: heard}
	if dir, err := os.UserConfigDir(); err == nil {
		deps.Logins = credential.OwnLogins(dir)
	}
	return credential.Open(m.Credentials, deps)
}

// credentialVariables are the variables that m's credentials are read from.
func credentialVariables(m sallyport.Manifest) (names []string) {
	for _, c := range m.Credentials {
		if c.Source.Env != "" {
			names = append(names, c.Source.Env)
		}
	}
	return names
}

// credentialsThere refuses a run whose credentials could not be read now: the agent would fail at its first request.
func credentialsThere(m sallyport.Manifest) error {
	set, err := credentialSet(m, noLedger{}, nil)
	if err != nil {
		return err
	}
	return set.Ready()
}

// credentialValues are what can be read of m's credentials without asking anybody, for the redactor. What cannot be
// read is not used either.
func credentialValues(m sallyport.Manifest) secret.Values {
	v := secret.Values{Known: map[string][]byte{}}
	if len(m.Credentials) == 0 {
		return v
	}
	set, err := credentialSet(m, noLedger{}, func(name string, value credential.Secret) error {
		v.Add(name, value.Reveal())
		return nil
	})
	if err == nil {
		_ = set.Ready()
	}
	return v
}

// placeholders are what the agent holds instead of its credentials, by their names.
func (d *driver) placeholders() (map[string]string, error) {
	out := map[string]string{}
	if len(d.m.Credentials) == 0 {
		return out, nil
	}
	key, err := d.placeholderKey()
	if err != nil {
		return nil, err
	}
	set, err := credentialSet(d.m, noLedger{}, nil)
	if err != nil {
		return nil, err
	}
	for _, c := range d.m.Credentials {
		if out[c.Name], err = set.Placeholder(key, d.id, c.Name); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// placeholderKey is this Attempt's, made durable before it is used: every driver of it makes the same placeholders.
func (d *driver) placeholderKey() (string, error) {
	path := filepath.Join(d.c.attemptFolder(d.id), "placeholder.key")
	b, err := os.ReadFile(path)
	switch {
	case err == nil && len(b) > 0:
		return string(b), nil
	case !errors.Is(err, fs.ErrNotExist):
		return "", stateError(path, err)
	}
	key, err := id.Secret()
	if err != nil {
		return "", err
	}
	return key, writeDurable(path, []byte(key))
}

// layPlaceholders gives the agent's command its placeholders, in the variables and files that its tools read.
func (d *driver) layPlaceholders(cmd *provider.Command) error {
	if len(d.m.Credentials) == 0 {
		return nil
	}
	held, err := d.placeholders()
	if err != nil {
		return err
	}
	for _, c := range d.m.Credentials {
		if c.Env != "" {
			cmd.Env[c.Env] = held[c.Name]
			cmd.Placeholders = append(cmd.Placeholders, c.Env)
		}
		if c.File != "" {
			cmd.Files = append(cmd.Files, provider.File{Name: manifest.InHome(d.m.Home, c.File), Data: []byte(held[c.Name])})
		}
	}
	key, err := d.placeholderKey()
	if err != nil {
		return err
	}
	set, err := credentialSet(d.m, noLedger{}, d.heard)
	if err != nil {
		return err
	}
	files, err := set.Files(key, d.id, d.m.Home)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		cmd.Files = append(cmd.Files, provider.File{Name: name, Data: files[name]})
	}
	return distinctFiles(cmd.Files)
}

// distinctFiles refuses two files of one path: a credential's, a login's and an agent's own are known together only
// here.
func distinctFiles(files []provider.File) error {
	seen := map[string]bool{}
	for _, f := range files {
		if seen[f.Name] {
			return &sallyport.Error{Op: "lay placeholders", Code: sallyport.CodeInvalid, Subject: f.Name, Message: "two of the agent's files have this path", Hint: "give the credential another file:"}
		}
		seen[f.Name] = true
	}
	return nil
}

// openCredentials reads every credential once before the agent runs: what cannot be read ends the Attempt while
// nothing has happened, and each value is known to the redactor before there is any output.
func (d *driver) openCredentials(ctx context.Context) error {
	if len(d.m.Credentials) == 0 {
		return nil
	}
	set, err := credentialSet(d.m, &ledger{d}, d.heard)
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.credentials = set
	d.mu.Unlock()
	for _, name := range set.Names() {
		if _, err := set.Value(ctx, name); err != nil {
			d.endCredentials(ctx)
			return err
		}
	}
	return nil
}

// endCredentials ends them, whatever became of ctx. What could not be revoked is in the journal and told to a person;
// it does not fail the Attempt.
func (d *driver) endCredentials(ctx context.Context) {
	d.mu.Lock()
	set := d.credentials
	d.credentials = nil
	d.mu.Unlock()
	if set == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeTimeout)
	defer cancel()
	if err := errors.Join(set.Close(ctx), d.revokeUnfinished(ctx)); err != nil {
		d.tellUnrevoked(ctx, err)
	}
}

// revokeUnfinished ends what earlier drivers left, but for those that have just been tried in vain.
func (d *driver) revokeUnfinished(ctx context.Context) error {
	tokens, err := d.c.openTokens(ctx, d.id)
	errs := []error{err}
	for _, al := range tokens {
		if al.State != sallyport.SandboxFailed {
			errs = append(errs, d.revokeToken(ctx, al))
		}
	}
	return errors.Join(errs...)
}

func (d *driver) tellUnrevoked(ctx context.Context, err error) {
	_ = d.notice(ctx, "%s", screen.Line("a minted token is not revoked yet, `sallyport reconcile` tries again: "+err.Error()))
}

// heard makes a value known to the redactor from now on.
func (d *driver) heard(name string, value credential.Secret) error {
	if _, err := d.redactor(); err != nil {
		return err
	}
	one := secret.Values{Known: map[string][]byte{}}
	one.Add(name, value.Reveal())
	one = withoutPlaces(one, d.m)
	s := &d.redaction
	s.mu.Lock()
	defer s.mu.Unlock()
	all := secret.Values{Known: maps.Clone(s.known), Skipped: s.skipped}
	for as, v := range one.Known {
		free := as
		for n := 2; all.Known[free] != nil && string(all.Known[free]) != string(v); n++ {
			free = fmt.Sprintf("%s.%d", as, n) // one of before, which may still turn up
		}
		all.Known[free] = v
	}
	all.Skipped = append(slices.Clone(all.Skipped), one.Skipped...)
	all = withoutMarks(all)
	s.known, s.skipped, s.redactor = all.Known, all.Skipped, nil
	return nil
}

// noLedger is for sets of which no value is asked.
type noLedger struct{}

var errNoLedger = errors.New("nothing is minted here")

func (noLedger) Intend(context.Context, string, string) (string, error) { return "", errNoLedger }
func (noLedger) Minted(context.Context, string, credential.Token) error { return errNoLedger }
func (noLedger) Held(context.Context, string) (credential.Held, bool, error) {
	return credential.Held{}, false, errNoLedger
}
func (noLedger) Ending(context.Context, string) error         { return errNoLedger }
func (noLedger) Gone(context.Context, string, string) error   { return errNoLedger }
func (noLedger) Failed(context.Context, string, string) error { return errNoLedger }

// ledger is the journal's side of minting, under the driver's lease.
type ledger struct{ d *driver }

// mintIntent is what is known of a token before there is one. It lies beside the journal's intent, whose time is for
// people.
type mintIntent struct {
	Name    string `json:"name"`
	BaseURL string `json:"base_url"`
	At      int64  `json:"at"` // Unix seconds
}

func (l *ledger) path(a sallyport.AllocationID, kind string) string {
	return filepath.Join(l.d.c.attemptFolder(l.d.id), "token-"+string(a)+kind)
}

func (l *ledger) Intend(ctx context.Context, name, baseURL string) (string, error) {
	raw, err := id.New(sallyport.AllocationPrefix)
	if err != nil {
		return "", err
	}
	a := sallyport.AllocationID(raw)
	b, err := json.Marshal(mintIntent{name, baseURL, time.Now().Unix()})
	if err != nil {
		return "", err
	}
	if err := writeDurable(l.path(a, ".json"), b); err != nil {
		return "", err
	}
	return raw, l.d.record(ctx, journal.Record{Type: lifecycle.AllocationIntended, Allocation: a,
		Data: lifecycle.Intended{Purpose: sallyport.PurposeCredential, Provider: tokenProvider, Spec: sallyport.Sum(b), Label: name}})
}

func (l *ledger) Minted(ctx context.Context, token string, t credential.Token) error {
	sealer, err := l.d.c.sealer()
	if err != nil {
		return err
	}
	a := sallyport.AllocationID(token)
	path := l.path(a, ".age")
	if err := sealer.Seal(path, t); err != nil {
		return err
	}
	return l.d.record(ctx, journal.Record{Type: lifecycle.AllocationBound, Allocation: a, Data: lifecycle.Bound{Resource: sallyport.ResourceID(filepath.Base(path))}},
		journal.Record{Type: lifecycle.AllocationReady, Allocation: a})
}

func (l *ledger) Held(ctx context.Context, name string) (credential.Held, bool, error) {
	tokens, err := l.d.c.openTokens(ctx, l.d.id)
	if err != nil {
		return credential.Held{}, false, err
	}
	for _, al := range slices.Backward(tokens) {
		if al.Label != name || al.State != sallyport.SandboxReady {
			continue
		}
		sealer, err := l.d.c.sealer()
		if err != nil {
			return credential.Held{}, false, err
		}
		t, err := sealer.Unseal(l.path(al.ID, ".age"))
		return credential.Held{ID: string(al.ID), Token: t}, err == nil, err
	}
	return credential.Held{}, false, nil
}

func (l *ledger) Ending(ctx context.Context, token string) error {
	return l.d.record(ctx, journal.Record{Type: lifecycle.AllocationTeardown, Allocation: sallyport.AllocationID(token),
		Data: sallyport.Reason{Code: "teardown", Message: "the credential is not used any more"}})
}

func (l *ledger) Gone(ctx context.Context, token, proof string) error {
	a := sallyport.AllocationID(token)
	if err := l.d.record(ctx, journal.Record{Type: lifecycle.AllocationTerminated, Allocation: a, Data: sallyport.Reason{Code: "gone", Message: screen.Line(proof)}}); err != nil {
		return err
	}
	for _, kind := range []string{".age", ".json"} {
		if err := os.Remove(l.path(a, kind)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return stateError(l.path(a, kind), err)
		}
	}
	return nil
}

func (l *ledger) Failed(ctx context.Context, token, why string) error {
	a := sallyport.AllocationID(token)
	if al, err := l.d.allocation(ctx, a); err != nil || al.State == sallyport.SandboxFailed {
		return err // an earlier try has said so
	}
	return l.d.record(ctx, journal.Record{Type: lifecycle.AllocationFailed, Allocation: a,
		Data: sallyport.Reason{Code: "not-revoked", Message: screen.Line(why), Hint: "`sallyport reconcile` tries again"}})
}

// sealer holds the minter's key: a file of the state folder.
func (c *Control) sealer() (*credential.Sealer, error) {
	return credential.OpenSealer(filepath.Join(c.cfg.State, "minter.key"))
}

// ofToken says that an Allocation is no sandbox.
func ofToken(al journal.Allocation) bool { return al.Purpose == sallyport.PurposeCredential }

// openTokens are the Attempt's tokens that may be valid, in the order in which they were intended.
func (c *Control) openTokens(ctx context.Context, a sallyport.AttemptID) ([]journal.Allocation, error) {
	all, err := c.journal.Allocations(ctx, a)
	return slices.DeleteFunc(all, func(al journal.Allocation) bool { return !ofToken(al) || al.State == sallyport.SandboxTerminated }), err
}

// revokeTokens ends the tokens that earlier drivers left of this Attempt. All are tried; the error is of those that may
// still be valid.
func (d *driver) revokeTokens(ctx context.Context) error {
	tokens, err := d.c.openTokens(ctx, d.id)
	errs := []error{err}
	for _, al := range tokens {
		errs = append(errs, d.revokeToken(ctx, al))
	}
	return errors.Join(errs...)
}

func (d *driver) revokeToken(ctx context.Context, al journal.Allocation) error {
	ctx, cancel := context.WithTimeout(ctx, revokeTimeout)
	defer cancel()
	l := &ledger{d}
	sealer, err := d.c.sealer()
	if err != nil {
		return err
	}
	t, err := sealer.Unseal(l.path(al.ID, ".age"))
	switch {
	case err == nil:
		// It is said again in errors of a forge that repeats what it was sent.
		if err := d.heard(al.Label, credential.Secretly(t.Value)); err != nil {
			return err
		}
		return credential.Revoke(ctx, nil, l, credential.Held{ID: string(al.ID), Token: t}, time.Now())
	case sallyport.CodeOf(err) != sallyport.CodeNotFound:
		return errors.Join(err, l.Failed(ctx, string(al.ID), err.Error()))
	}
	return d.unseen(ctx, al)
}

// unseen: a driver was ended between asking for a token and having it on disk. If the forge made one nobody can revoke
// it; it is gone once its time is over.
func (d *driver) unseen(ctx context.Context, al journal.Allocation) error {
	l := &ledger{d}
	var intent mintIntent
	b, err := os.ReadFile(l.path(al.ID, ".json"))
	if err == nil {
		err = json.Unmarshal(b, &intent)
	}
	if err != nil {
		return errors.Join(stateError(l.path(al.ID, ".json"), err), l.Failed(ctx, string(al.ID), "what was intended cannot be read"))
	}
	until := time.Unix(intent.At, 0).Add(tokenGone)
	if time.Now().After(until) {
		return errors.Join(l.Ending(ctx, string(al.ID)), l.Gone(ctx, string(al.ID), "no answer of the forge was kept; if it made a token, that has ended by itself"))
	}
	why := fmt.Sprintf("a driver was ended while it minted %s: if the forge made a token nobody can revoke it; it ends by itself before %s", al.Label, until.UTC().Format(time.RFC3339))
	return errors.Join(&sallyport.Error{Op: "revoke", Code: sallyport.CodeUnavailable, Subject: string(al.ID), Message: why, Hint: "nothing used it; `sallyport reconcile` closes the record then"},
		l.Failed(ctx, string(al.ID), why))
}

// tidyTokens revokes what earlier drivers minted for an agent that does not run any more.
func (d *driver) tidyTokens(ctx context.Context) error {
	at, err := d.attempt(ctx)
	if err != nil {
		return err
	}
	if slices.Contains([]sallyport.AttemptState{sallyport.AttemptQueued, sallyport.AttemptPreparing, sallyport.AttemptRunning}, at.Report.State) {
		return nil // the driver goes on with them
	}
	if err := d.revokeTokens(ctx); err != nil {
		if sallyport.CodeOf(err) == sallyport.CodeFenced {
			return err
		}
		d.tellUnrevoked(ctx, err)
	}
	return nil
}

// reconcileTokens revokes what was minted, of what is open, for Attempts that have ended. A line for each Attempt.
func (c *Control) reconcileTokens(ctx context.Context, dryRun bool, open []journal.Allocation) ([]string, error) {
	left := map[sallyport.AttemptID][]string{}
	for _, al := range open {
		if ofToken(al) {
			left[al.Attempt] = append(left[al.Attempt], al.Label)
		}
	}
	var lines []string
	for _, a := range slices.Sorted(maps.Keys(left)) {
		at, err := c.journal.Attempt(ctx, a)
		if err != nil {
			return lines, err
		}
		if !at.Report.State.Ended() || !free(at.Lease) {
			continue // its driver does, or the one that adopts it
		}
		slices.Sort(left[a])
		what := fmt.Sprintf(" the tokens of %s (%s)", a, strings.Join(slices.Compact(left[a]), ", "))
		lines = append(lines, said(dryRun, "revoke"+what, "revoked"+what, func() error {
			return c.underLease(ctx, a, func(d *driver) error { return d.revokeTokens(ctx) })
		}))
	}
	return lines, nil
}
