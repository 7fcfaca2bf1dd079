package publisher

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/credential"
	"sallyport.dev/sallyport/internal/evidence"
	"sallyport.dev/sallyport/internal/forge"
	"sallyport.dev/sallyport/internal/publication"
)

// Options are what the program and its tests give beside the configuration.
type Options struct {
	Driver func(Target) (forge.Driver, error)
	Now    func() time.Time // nil: time.Now
	// At is called before and after each durable write and each effect at a forge, with its name. nil: nobody looks.
	At func(point string)
}

// Publisher publishes for one configuration. Safe for concurrent use, and beside other Publishers on the same state folder.
type Publisher struct {
	config  Config
	options Options
	keys    []evidence.PublicKey // of Mission Control
	ring    *evidence.Keyring    // its own
	sealer  *credential.Sealer
	ledger  *Ledger
}

// Open reads keys and ledger, which it makes where they are not there yet.
func Open(c Config, o Options) (*Publisher, error) {
	p := &Publisher{config: c, options: o}
	if p.options.Now == nil {
		p.options.Now = time.Now
	}
	if p.options.At == nil {
		p.options.At = func(string) {}
	}
	for _, name := range c.MissionControl {
		b, err := readOwn(name)
		if err != nil && sallyport.CodeOf(err) == sallyport.CodeDenied {
			return nil, err
		}
		if err != nil {
			return nil, &sallyport.Error{Op: "read Mission Control's keys", Code: sallyport.CodeNotFound, Subject: name, Err: err, Hint: "make it with `sallyport keys > FILE`"}
		}
		keys, err := evidence.ParsePublicKeys(b)
		if err != nil {
			return nil, err
		}
		for _, k := range keys {
			if !slices.ContainsFunc(p.keys, func(have evidence.PublicKey) bool { return have.ID == k.ID }) {
				p.keys = append(p.keys, k)
			}
		}
	}
	err := os.MkdirAll(filepath.Join(c.State, "locks"), 0o700)
	if err != nil {
		return nil, unavailable("open the state folder", err)
	}
	if p.ring, err = evidence.OpenKeyring(filepath.Join(c.State, "keys")); err != nil {
		return nil, err
	}
	if p.sealer, err = credential.OpenSealer(filepath.Join(c.State, "seal.key")); err != nil {
		return nil, err
	}
	if p.ledger, err = OpenLedger(filepath.Join(c.State, "ledger.db")); err != nil {
		return nil, err
	}
	// What was changed may be what would have been found: nothing is done on a ledger that is not whole.
	if err := p.ledger.Check(context.Background()); err != nil {
		p.ledger.Close()
		return nil, err
	}
	return p, nil
}

// Close releases the ledger.
func (p *Publisher) Close() error { return p.ledger.Close() }

// Keys are the public keys that receipts are verified with, as a file.
func (p *Publisher) Keys() ([]byte, error) { return p.ring.Public() }

// Ledger is the Publisher's own journal.
func (p *Publisher) Ledger() *Ledger { return p.ledger }

// record appends what happened in a scope. It is done whoever waits for it.
func (p *Publisher) record(ctx context.Context, s Scope, check func(*State) error, records ...Record) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	point := string(records[0].Type)
	p.options.At("before " + point)
	err := p.ledger.Append(ctx, check, s, records...)
	if err == nil {
		p.options.At("after " + point)
	}
	return err
}

// effect is something done outside, under a name.
func (p *Publisher) effect(name string, do func() error) error {
	p.options.At("before " + name)
	err := do()
	p.options.At("after " + name)
	return err
}

// Publish does what q asks for, and returns the signed receipt. separation is what is known of whoever asks: none, process
// or user. Repeat: the same nonce gives the same receipt; after a crash, a lost answer or an error it goes on from what was
// done. Errors besides those of verifying: CodeFenced, CodeConflict (somebody else's commit on the branch), CodeDenied (a
// person closed or merged the request, or the forge's rules say no), CodeUnavailable (try again; *forge.Later says when).
func (p *Publisher) Publish(ctx context.Context, q publication.Request, pack io.Reader, separation string) ([]byte, error) {
	o, err := p.verify(q, pack, p.options.Now())
	if err != nil {
		return nil, err
	}
	defer o.pack.Close()
	release, err := p.lease(ctx, o.scope())
	if err != nil {
		return nil, err
	}
	defer p.collect()
	defer release()
	if receipt, err := p.receive(ctx, o); err != nil || receipt != nil {
		return receipt, err
	}
	receipt, err := p.publish(ctx, o, separation)
	if err != nil {
		why := publication.Refuse(err)
		return nil, errors.Join(err, p.record(ctx, o.scope(), nil, Record{Type: RequestRefused, Nonce: o.accepted().Nonce, Why: &sallyport.Reason{Code: why.Code, Message: why.Message, Hint: why.Hint}}))
	}
	return receipt, nil
}

// receive records a request, if nothing speaks against it. A receipt: it was done before.
func (p *Publisher) receive(ctx context.Context, o *order) ([]byte, error) {
	a := o.accepted()
	r := Received{Acceptance: o.digest, Attempt: a.Attempt, Fence: a.Fence, Branch: a.Target.Branch, Base: o.base(), Origin: a.Journal.Origin, Seq: a.Journal.Seq, Hash: a.Journal.Hash}
	used, err := p.ledger.ByNonce(ctx, a.Nonce)
	if err != nil {
		return nil, err
	}
	if len(used) > 0 && used[0].Scope != o.scope() {
		return nil, no("nonce", "this nonce was used for another work order or target")
	}
	s, err := p.ledger.State(ctx, o.scope())
	if err != nil {
		return nil, err
	}
	if err := s.Admit(a.Nonce, r); err != nil {
		return nil, err
	}
	if receipt, ok := s.Receipts[a.Nonce]; ok {
		return []byte(receipt), nil
	}
	if _, known := s.Requests[a.Nonce]; known {
		return nil, nil
	}
	return nil, p.record(ctx, o.scope(), func(s *State) error { return s.Admit(a.Nonce, r) }, Record{Type: RequestReceived, Nonce: a.Nonce, Request: &r})
}
