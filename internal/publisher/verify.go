package publisher

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/change"
	"sallyport.dev/sallyport/internal/evidence"
	"sallyport.dev/sallyport/internal/publication"
)

// order is a request of which everything was verified.
type order struct {
	acceptance evidence.Acceptance
	digest     sallyport.Digest // of the acceptance's envelope
	evidence   evidence.Verified
	envelope   []byte // the evidence's
	sealed     []byte // the acceptance's envelope
	target     Target
	handed     change.Handed
	pack       *os.File // at its beginning
	approvals  []string // people, for the pull request
}

func (o *order) accepted() evidence.Accepted { return o.acceptance.Predicate }

func (o *order) scope() Scope {
	return Scope{Target: o.target.Repository, WorkOrder: o.accepted().WorkOrder.ID}
}

func (o *order) commit() sallyport.ObjectID { return o.handed.Commit }

func (o *order) head() string { return strings.TrimPrefix(o.accepted().Target.Branch, "refs/heads/") }

func (o *order) base() string { return strings.TrimPrefix(o.accepted().Target.Base, "refs/heads/") }

func no(subject, format string, args ...any) error {
	return &sallyport.Error{Op: "publish", Code: sallyport.CodeDenied, Subject: subject, Message: fmt.Sprintf(format, args...)}
}

// branchPrefix is where a Publisher writes, and nowhere else.
const branchPrefix = "refs/heads/sallyport/"

// verify checks everything that can be checked without asking anybody. The pack is copied to a file of the Publisher's own
// first, so that what is checked is what is pushed. The caller closes the order's pack.
func (p *Publisher) verify(q publication.Request, pack io.Reader, now time.Time) (_ *order, err error) {
	o := &order{digest: sallyport.Sum([]byte(q.Acceptance)), envelope: []byte(q.Evidence), sealed: []byte(q.Acceptance)}
	if o.acceptance, o.evidence, err = evidence.VerifyAcceptance([]byte(q.Acceptance), o.envelope, p.keys, now); err != nil {
		return nil, err
	}
	a := o.accepted()
	i := slices.IndexFunc(p.config.Targets, func(t Target) bool { return t.Repository == a.Target.Repository })
	if i < 0 {
		return nil, no("target.repository", "%q is none of this Publisher's targets", a.Target.Repository)
	}
	o.target = p.config.Targets[i]
	if !slices.Contains(o.target.Bases, o.base()) {
		return nil, no("target.base", "%q is none of the branches that this target allows (bases: %s)", o.base(), strings.Join(o.target.Bases, ", "))
	}
	if !strings.HasPrefix(a.Target.Branch, branchPrefix) {
		return nil, no("target.branch", "expected a branch below %s, found %q", branchPrefix, a.Target.Branch)
	}
	if err := p.approved(o, q.Approvals); err != nil {
		return nil, err
	}
	if o.pack, err = p.spool(pack, q.PackBytes, a.Pack); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			o.pack.Close()
		}
	}()
	if o.handed, err = change.ReadHandover(o.pack, o.evidence.Statement.Predicate.Result.Commit); err != nil {
		return nil, err
	}
	if err := o.handedIsAccepted(); err != nil {
		return nil, err
	}
	_, err = o.pack.Seek(0, io.SeekStart)
	return o, err
}

func (o *order) handedIsAccepted() error {
	r, a := o.evidence.Statement.Predicate.Result, o.accepted()
	for _, c := range []struct {
		what      string
		have, got sallyport.ObjectID
	}{{"tree", o.handed.Tree, r.Tree}, {"base", o.handed.Base, a.Base.Commit}, {"base's tree", o.handed.BaseTree, a.Base.Tree}} {
		if c.have != c.got {
			return no("pack", "its %s is %s, what was accepted has %s", c.what, c.have, c.got)
		}
	}
	if len(o.handed.Changes) == 0 {
		return no("pack", "it changes nothing")
	}
	for _, c := range o.handed.Changes {
		if g := o.target.guards(c.Path); g != "" {
			return no("protected path", "%+q is protected by %q at this target", c.Path, g)
		}
	}
	return nil
}

// spool copies the pack into a file without a name, and holds it to its digest.
func (p *Publisher) spool(r io.Reader, size int64, want evidence.Pack) (*os.File, error) {
	if size != want.Bytes {
		return nil, no("pack", "it has %d bytes, what was accepted has %d", size, want.Bytes)
	}
	f, err := change.Spool(p.config.State)
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, h), io.LimitReader(r, size))
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	switch got := sallyport.DigestOf([sha256.Size]byte(h.Sum(nil))); {
	case err != nil:
		f.Close()
		return nil, unavailable("spool the pack", err)
	case n != size || got != want.Digest:
		f.Close()
		return nil, no("pack", "it is not the pack that was accepted: %s", got)
	}
	return f, nil
}

func unavailable(op string, err error) error {
	return &sallyport.Error{Op: op, Code: sallyport.CodeUnavailable, Err: err}
}
