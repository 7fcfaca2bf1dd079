package approval

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"sallyport.dev/sallyport"
)

// Signer has a person's key somewhere. Sign gives the armoured signature of statement in Namespace.
type Signer interface {
	Sign(ctx context.Context, statement []byte) ([]byte, error)
}

// Sign makes an approval of a, whose Type it fills in. What the signer gives is verified before it is returned: a
// signature that Verify would refuse whatever keys are allowed is an error here. A repeat gives another approval of the
// same, which counts once. Errors: CodeInvalid for an incomplete a, and the Signer's own.
func Sign(ctx context.Context, s Signer, a Approval) ([]byte, error) {
	a.Type = Type
	if err := a.Check(); err != nil {
		return nil, err
	}
	statement, err := a.encode()
	if err != nil {
		return nil, err
	}
	armoured, err := s.Sign(ctx, statement)
	if err != nil {
		return nil, err
	}
	sig, err := parseArmoured(armoured)
	if err != nil {
		return nil, err
	}
	key, err := parsePublicKey(sig.PublicKey)
	if err != nil {
		return nil, err
	}
	if err := sig.verify(key, statement); err != nil {
		return nil, err
	}
	return append(append(statement, '\n'), armoured...), nil
}

// KeyFile signs by ssh-keygen, which asks for a passphrase at the terminal, or for a touch, by itself.
type KeyFile struct {
	Path    string    // private key, or the public half of one that an ssh-agent holds
	Program string    // empty: ssh-keygen
	Notices io.Writer // what ssh-keygen tells the person; nil: dropped
}

// waitAfterEnd is how long an ended ssh-keygen may hold its output open.
const waitAfterEnd = 2 * time.Second

// Sign runs `ssh-keygen -Y sign`. CodeUnsupported: there is no such program. CodeDenied: it did not sign.
// CodeUnavailable: ctx ended first.
func (k KeyFile) Sign(ctx context.Context, statement []byte) ([]byte, error) {
	if k.Path == "" {
		return nil, invalid("key", "expected the file of the key that is to sign")
	}
	program := k.Program
	if program == "" {
		program = "ssh-keygen"
	}
	var out, said bytes.Buffer
	cmd := exec.CommandContext(ctx, program, "-Y", "sign", "-n", Namespace, "-f", k.Path)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = bytes.NewReader(statement), &out, &said, waitAfterEnd
	if k.Notices != nil {
		cmd.Stderr = io.MultiWriter(&said, k.Notices)
	}
	err := cmd.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, signError(sallyport.CodeUnsupported, program, "cannot be run", "install OpenSSH, or sign with a key in an ssh-agent", err)
	case ctx.Err() != nil:
		return nil, signError(sallyport.CodeUnavailable, program, "did not sign in time", "", ctx.Err())
	case err != nil:
		return nil, signError(sallyport.CodeDenied, program, "did not sign: "+lastLine(said.String()), "is the path that of a private key, or is its key in your ssh-agent?", err)
	}
	return out.Bytes(), nil
}

// lastLine is what a program said last, cut and printable.
func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	visible := strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e {
			return '?'
		}
		return r
	}, lines[len(lines)-1])
	return visible[:min(len(visible), 200)]
}

// Agent signs by an ssh-agent, of a person on this machine or forwarded.
type Agent struct {
	Socket string        // path of its socket: SSH_AUTH_SOCK
	Key    ssh.PublicKey // which of its keys
}

// Sign asks the agent. CodeUnavailable: no agent answers, or ctx ended first. CodeDenied: it did not sign.
func (g Agent) Sign(ctx context.Context, statement []byte) ([]byte, error) {
	if g.Key == nil {
		return nil, invalid("key", "expected the key that is to sign")
	}
	if err := checkKey(g.Key); err != nil {
		return nil, err
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", g.Socket)
	if err != nil {
		return nil, signError(sallyport.CodeUnavailable, "ssh-agent", "cannot be reached", "is SSH_AUTH_SOCK set, and does ssh-add -l list your key?", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	var flags agent.SignatureFlags
	if g.Key.Type() == ssh.KeyAlgoRSA {
		flags = agent.SignatureFlagRsaSha512
	}
	sig, err := agent.NewClient(conn).SignWithFlags(g.Key, toSign(statement), flags)
	switch {
	case ctx.Err() != nil:
		return nil, signError(sallyport.CodeUnavailable, "ssh-agent", "did not answer in time", "", ctx.Err())
	case err != nil:
		return nil, signError(sallyport.CodeDenied, "ssh-agent", "did not sign with "+fingerprint(g.Key.Marshal()), "does ssh-add -l list this key?", err)
	}
	return seal(g.Key, sig).armour(), nil
}

// seal is the envelope around a signature over toSign.
func seal(key ssh.PublicKey, sig *ssh.Signature) sshSig {
	return sshSig{Magic: sigMagic, Version: sigVersion, PublicKey: key.Marshal(), Namespace: Namespace, Hash: sigHash, Signature: ssh.Marshal(sig)}
}

func signError(code sallyport.Code, subject, message, hint string, err error) error {
	return &sallyport.Error{Op: "sign approval", Code: code, Subject: subject, Message: message, Hint: hint, Err: err}
}
