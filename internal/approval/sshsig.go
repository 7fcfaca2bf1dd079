package approval

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"math/big"

	"golang.org/x/crypto/ssh"
)

// The envelope is OpenSSH's PROTOCOL.sshsig, version 1.
const (
	sigBegin   = "-----BEGIN SSH SIGNATURE-----\n"
	sigEnd     = "-----END SSH SIGNATURE-----\n"
	sigColumns = 70 // of base64 in a line, as ssh-keygen breaks it
	sigVersion = 1
	sigHash    = "sha512"
)

var sigMagic = [6]byte{'S', 'S', 'H', 'S', 'I', 'G'}

// sshSig is the envelope after base64, in the order of its fields on the wire.
type sshSig struct {
	Magic     [6]byte
	Version   uint32
	PublicKey []byte
	Namespace string
	Reserved  string
	Hash      string
	Signature []byte
}

// signedData is what the key signs. It begins as no message of the SSH protocol does.
type signedData struct {
	Magic     [6]byte
	Namespace string
	Reserved  string
	Hash      string
	Digest    []byte
}

// toSign is what a key signs for this statement.
func toSign(statement []byte) []byte {
	h := sha512.Sum512(statement)
	return ssh.Marshal(signedData{Magic: sigMagic, Namespace: Namespace, Hash: sigHash, Digest: h[:]})
}

// armour is the text of a signature.
func (s sshSig) armour() []byte {
	text := base64.StdEncoding.EncodeToString(ssh.Marshal(s))
	var b bytes.Buffer
	b.WriteString(sigBegin)
	for len(text) > 0 {
		n := min(len(text), sigColumns)
		b.WriteString(text[:n] + "\n")
		text = text[n:]
	}
	b.WriteString(sigEnd)
	return b.Bytes()
}

// parseArmoured reads exactly one signature of ours, as armour writes it.
func parseArmoured(b []byte) (sshSig, error) {
	var s sshSig
	if len(b) > maxSignature {
		return s, invalid("signature", "expected at most %d bytes, found %d", maxSignature, len(b))
	}
	text, ok1 := bytes.CutPrefix(b, []byte(sigBegin))
	text, ok2 := bytes.CutSuffix(text, []byte(sigEnd))
	if !ok1 || !ok2 {
		return s, invalid("signature", "expected one OpenSSH signature and nothing around it")
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(string(bytes.ReplaceAll(text, []byte("\n"), nil)))
	if err != nil {
		return s, invalid("signature", "expected base64")
	}
	if err := ssh.Unmarshal(raw, &s); err != nil { // refuses bytes at the end
		return s, invalid("signature", "expected an OpenSSH signature: %v", err)
	}
	if s.Magic != sigMagic || s.Version != sigVersion || s.Reserved != "" {
		return s, invalid("signature", "expected version %d of the format", sigVersion)
	}
	if !bytes.Equal(s.armour(), b) {
		return s, invalid("signature", "expected the one form that ssh-keygen writes: %d characters in a line", sigColumns)
	}
	if s.Namespace != Namespace {
		return s, denied("signature", "expected the namespace %q, found %.80q: it was signed for something else", Namespace, s.Namespace)
	}
	if s.Hash != sigHash {
		return s, denied("signature", "expected the hash %s, found %.40q", sigHash, s.Hash)
	}
	return s, nil
}

// verify says whether the signature holds for the statement by this very key.
func (s sshSig) verify(key ssh.PublicKey, statement []byte) error {
	var in struct {
		Format string
		Blob   []byte
		Rest   []byte `ssh:"rest"`
	}
	if err := ssh.Unmarshal(s.Signature, &in); err != nil {
		return invalid("signature", "expected an SSH signature: %v", err)
	}
	sig := &ssh.Signature{Format: in.Format, Blob: in.Blob, Rest: in.Rest}
	if err := checkForm(key, sig); err != nil {
		return err
	}
	if err := key.Verify(toSign(statement), sig); err != nil {
		return denied("signature", "does not hold for this statement")
	}
	return nil
}

// What a security token may say: somebody was there, and perhaps that it knew who.
const (
	flagPresent  = 0x01
	flagVerified = 0x04
)

// checkForm demands the one algorithm of the key, and the one form that its signatures have. An ECDSA signature has a
// twin (r, n-s) that nobody can forbid, as OpenSSH makes both; it is the same person's word twice.
func checkForm(key ssh.PublicKey, sig *ssh.Signature) error {
	if want := algorithm(key); sig.Format != want {
		return denied("signature", "expected the algorithm %s, found %.40q", want, sig.Format)
	}
	bad := invalid("signature", "expected the one form of a %s signature", sig.Format)
	if key.Type() == ssh.KeyAlgoSKED25519 {
		if len(sig.Blob) != 64 || len(sig.Rest) != 5 {
			return bad
		}
		if flags := sig.Rest[0]; flags&flagPresent == 0 || flags&^(flagPresent|flagVerified) != 0 {
			return denied("signature", "nobody touched the security token (flags %#02x)", flags)
		}
		return nil
	}
	if len(sig.Rest) != 0 {
		return bad
	}
	switch key.Type() {
	case ssh.KeyAlgoED25519:
		if len(sig.Blob) != 64 {
			return bad
		}
	case ssh.KeyAlgoRSA: // x/crypto takes one without its leading zeros also
		if n := rsaModulus(key); n == nil || len(sig.Blob) != (n.BitLen()+7)/8 {
			return bad
		}
	default:
		var point struct{ R, S *big.Int }
		if err := ssh.Unmarshal(sig.Blob, &point); err != nil || !bytes.Equal(ssh.Marshal(point), sig.Blob) {
			return bad
		}
	}
	return nil
}

// fingerprint is as ssh-keygen -l shows it.
func fingerprint(publicKey []byte) string {
	h := sha256.Sum256(publicKey)
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(h[:])
}
