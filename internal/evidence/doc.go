// Package evidence builds, signs and verifies statements about one Attempt: what was observed, on which
// digests, by whom, and what was not checked. It also signs checkpoints of the journal.
//
// It imports the vocabulary only, so that an outsider can verify a run without the control plane. It does
// not decide anything, does not read the journal and does not publish: see internal/control and
// internal/publish.
//
// # Format
//
// The envelope is DSSE 1.0.2 (JSON) around an in-toto Statement v1 whose predicate is PredicateType. The
// signature is Ed25519 over the pre-authentication encoding. The payload has exactly one byte form, the one
// that Seal writes (compact JSON, members in the order of the types in predicate.go, no null): Verify encodes
// what it decoded and compares. That settles unknown, doubled, differently-cased and reordered members at
// once, so no two readers can see different statements in the same signed bytes. A new member is therefore
// added with omitempty, at the end of its type; anything else is a new predicate version.
//
// # What a valid signature means
//
// That the holder of the key said so. In embedded mode the submitter of the WorkOrder holds the key: the
// evidence binds the agent, not the submitter. The time in a statement is the signer's word too: a stolen
// key can backdate into its own validity.
package evidence
