package approval

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"sallyport.dev/sallyport"
)

// Type names the statement below.
const Type = "https://sallyport.dev/approval/v1"

// Namespace keeps signatures of approvals apart from all else that the same key signs.
const Namespace = "sallyport-approval@sallyport.dev"

// Bounds on what Verify reads.
const (
	maxStatement = 8 << 10
	maxSignature = 16 << 10
)

// Approval is the statement. Members are in the order of their names: that is their canonical order.
type Approval struct {
	Approver   string             `json:"approver"` // a login, the signer's own word
	BaseCommit sallyport.ObjectID `json:"base_commit"`
	Evidence   sallyport.Digest   `json:"evidence"` // of the envelope
	Given      string             `json:"given"`    // RFC 3339, UTC, whole seconds; the signer's own word
	Manifest   sallyport.Digest   `json:"manifest"`
	Target     Target             `json:"target"`
	Tree       sallyport.ObjectID `json:"tree"`
	Type       string             `json:"type"`
}

// Target is where the change may go. Branches are short names.
type Target struct {
	BaseBranch string `json:"base_branch"`
	HeadBranch string `json:"head_branch"`
	Repository string `json:"repository"` // canonical, without user: https://forge.example/owner/name
}

// Time is t as approvals write it.
func Time(t time.Time) string { return t.UTC().Truncate(time.Second).Format(time.RFC3339) }

// Check reports CodeInvalid unless a is complete and each part has its form.
func (a Approval) Check() error {
	if err := a.checkSubject(); err != nil {
		return err
	}
	if err := checkText("approver", a.Approver, 100); err != nil {
		return err
	}
	t, err := time.Parse(time.RFC3339, a.Given)
	if err != nil || Time(t) != a.Given {
		return invalid("given", "expected a time in RFC 3339, UTC and whole seconds, found %.40q", a.Given)
	}
	return nil
}

// checkSubject is Check without who and when.
func (a Approval) checkSubject() error {
	if a.Type != Type {
		return invalid("type", "expected %q, found %.80q", Type, a.Type)
	}
	for _, f := range []struct {
		name string
		err  error
	}{{"base_commit", a.BaseCommit.Check()}, {"evidence", a.Evidence.Check()}, {"manifest", a.Manifest.Check()}, {"tree", a.Tree.Check()}} {
		if f.err != nil {
			return &sallyport.Error{Op: "check approval", Code: sallyport.CodeInvalid, Subject: f.name, Err: f.err}
		}
	}
	return a.Target.check()
}

func (t Target) check() error {
	for _, b := range []struct{ name, value string }{{"target.base_branch", t.BaseBranch}, {"target.head_branch", t.HeadBranch}} {
		if err := checkText(b.name, b.value, 250); err != nil {
			return err
		}
		if strings.ContainsAny(b.value, " ~^:?*[\\") || strings.HasPrefix(b.value, "refs/") || strings.HasPrefix(b.value, "-") {
			return invalid(b.name, "expected the short name of a branch, found %.80q", b.value)
		}
	}
	if t.BaseBranch == t.HeadBranch {
		return invalid("target", "expected two branches, found %.80q twice", t.BaseBranch)
	}
	if err := checkText("target.repository", t.Repository, 500); err != nil {
		return err
	}
	u, err := url.Parse(t.Repository)
	// The address is not quoted: what is wrong with it may be a password in it.
	if err != nil || u.Scheme == "" || u.Opaque != "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.Path == "" || u.String() != t.Repository {
		return invalid("target.repository", "expected an address without user, query or fragment")
	}
	return nil
}

// checkText demands 1 to n characters that a person sees, in one line.
func checkText(name, s string, n int) error {
	if s == "" || !utf8.ValidString(s) || utf8.RuneCountInString(s) > n || strings.TrimSpace(s) != s || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return invalid(name, "expected 1 to %d visible characters", n)
	}
	return nil
}

// encode gives the one byte form. For what Check lets through it is RFC 8785: no number, no character that the two
// would write differently.
func (a Approval) encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(a); err != nil {
		return nil, invalid("statement", "cannot be encoded: %v", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// decode reads a statement in its one byte form: what it decoded, encoded again, must be the same bytes. Unknown,
// doubled, reordered and differently written members all fail that comparison.
func decode(b []byte) (Approval, error) {
	var a Approval
	if len(b) > maxStatement {
		return a, invalid("statement", "expected at most %d bytes, found %d", maxStatement, len(b))
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		return Approval{}, invalid("statement", "expected an approval of this version: %v", err)
	}
	again, err := a.encode()
	if err != nil || !bytes.Equal(again, b) {
		return Approval{}, invalid("statement", "expected the one byte form of an approval: canonical JSON with exactly its members")
	}
	return a, a.Check()
}

// Verify says what was approved and by which of the allowed keys. It needs no network and no clock. CodeInvalid: this is
// no approval, or not in its one byte form, or allowed is empty or ambiguous. CodeDenied: well formed, but not by an
// allowed key, or the signature does not hold. Whether it approves what the caller holds is Count's question.
func Verify(blob []byte, allowed []AllowedKey) (Approval, AllowedKey, error) {
	if err := checkAllowed(allowed); err != nil {
		return Approval{}, AllowedKey{}, err
	}
	return verify(blob, allowed)
}

func verify(blob []byte, allowed []AllowedKey) (Approval, AllowedKey, error) {
	if len(blob) > maxStatement+1+maxSignature {
		return Approval{}, AllowedKey{}, invalid("approval", "expected at most %d bytes, found %d", maxStatement+1+maxSignature, len(blob))
	}
	statement, armoured, ok := bytes.Cut(blob, []byte("\n"))
	if !ok {
		return Approval{}, AllowedKey{}, invalid("approval", "expected a line with the statement and an OpenSSH signature below it")
	}
	s, err := parseArmoured(armoured)
	if err != nil {
		return Approval{}, AllowedKey{}, err
	}
	key, ok := find(allowed, s.PublicKey)
	if !ok {
		return Approval{}, AllowedKey{}, denied("key", "signed by %s, which may not approve", fingerprint(s.PublicKey))
	}
	if err := s.verify(key.Key, statement); err != nil {
		return Approval{}, AllowedKey{}, err
	}
	a, err := decode(statement)
	if err != nil {
		return Approval{}, AllowedKey{}, err
	}
	return a, key, nil
}

func invalid(subject, format string, args ...any) error {
	return &sallyport.Error{Op: "check approval", Code: sallyport.CodeInvalid, Subject: subject, Message: fmt.Sprintf(format, args...)}
}

func denied(subject, format string, args ...any) error {
	return &sallyport.Error{Op: "verify approval", Code: sallyport.CodeDenied, Subject: subject, Message: fmt.Sprintf(format, args...)}
}
