package publisher

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
	"sallyport.dev/sallyport/internal/id"
	"sallyport.dev/sallyport/internal/publication"
)

// How long a credential may be asked for and revoked, whoever waits.
const (
	mintTimeout   = time.Minute
	revokeTimeout = time.Minute
)

// mint gets the credential for one publication. A minted one is intended before the forge is asked, and sealed and durable
// before its first use: whoever comes after a crash can revoke it. Between the forge's answer and that write it is known to
// nobody but this process: killed there, it lives until it ends by itself, or until the forge finds it by its mark.
func (p *Publisher) mint(ctx context.Context, s Scope, nonce string, d forge.Driver) (mark string, g forge.Grant, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), mintTimeout)
	defer cancel()
	if !d.Describe().Mints {
		g, err = d.Mint(ctx, "")
		return "", g, err
	}
	if mark, err = newMark(); err != nil {
		return "", g, err
	}
	row := CredentialRow{Mark: mark}
	if lives := d.Describe().Lives; lives > 0 {
		row.Expires = p.options.Now().Add(mintTimeout + lives).UTC().Format(time.RFC3339)
	}
	if err := p.record(ctx, s, nil, Record{Type: CredentialIntended, Nonce: nonce, Credential: &row}); err != nil {
		return mark, g, err
	}
	if err := p.effect("mint", func() error { g, err = d.Mint(ctx, mark); return err }); err != nil {
		row.Proof = "the forge made none: " + publication.Refuse(err).Message
		switch sallyport.CodeOf(err) {
		case sallyport.CodeUnknown, sallyport.CodeUnavailable, sallyport.CodeDenied: // denied: one that may too much was made
			row.Proof = "it is not known whether the forge made one: " + publication.Refuse(err).Message
			return mark, g, errors.Join(err, p.record(ctx, s, nil, Record{Type: CredentialFailed, Nonce: nonce, Credential: &row}))
		}
		return mark, g, errors.Join(err, p.record(ctx, s, nil, Record{Type: CredentialGone, Nonce: nonce, Credential: &row}))
	}
	if row, err = p.sealed(mark, g); err == nil {
		err = p.record(ctx, s, nil, Record{Type: CredentialBound, Nonce: nonce, Credential: &row})
	}
	if err != nil {
		return mark, g, errors.Join(err, d.Revoke(ctx, g)) // nobody else knows it
	}
	return mark, g, nil
}

// newMark names a credential before it is made.
func newMark() (string, error) {
	s, err := id.Secret()
	if err != nil {
		return "", err
	}
	return "sallyport-" + s[:20], nil
}

func (p *Publisher) sealed(mark string, g forge.Grant) (CredentialRow, error) {
	b, err := json.Marshal(g)
	if err != nil {
		return CredentialRow{}, err
	}
	row := CredentialRow{Mark: mark, Class: g.Class}
	if !g.Expires.IsZero() {
		row.Expires = g.Expires.UTC().Format(time.RFC3339)
	}
	row.Sealed, err = p.sealer.Encrypt(b)
	return row, err
}

// revoke ends a minted credential, and records that or that it could not be.
func (p *Publisher) revoke(ctx context.Context, s Scope, d forge.Driver, mark string, g forge.Grant) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeTimeout)
	defer cancel()
	row := CredentialRow{Mark: mark, Proof: "it was revoked"}
	if err := p.effect("revoke", func() error { return d.Revoke(ctx, g) }); err != nil {
		row.Proof = "not revoked: " + publication.Refuse(err).Message
		return errors.Join(err, p.record(ctx, s, nil, Record{Type: CredentialFailed, Credential: &row}))
	}
	return p.record(ctx, s, nil, Record{Type: CredentialGone, Credential: &row})
}

// sweep ends what an earlier Publisher of this scope left. lost are those that it cannot end: sealed to another key, or made
// by who is configured no more.
func (p *Publisher) sweep(ctx context.Context, s *State, d forge.Driver) (lost []string, err error) {
	var all []error
	for _, mark := range slices.Sorted(maps.Keys(s.Credentials)) {
		row := s.Credentials[mark]
		if p.ended(row) && !p.keepsKey(row) {
			all = append(all, p.record(ctx, s.Scope, nil, Record{Type: CredentialGone, Credential: &CredentialRow{Mark: mark, Proof: "it has ended by itself at " + row.Expires}}))
			continue
		}
		err := p.end(ctx, s.Scope, d, row)
		if sallyport.CodeOf(err) == sallyport.CodeCorrupt || sallyport.CodeOf(err) == sallyport.CodeInvalid {
			lost = append(lost, mark) // the target's configuration is another one now, too
			continue
		}
		all = append(all, err)
	}
	return lost, errors.Join(all...)
}

// end revokes what a row is about, by what is sealed in it, else by its mark.
func (p *Publisher) end(ctx context.Context, s Scope, d forge.Driver, row CredentialRow) error {
	if row.Sealed == nil {
		return p.forget(ctx, s, d, row)
	}
	g, err := p.unsealed(row)
	if err != nil {
		return &sallyport.Error{Op: "unseal a credential", Code: sallyport.CodeCorrupt, Subject: row.Mark, Err: err}
	}
	return p.revoke(ctx, s, d, row.Mark, g)
}

// ended says that a credential is over by any clock that is not off by more than clockSkew.
func (p *Publisher) ended(row CredentialRow) bool {
	at, err := time.Parse(time.RFC3339, row.Expires)
	return err == nil && p.options.Now().After(at.Add(clockSkew))
}

const clockSkew = 5 * time.Minute

// keepsKey says that a private key's file goes with a credential: that does not end by itself.
func (p *Publisher) keepsKey(row CredentialRow) bool {
	g, err := p.unsealed(row)
	return err == nil && g.Key != ""
}

func (p *Publisher) unsealed(row CredentialRow) (g forge.Grant, err error) {
	b, err := p.sealer.Decrypt(row.Sealed)
	if err == nil {
		err = json.Unmarshal(b, &g)
	}
	return g, err
}

// finder is a driver that can end a credential by its mark alone.
type finder interface {
	RevokeMark(ctx context.Context, mark string) error
}

// forget ends a credential of which only the mark is known, where the forge finds it by that. Where it does not, the row
// stays until the credential has ended by itself.
func (p *Publisher) forget(ctx context.Context, s Scope, d forge.Driver, row CredentialRow) error {
	f, ok := d.(finder)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeTimeout)
	defer cancel()
	if err := p.effect("revoke", func() error { return f.RevokeMark(ctx, row.Mark) }); err != nil {
		return err
	}
	return p.record(ctx, s, nil, Record{Type: CredentialGone, Credential: &CredentialRow{Mark: row.Mark, Proof: "there is none of that mark"}})
}

// life says in words how long a credential lives that nobody revokes.
func life(expires string) string {
	if expires == "" {
		return "it does not end by itself"
	}
	return "it ends by itself at " + expires
}
