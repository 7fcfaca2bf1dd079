package publisher

import (
	"context"

	"sallyport.dev/sallyport/internal/evidence"
	"sallyport.dev/sallyport/internal/forge"
	"sallyport.dev/sallyport/internal/publication"
)

// attest stores the evidence as an attestation where the operator asked for it: for others' tools, which look things up by a
// digest. The Manifest's is the one to look it up by, as the commit names it. As with attach, what was published is right without it.
func (w *work) attest(ctx context.Context) error {
	a, ok := w.d.(forge.Attester)
	if !ok || !w.o.target.Attestations { // the configuration has no target with the one and without the other
		return nil
	}
	err := w.p.effect("attest", func() error {
		bundle, err := evidence.Bundle(w.o.envelope)
		if err != nil {
			return err
		}
		return a.Attest(ctx, w.g, w.o.evidence.Statement.Predicate.Manifest, bundle)
	})
	if err != nil {
		w.note("the evidence could not be stored as an attestation: %s", publication.Refuse(err).Message)
	}
	return nil
}
