// Package forge speaks to what keeps a repository for others: GitHub, GitLab, Gitea and Forgejo, and a plain git server.
// It mints what writes there, says where to push, and looks up, opens, edits and closes pull requests.
//
// It decides nothing and remembers nothing: the Publisher (internal/publisher) does both. No Driver can merge, and there is
// no method to ask it to.
package forge

import (
	"context"
	"slices"
	"strings"
	"time"

	"sallyport.dev/sallyport"
)

// Driver is one repository on one forge. All methods may be repeated; each honours its context, and has a deadline of its
// own beside it. Errors are *sallyport.Error:
//
//	CodeInvalid      the forge says that what was asked can never be: fix target or request
//	CodeDenied       the credential is not good for this, or the forge's rules forbid it
//	CodeNotFound     repository, branch or pull request is not there, or not for this credential
//	CodeConflict     it exists already, or is not as expected: look it up, then decide
//	CodeUnavailable  TLS, 5xx, rate limit: nothing is known to have happened; *Later in the chain says until when
//	CodeUnknown      the answer was lost after the request had left: look it up before anything else
//
// No error holds a credential, and what it holds of the forge's own words is cut, in one line and printable.
type Driver interface {
	// Describe is what this driver can do. It asks nobody.
	Describe() Description
	// Mint gets the credential for one publication: the narrowest and shortest that the forge makes, or the configured one.
	// mark names it where the forge keeps a name, so that one whose answer was lost can be found. What the forge says
	// that the credential may do is compared with what was asked; more is CodeDenied, and it is revoked before Mint returns.
	Mint(ctx context.Context, mark string) (Grant, error)
	// Revoke ends a minted credential. Gone already: nil. A configured one: nil, nothing is done.
	Revoke(ctx context.Context, g Grant) error
	// Inspect tells what the credential may do and what guards the base branch. It changes nothing.
	Inspect(ctx context.Context, g Grant, base string) (Inspection, error)
	// Remote is where git pushes with this credential.
	Remote(g Grant) Remote
	// Find lists the pull requests from exactly this head branch of this very repository to exactly this base branch, in
	// whatever state, oldest first. Branches are short names. What a forge's own filter lets through is compared again.
	Find(ctx context.Context, g Grant, head, base string) ([]PullRequest, error)
	// Create opens one. CodeConflict: there is one already.
	Create(ctx context.Context, g Grant, n NewPullRequest) (PullRequest, error)
	// Get reads one again.
	Get(ctx context.Context, g Grant, number int64) (PullRequest, error)
	// Edit replaces title and body.
	Edit(ctx context.Context, g Grant, number int64, t Text) error
	// Label puts on one those of the labels that the repository has, and tells which these are. It takes none away, also where
	// the forge keeps one label of a scope at a time: then the one that is there stays.
	Label(ctx context.Context, g Grant, number int64, labels []string) (put []string, err error)
	// Close closes one with a comment.
	Close(ctx context.Context, g Grant, number int64, comment string) error
}

// Description is what a driver can do.
type Description struct {
	Kind         string // github, gitlab, gitea, git
	Repository   string // canonical, without user: https://forge.example/owner/name
	PullRequests bool   // false: a plain git server; Find gives none, Create is CodeUnsupported
	Mints        bool   // a credential for each publication, which is revoked after it
	Drafts       bool
	// Lives is how long a minted credential lives at most that nobody revokes; 0: for ever.
	Lives time.Duration
	// Compare is an address where a person opens a pull request for head by hand; "": the server has none.
	Compare func(head, base string) string
}

// Grant is a credential for one publication. It is never printed; it is written only sealed.
type Grant struct {
	ID       string    `json:"id"`       // what names it at the forge, for Revoke; "": configured
	Secret   string    `json:"secret"`   // a token; "" with SSH
	User     string    `json:"user"`     // for git over HTTPS
	Key      string    `json:"key"`      // a private key's file, for git over SSH
	Class    string    `json:"class"`    // minted | configured
	Scope    []string  `json:"scope"`    // as the forge says it, or as was asked where it does not tell
	Expires  time.Time `json:"expires"`  // zero: it does not
	Identity string    `json:"identity"` // as whom it acts: a login, an App's slug; "" where the forge does not tell
}

// The classes of a Grant.
const (
	ClassMinted     = "minted"
	ClassConfigured = "configured"
)

// String keeps a Grant out of logs.
func (g Grant) String() string { return "credential (" + g.Class + ")" }

// GoString is String.
func (g Grant) GoString() string { return g.String() }

// Remote is where and how git pushes. No part of a credential is in URL or SSH.
type Remote struct {
	URL string
	// Header is one HTTP header, "Authorization: Basic …"; "": none. It is given to git by environment, never by arguments.
	Header string
	// SSH is the whole command for GIT_SSH_COMMAND; "": not over SSH.
	SSH string
	// PushSSH is SSH for pushing, where one credential is not good for both; "": SSH.
	PushSSH string
	// CAFile has the certificates that an HTTPS server is verified with; "": the system's, or those of SSL_CERT_FILE and
	// SSL_CERT_DIR.
	CAFile string
}

// Inspection is what is to be known of a target before it is needed.
type Inspection struct {
	RepositoryID string
	Private      bool
	Archived     bool
	Base         sallyport.ObjectID // tip of the base branch
	Findings     []Finding
}

// Finding is one observation of an Inspection. Blocking: nothing is published unless the operator allows it by its Code.
type Finding struct {
	Code     string // cannot-push, cannot-open, can-merge, can-administer, can-change-workflows, unprotected-base, no-review-required, long-lived, too-wide, not-told
	Blocking bool
	Message  string
}

// PullRequest is one at the forge. All texts are the forge's: neutralise before showing.
type PullRequest struct {
	Number int64
	URL    string
	State  State
	Draft  bool
	Head   string             // branch, short
	Tip    sallyport.ObjectID // of Head, as the forge knows it
	Base   string             // branch, short
	Author string             // login
	Text   Text
	Labels []string
	// ClosedBy is who closed or merged it, "" where it is open or the forge does not tell.
	ClosedBy string
	Created  time.Time
}

// State of a PullRequest.
type State string

// The states.
const (
	Open   State = "open"
	Closed State = "closed"
	Merged State = "merged"
)

// Text is title and body. Both are made and neutralised by the caller.
type Text struct{ Title, Body string }

// ScopedBeside says that a label is of one scope with another one of these: what comes before the last separator is equal.
func ScopedBeside(label string, others []string, separator string) bool {
	scope := strings.LastIndex(label, separator)
	return scope > 0 && slices.ContainsFunc(others, func(o string) bool {
		return o != label && strings.LastIndex(o, separator) == scope && o[:scope] == label[:scope]
	})
}

// NewPullRequest is what Create asks for.
type NewPullRequest struct {
	Head, Base string // short names
	Text       Text
	Draft      bool
	// Labels are put on where the forge takes them in the same request, but for those that do not exist. Label does the rest.
	Labels []string
}

// Later says when the forge may be asked again. It is in the chain of a CodeUnavailable.
type Later struct{ Until time.Time }

func (l *Later) Error() string { return "not before " + l.Until.UTC().Format(time.RFC3339) }
