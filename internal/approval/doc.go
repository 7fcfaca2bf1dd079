// Package approval is a person's word on exactly one evidence and one target, signed with a key of the person's own.
//
// It is what Mission Control cannot make: it never holds such a key, and neither the Publisher, which counts approvals
// (Count), nor anybody else needs to believe it. An approval binds evidence, tree, base, manifest and target; any
// difference needs a new one. Who may approve, and which keys are whose, is the operator's policy; this room reads no
// policy, keeps no record and publishes nothing.
//
// # Format
//
// An approval is a text of two parts. The first line is the statement in its one byte form, canonical JSON (RFC 8785).
// The rest is an armoured OpenSSH signature (SSHSIG) over that line without its line feed, in the namespace Namespace and
// with SHA-512, byte by byte as ssh-keygen writes it. Without any program of ours:
//
//	head -n 1 approval | tr -d '\n' >statement; tail -n +2 approval >statement.sig
//	ssh-keygen -Y verify -f allowed_signers -I NAME -n sallyport-approval@sallyport.dev -s statement.sig <statement
//
// # What a valid approval means
//
// That the key signed. A key which the account that runs Mission Control or an agent can use, in a file or in an
// ssh-agent, shows a person's will no better than that account. With a key on a security token (sk-ssh-ed25519) somebody
// touched the token: a signature without the user-presence flag is refused. Approver and Given are the signer's own
// words; who approved is decided by the key and by what policy says whose it is.
package approval
