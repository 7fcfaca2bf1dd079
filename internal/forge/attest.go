package forge

import (
	"context"

	"sallyport.dev/sallyport"
)

// Attester is a Driver of a forge that keeps attestations, each to be found by the digest of what it is about.
type Attester interface {
	// Attest stores a Sigstore bundle about subject, unless the forge has that very one already. Its errors are a Driver's.
	Attest(ctx context.Context, g Grant, subject sallyport.Digest, bundle []byte) error
}
