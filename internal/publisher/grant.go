package publisher

import (
	"context"
	"encoding/json"
	"errors"
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
func (p *Publisher) mint(ctx context.Context, o *order, d forge.Driver) (mark string, g forge.Grant, err error) {
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
	if err := p.record(ctx, o.scope(), nil, Record{Type: CredentialIntended, Nonce: o.accepted().Nonce, Credential: &row}); err != nil {
		return mark, g, err
	}
	if err := p.effect("mint", func() error { g, err = d.Mint(ctx, mark); return err }); err != nil {
		row.Proof = "the forge made none: " + publication.Refuse(err).Message
		switch sallyport.CodeOf(err) {
		case sallyport.CodeUnknown, sallyport.CodeUnavailable:
			row.Proof = "it is not known whether the forge made one: " + publication.Refuse(err).Message
			return mark, g, errors.Join(err, p.record(ctx, o.scope(), nil, Record{Type: CredentialFailed, Credential: &row}))
		}
		return mark, g, errors.Join(err, p.record(ctx, o.scope(), nil, Record{Type: CredentialGone, Credential: &row}))
	}
	if row, err = p.sealed(mark, g); err == nil {
		err = p.record(ctx, o.scope(), nil, Record{Type: CredentialBound, Nonce: o.accepted().Nonce, Credential: &row})
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

// sweep ends what an earlier Publisher of this scope left. One that is sealed is revoked; of one whose answer nobody saw,
// only the forge or the clock knows.
func (p *Publisher) sweep(ctx context.Context, s *State, d forge.Driver) error {
	var all []error
	for mark, row := range s.Credentials {
		if row.Sealed == nil {
			all = append(all, p.forget(ctx, s.Scope, d, row))
			continue
		}
		var g forge.Grant
		b, err := p.sealer.Decrypt(row.Sealed)
		if err == nil {
			err = json.Unmarshal(b, &g)
		}
		if err != nil {
			all = append(all, &sallyport.Error{Op: "unseal a credential", Code: sallyport.CodeCorrupt, Subject: mark, Message: "it cannot be revoked by this Publisher; it ends at " + row.Expires})
			continue
		}
		all = append(all, p.revoke(ctx, s.Scope, d, mark, g))
	}
	return errors.Join(all...)
}

// finder is a driver that can end a credential by its mark alone.
type finder interface {
	RevokeMark(ctx context.Context, mark string) error
}

// forget ends a credential of which only the mark is known, where the forge finds it by that.
func (p *Publisher) forget(ctx context.Context, s Scope, d forge.Driver, row CredentialRow) error {
	f, ok := d.(finder)
	if !ok {
		return nil // it stays in the ledger until it has ended by itself: see Reconcile
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeTimeout)
	defer cancel()
	if err := p.effect("revoke", func() error { return f.RevokeMark(ctx, row.Mark) }); err != nil {
		return err
	}
	return p.record(ctx, s, nil, Record{Type: CredentialGone, Credential: &CredentialRow{Mark: row.Mark, Proof: "there is none of that mark"}})
}
