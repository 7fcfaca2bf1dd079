package evidence

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/mod/sumdb/note"

	"sallyport.dev/sallyport"
)

// noteEd25519 is the signature type of C2SP signed-note for plain Ed25519.
const noteEd25519 = 0x01

// maxNoteBytes bounds a checkpoint with its signatures.
const maxNoteBytes = 16 << 10

// Head is a point of a journal: everything up to Seq, whose chain ends in Hash.
type Head struct {
	Origin string // names the journal: "sallyport.dev/journal/fac_…"
	Seq    int64
	Hash   sallyport.Digest
}

// Checkpoint is the text that is signed, three lines in the layout of C2SP tlog-checkpoint: origin, sequence
// number, hash in base64. The hash is the head of a chain, not a Merkle root, and the origin says whose.
func Checkpoint(origin string, seq int64, hash sallyport.Digest) (string, error) {
	if err := checkOrigin(origin); err != nil {
		return "", err
	}
	if seq < 0 {
		return "", invalid("checkpoint.seq", "expected 0 or more, found %d", seq)
	}
	if err := hash.Check(); err != nil {
		return "", field("checkpoint.hash", err)
	}
	raw, _ := hex.DecodeString(hash.Hex()) // cannot fail after Check
	return origin + "\n" + strconv.FormatInt(seq, 10) + "\n" + base64.StdEncoding.EncodeToString(raw) + "\n", nil
}

// checkOrigin holds the rules of a note's key name, as both are the same here. A space is refused also
// because the pre-authentication encoding of an envelope has one in its first bytes: no note is ever an
// envelope's signed text.
func checkOrigin(origin string) error {
	bad := strings.ContainsFunc(origin, func(r rune) bool { return r == '+' || unicode.IsSpace(r) || !unicode.IsGraphic(r) })
	if origin == "" || len(origin) > 200 || bad {
		return invalid("checkpoint.origin", "expected up to 200 visible characters without space or plus, found %.60q", origin)
	}
	return nil
}

// SignCheckpoint returns the signed note for a head. The key name in the note is the origin.
func SignCheckpoint(ctx context.Context, signer Signer, origin string, seq int64, hash sallyport.Digest) (string, error) {
	text, err := Checkpoint(origin, seq, hash)
	if err != nil {
		return "", err
	}
	signed, err := note.Sign(&note.Note{Text: text}, noteSigner{ctx, origin, signer})
	if err != nil {
		return "", &sallyport.Error{Op: "sign checkpoint", Code: sallyport.CodeOf(err), Subject: origin, Err: err}
	}
	return string(signed), nil
}

// VerifyCheckpoint returns the head that a signed note speaks of. The note must be about origin, bear a valid
// signature by one of keys and none that names such a key and fails. It has no time: that a key was still
// valid is known only from the statement around the note.
func VerifyCheckpoint(signed string, origin string, keys []PublicKey) (Head, error) {
	if err := checkKeys(keys); err != nil {
		return Head{}, err
	}
	var verifiers []note.Verifier
	for _, k := range keys {
		verifiers = append(verifiers, noteVerifier{origin, k.Key})
	}
	return openCheckpoint(signed, origin, verifiers...)
}

// HeadOf is the point of a journal that a document speaks of: evidence, or a signed checkpoint of any journal.
// Both must be by one of keys. It is what Expect.Since takes.
func HeadOf(document []byte, keys []PublicKey) (Head, error) {
	if bytes.HasPrefix(document, []byte("{")) {
		v, err := Verify(document, keys, Expect{})
		j := v.Statement.Predicate.Journal
		return Head{j.Origin, j.Seq, j.Hash}, err
	}
	origin, _, _ := strings.Cut(string(document), "\n")
	return VerifyCheckpoint(string(document), origin, keys)
}

func openCheckpoint(signed, origin string, verifiers ...note.Verifier) (Head, error) {
	if err := checkOrigin(origin); err != nil {
		return Head{}, err
	}
	if len(signed) > maxNoteBytes {
		return Head{}, invalid("checkpoint", "expected at most %d bytes", maxNoteBytes)
	}
	n, err := note.Open([]byte(signed), note.VerifierList(verifiers...))
	if err != nil {
		return Head{}, denied("checkpoint", "no valid signature by a given key: %v", err)
	}
	return parseCheckpoint(n.Text, origin)
}

func parseCheckpoint(text, origin string) (Head, error) {
	bad := func() (Head, error) {
		return Head{}, denied("checkpoint", "expected three lines about %q: origin, sequence number, hash", origin)
	}
	lines := strings.Split(text, "\n")
	if len(lines) != 4 || lines[0] != origin {
		return bad()
	}
	seq, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil {
		return bad()
	}
	raw, err := base64.StdEncoding.DecodeString(lines[2])
	if err != nil || len(raw) != sha256.Size {
		return bad()
	}
	h := Head{origin, seq, sallyport.DigestOf([sha256.Size]byte(raw))}
	if again, err := Checkpoint(h.Origin, h.Seq, h.Hash); err != nil || again != text {
		return bad()
	}
	return h, nil
}

// verifyJournalRef checks that the checkpoint inside a statement says what the statement says of it.
func verifyJournalRef(j JournalRef, key ed25519.PublicKey) error {
	h, err := openCheckpoint(j.Note, j.Origin, noteVerifier{j.Origin, key})
	if err != nil {
		return field("journal.note", err)
	}
	switch {
	case h.Seq < j.Seq:
		return denied("journal.note", "stale: the signed checkpoint is from record %d, the statement from %d", h.Seq, j.Seq)
	case h.Seq != j.Seq || h.Hash != j.Hash:
		return denied("journal.note", "the signed checkpoint is about another point of the journal")
	}
	return nil
}

// noteKeyHash is the 32-bit key id of C2SP signed-note.
func noteKeyHash(name string, key ed25519.PublicKey) uint32 {
	b := append([]byte(name), '\n', noteEd25519)
	s := sha256.Sum256(append(b, key...))
	return binary.BigEndian.Uint32(s[:])
}

type noteSigner struct {
	ctx  context.Context // for the one call of note.Sign, whose interface has no place for it
	name string
	s    Signer
}

func (n noteSigner) Name() string                    { return n.name }
func (n noteSigner) KeyHash() uint32                 { return noteKeyHash(n.name, n.s.Public()) }
func (n noteSigner) Sign(msg []byte) ([]byte, error) { return signChecked(n.ctx, n.s, msg) }

type noteVerifier struct {
	name string
	key  ed25519.PublicKey
}

func (n noteVerifier) Name() string                { return n.name }
func (n noteVerifier) KeyHash() uint32             { return noteKeyHash(n.name, n.key) }
func (n noteVerifier) Verify(msg, sig []byte) bool { return ed25519.Verify(n.key, msg, sig) }
