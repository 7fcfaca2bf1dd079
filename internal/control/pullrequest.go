package control

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/change"
	"sallyport.dev/sallyport/internal/egress"
	"sallyport.dev/sallyport/internal/evidence"
	"sallyport.dev/sallyport/internal/id"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/internal/publication"
	"sallyport.dev/sallyport/internal/screen"
)

// A pull request is opened by a Publisher: a process of its own, which holds the only credential that can write at a forge.
// What is here has none. It signs an acceptance, hands it over with the evidence and the one commit, and records the receipt.
const (
	// PublisherSocket names in the environment the socket of a Publisher that runs as another user, PublisherKeys the file
	// of its public keys. Without the former a Publisher is started as a child, with PublisherConfig in the user's
	// configuration folder.
	PublisherSocket = "SALLYPORT_PUBLISHER"
	PublisherKeys   = "SALLYPORT_PUBLISHER_KEYS"
	PublisherConfig = "publisher.yaml"

	publisherProgram = "sallyport-publisher"
	acceptanceLife   = time.Hour
	answerTimeout    = 20 * time.Minute
	handOverTries    = 3
)

// PublisherFile is where an embedded Publisher's configuration is, there or not.
func PublisherFile() (string, error) {
	dir, err := os.UserConfigDir()
	return filepath.Join(dir, "sallyport", PublisherConfig), err
}

// separation is what stands between Mission Control and the Publisher, as far as this side can tell: the Publisher's own
// receipt says what the kernel told it.
func separation() string {
	if socket := os.Getenv(PublisherSocket); socket != "" {
		var st unix.Stat_t
		if err := unix.Stat(socket, &st); err == nil && int(st.Uid) != os.Geteuid() {
			return "user (the Publisher at " + socket + " is another user's)"
		}
	}
	if publisherThere() == nil {
		return "none (Mission Control, approver and Publisher are one user: only a process apart)"
	}
	return "none (Mission Control, approver and publisher are one user)"
}

// publisherThere refuses a run whose result nobody could publish.
func publisherThere() error {
	if os.Getenv(PublisherSocket) != "" {
		_, err := publisherKeys()
		return err
	}
	name, err := PublisherFile()
	if err == nil {
		_, err = os.Stat(name)
	}
	if err != nil {
		return &sallyport.Error{Op: "choose the publication", Code: sallyport.CodeUnsupported, Subject: "publish.to pr", Message: "no Publisher is configured: " + name + " is not there",
			Hint: "docs/guide-publishing.md says how to set one up; or publish to: branch"}
	}
	return nil
}

// pullTarget fills in where a pull request goes: what policy says, else the remote origin and the branch of the base.
func pullTarget(ctx context.Context, repo *change.Repo, m *sallyport.Manifest) error {
	if m.Publish.Approvers > 0 && m.Publish.To != "pr" {
		return &sallyport.Error{Op: "choose the publication", Code: sallyport.CodeUnsupported, Subject: "publish.approvers", Message: "approvers cannot be told apart here: whoever runs Sallyport could say yes for each of them",
			Hint: "publish to: pr, with a Publisher that pins their keys: docs/guide-publishing.md"}
	}
	if m.Publish.To != "pr" {
		m.Publish.Repository, m.Publish.Base = "", ""
		return nil
	}
	if err := publisherThere(); err != nil {
		return err
	}
	refuse := func(field, message string) error {
		return &sallyport.Error{Op: "choose the publication", Code: sallyport.CodeInvalid, Subject: "publish." + field, Message: message, Hint: "say publish: {to: pr, repository: …, base: …} in sallyport.yaml"}
	}
	if m.Publish.Repository == "" {
		origin, err := repo.Remote(ctx, "origin")
		if err != nil {
			return err
		}
		address, ok := egress.RepositoryAddress(origin)
		if !ok {
			return refuse("repository", "the remote origin names no repository of a forge")
		}
		m.Publish.Repository = address
	}
	if m.Publish.Base == "" {
		switch {
		case strings.HasPrefix(m.BaseRef, "refs/heads/"):
			m.Publish.Base = strings.TrimPrefix(m.BaseRef, "refs/heads/")
		case strings.HasPrefix(m.BaseRef, "refs/remotes/origin/"):
			m.Publish.Base = strings.TrimPrefix(m.BaseRef, "refs/remotes/origin/")
		default:
			return refuse("base", "the base is no branch, so that there is none to open a pull request against")
		}
	}
	return nil
}

// intendPull is the intent of a pull request. Its nonce is new: what an earlier one with another did is found by its branch.
func intendPull(m sallyport.Manifest, commit sallyport.ObjectID) (lifecycle.Publication, error) {
	nonce, err := id.Secret()
	return lifecycle.Publication{Target: "pr", Branch: branchOf(m), Commit: commit, Repository: m.Publish.Repository, Base: "refs/heads/" + m.Publish.Base, Nonce: nonce}, err
}

// finishPull hands an intended publication over to the Publisher. What the Publisher refuses is recorded as refused, and so
// is that it cannot be reached after a few tries: the change stays accepted, and a person publishes it again.
func (c *Control) finishPull(ctx context.Context, lease *journal.Lease, store *change.Store, at journal.Attempt, m sallyport.Manifest) error {
	p := *at.Publication
	receipt, keys, acceptance, err := c.handOver(ctx, lease, store, at, m, p)
	if errors.Is(err, errStale) {
		// A nonce is for one acceptance: another one needs an intent of its own.
		err = c.newest(ctx, at)
		if err == nil {
			if p, err = intendPull(m, p.Commit); err != nil {
				return err
			}
			if err := c.record(ctx, lease, m, journal.Record{Type: lifecycle.PublicationIntended, Attempt: at.Report.Attempt, Data: p}); err != nil {
				return err
			}
			receipt, keys, acceptance, err = c.handOver(ctx, lease, store, at, m, p)
		}
	}
	if ctx.Err() != nil {
		return err // the next driver goes on
	}
	if err == nil {
		err = c.keepReceipt(at, &p, receipt, keys, acceptance)
	}
	if err != nil {
		why := reasonOf(err)
		known := "not published"
		if sallyport.CodeOf(err) == sallyport.CodeUnknown || receipt != nil {
			known = "whether it is published is not known"
		}
		why.Code, why.Message = lifecycle.RefusedPullRequest, "accepted, and "+known+": "+messageOf(err)
		again := "`sallyport publish " + screen.Short(at.Report.Attempt) + "` tries again"
		if why.Hint != "" {
			again = why.Hint + "; " + again
		}
		why.Hint = again
		return c.record(ctx, lease, m, journal.Record{Type: lifecycle.PublicationRefused, Attempt: at.Report.Attempt, Data: why})
	}
	return c.record(ctx, lease, m, journal.Record{Type: lifecycle.PublicationDone, Attempt: at.Report.Attempt, Data: p})
}

// newest refuses to accept an Attempt anew that a later one of its WorkOrder has overtaken at the forge.
func (c *Control) newest(ctx context.Context, at journal.Attempt) error {
	all, err := c.journal.OfWorkOrder(ctx, at.Report.WorkOrder)
	if err != nil {
		return err
	}
	for i := len(all) - 1; i >= 0 && all[i].Report.Attempt != at.Report.Attempt; i-- {
		if all[i].Published || all[i].Publishing {
			return &sallyport.Error{Op: "publish", Code: sallyport.CodeConflict, Subject: string(at.Report.Attempt), Message: "attempt " + screen.Short(all[i].Report.Attempt) + " of the same work order came later, and is published or being so"}
		}
	}
	return nil
}

// keepReceipt verifies a receipt and keeps it beside the evidence.
func (c *Control) keepReceipt(at journal.Attempt, p *lifecycle.Publication, receipt, keys, acceptance []byte) error {
	list, err := evidence.ParsePublicKeys(keys)
	if err != nil {
		return err
	}
	r, err := evidence.VerifyPublication(receipt, list, acceptance)
	if err != nil {
		return err
	}
	if r.Predicate.Nonce != p.Nonce || r.Predicate.Commit != p.Commit {
		return &sallyport.Error{Op: "publish", Code: sallyport.CodeCorrupt, Message: "the receipt is for another publication"}
	}
	path := filepath.Join(c.attemptFolder(at.Report.Attempt), "publication-"+sallyport.Sum(receipt).Hex()[:12]+".json")
	if err := writeDurable(path, receipt); err != nil {
		return err
	}
	p.Receipt, p.ReceiptDigest = path, sallyport.Sum(receipt)
	if r.Predicate.PullRequest != nil {
		p.URL = r.Predicate.PullRequest.URL
	}
	return nil
}

// handOver asks the Publisher, again where its answer was lost: the same acceptance gives the same receipt.
func (c *Control) handOver(ctx context.Context, lease *journal.Lease, store *change.Store, at journal.Attempt, m sallyport.Manifest, p lifecycle.Publication) (receipt, keys, acceptance []byte, err error) {
	fail := func(err error) ([]byte, []byte, []byte, error) { return nil, nil, nil, err }
	if lease == nil {
		return fail(&sallyport.Error{Op: "publish", Code: sallyport.CodeFenced, Message: "only whoever drives the Attempt hands it over"})
	}
	pack, size, digest, err := c.packFor(ctx, store, p.Commit, m.Base)
	if err != nil {
		return fail(err)
	}
	defer pack.Close()
	envelope, err := os.ReadFile(at.Report.Evidence)
	if err != nil {
		return fail(stateError(at.Report.Evidence, err))
	}
	if acceptance, err = c.acceptance(ctx, lease, at, m, p, envelope, evidence.Pack{Digest: digest, Bytes: size}); err != nil {
		return fail(err)
	}
	approvals, err := c.approvals(at.Report.Attempt)
	if err != nil {
		return fail(err)
	}
	q := publication.Request{Acceptance: string(acceptance), Evidence: string(envelope), Approvals: approvals, PackBytes: size}
	for try := 1; ; try++ {
		if _, err := pack.Seek(0, io.SeekStart); err != nil {
			return fail(stateError("pack", err))
		}
		receipt, keys, err = askPublisher(ctx, q, pack)
		if code := sallyport.CodeOf(err); err == nil || try == handOverTries || ctx.Err() != nil || code != sallyport.CodeUnknown && code != sallyport.CodeUnavailable {
			return receipt, keys, acceptance, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(try) * time.Second):
		}
	}
}

// packFor writes the pack of the one commit into a file without a name.
func (c *Control) packFor(ctx context.Context, store *change.Store, commit, base sallyport.ObjectID) (*os.File, int64, sallyport.Digest, error) {
	f, err := change.Spool(store.Dir())
	if err != nil {
		return nil, 0, "", err
	}
	h := sha256.New()
	if err := store.Handover(ctx, commit, base, io.MultiWriter(f, h)); err != nil {
		f.Close()
		return nil, 0, "", err
	}
	size, err := f.Seek(0, io.SeekCurrent)
	return f, size, sallyport.DigestOf([sha256.Size]byte(h.Sum(nil))), err
}

// errStale: the acceptance that was signed for an intent is not valid any more, or of another pack.
var errStale = errors.New("the acceptance of this intent has had its time")

// acceptance is the signed word that goes with an intent, and the only one that ever does. It is durable before it leaves.
// errStale: there is one, and it is not good any more.
func (c *Control) acceptance(ctx context.Context, lease *journal.Lease, at journal.Attempt, m sallyport.Manifest, p lifecycle.Publication, envelope []byte, pack evidence.Pack) ([]byte, error) {
	path := filepath.Join(c.attemptFolder(at.Report.Attempt), "acceptance-"+sallyport.Sum([]byte(p.Nonce)).Hex()[:12]+".json")
	if b, err := os.ReadFile(path); err == nil {
		if a, _, err := evidence.VerifyAcceptance(b, envelope, c.keys.Keys(), time.Now()); err == nil && a.Predicate.Pack == pack {
			return b, nil
		}
		return nil, errStale
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, stateError(path, err)
	}
	signer, err := c.keys.Signer()
	if err != nil {
		return nil, err
	}
	seq, hash, err := c.journal.Head(ctx)
	if err != nil {
		return nil, err
	}
	note, err := evidence.SignCheckpoint(ctx, signer, c.origin(), seq, hash)
	if err != nil {
		return nil, err
	}
	v, err := evidence.Verify(envelope, c.keys.Keys(), evidence.Expect{Commit: p.Commit, Attempt: at.Report.Attempt, WorkOrder: at.Report.WorkOrder})
	if err != nil {
		return nil, err
	}
	now := time.Now()
	e := v.Statement.Predicate
	var approved *evidence.Approved
	if e.Decision.Decision == sallyport.DecisionAwaitingApproval {
		if approved, err = c.approvedBy(ctx, at.Report.Attempt, v.Envelope); err != nil {
			return nil, err
		}
	}
	b, _, err := evidence.SealAcceptance(ctx, signer, evidence.NewAcceptance(v, evidence.Accepted{
		Factory: string(c.factory), WorkOrder: e.WorkOrder, Attempt: at.Report.Attempt, Fence: lease.Fence, Evidence: v.Envelope,
		Base: evidence.AcceptedBase{Commit: e.Base.Commit, Tree: e.Base.Tree}, Target: evidence.Target{Repository: p.Repository, Base: p.Base, Branch: p.Branch},
		Pack: pack, Task: taskOf(m), Submitter: at.Submitter, Approvers: m.Publish.Approvers, Nonce: p.Nonce, Issued: evidence.Time(now), NotAfter: evidence.Time(now.Add(acceptanceLife)),
		Journal: evidence.JournalRef{Origin: c.origin(), Seq: seq, Hash: hash, Note: note}, Approved: approved}))
	if err != nil {
		return nil, err
	}
	return b, writeDurable(path, b)
}

// approvedBy is the person's word that accepted this very evidence. CodeConflict: there is none.
func (c *Control) approvedBy(ctx context.Context, id sallyport.AttemptID, digest sallyport.Digest) (*evidence.Approved, error) {
	var found *evidence.Approved
	err := c.each(ctx, id, lifecycle.AttemptApproved, func(e lifecycle.Event) error {
		var a lifecycle.Approval
		if err := json.Unmarshal(e.Data, &a); err != nil {
			return &sallyport.Error{Op: "publish", Code: sallyport.CodeCorrupt, Subject: string(id), Err: err}
		}
		if a.Evidence == digest {
			found = &evidence.Approved{Who: a.Who, Why: a.Why, Evidence: digest, Seq: e.Seq}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, &sallyport.Error{Op: "publish", Code: sallyport.CodeConflict, Subject: string(id), Message: "its evidence awaits a person's word, and the journal has none about it"}
	}
	return found, nil
}

// taskOf is what was asked, in words that a person typed.
func taskOf(m sallyport.Manifest) string {
	if t := strings.TrimSpace(m.Task); t != "" {
		return t
	}
	return m.Name
}

// askPublisher sends one request to the Publisher that is configured, and gives its receipt and its public keys.
func askPublisher(ctx context.Context, q publication.Request, pack io.Reader) (receipt, keys []byte, err error) {
	conn, keys, end, err := reachPublisher(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer end()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(answerTimeout))
	werr := q.Write(conn, pack)
	if c, ok := conn.(*net.UnixConn); ok && werr != nil {
		_ = c.CloseWrite() // there comes no more: else each of the two would wait for the other
	}
	// A refusal may come before all was taken. Where it is we who sent less, it says nothing about the rest.
	receipt, err = publication.ReadAnswer(conn)
	hungUp := errors.Is(werr, unix.EPIPE) || errors.Is(werr, unix.ECONNRESET)
	if err != nil && werr != nil && (!hungUp || sallyport.CodeOf(err) == sallyport.CodeUnknown) {
		err = &sallyport.Error{Op: "publish", Code: sallyport.CodeUnavailable, Message: "the Publisher did not take the request", Err: werr}
	}
	return receipt, keys, err
}

// publisherKeys are those of a Publisher of another user.
func publisherKeys() ([]byte, error) {
	keys, err := os.ReadFile(os.Getenv(PublisherKeys))
	if err == nil {
		_, err = evidence.ParsePublicKeys(keys)
	}
	if err != nil {
		return nil, &sallyport.Error{Op: "publish", Code: sallyport.CodeUnsupported, Subject: PublisherKeys, Message: "expected the file of the Publisher's public keys, to verify receipts with", Err: err,
			Hint: "`sallyport-publisher keys > FILE`, on its side"}
	}
	return keys, nil
}

func reachPublisher(ctx context.Context) (conn net.Conn, keys []byte, end func(), err error) {
	socket := os.Getenv(PublisherSocket)
	if socket == "" {
		return startPublisher(ctx)
	}
	if keys, err = publisherKeys(); err != nil {
		return nil, nil, nil, err
	}
	if conn, err = net.DialTimeout("unix", socket, 10*time.Second); err != nil {
		return nil, nil, nil, &sallyport.Error{Op: "publish", Code: sallyport.CodeUnavailable, Subject: socket, Message: "the Publisher cannot be reached", Err: err, Hint: "is it running? `systemctl status sallyport-publisher`"}
	}
	return conn, keys, func() { conn.Close() }, nil
}

// startPublisher has a Publisher of the same user do one request: a process and keys of its own, and no more separation than
// that. It ends by itself, also when this process is killed: what it has begun it ends.
func startPublisher(ctx context.Context) (conn net.Conn, keys []byte, end func(), err error) {
	fail := func(err error) (net.Conn, []byte, func(), error) { return nil, nil, nil, err }
	config, err := PublisherFile()
	if err != nil {
		return fail(err)
	}
	if err := publisherThere(); err != nil {
		return fail(err)
	}
	program, err := PublisherProgram()
	if err != nil {
		return fail(err)
	}
	var said bytes.Buffer
	ask := exec.CommandContext(ctx, program, "keys", "--config", config)
	ask.Env, ask.Stderr = PublisherEnv(), &said
	if keys, err = ask.Output(); err != nil {
		code := sallyport.CodeInvalid
		if ask.ProcessState == nil || ask.ProcessState.ExitCode() < 0 { // not started, or killed: it has said nothing about itself
			code = sallyport.CodeUnavailable
		}
		return fail(&sallyport.Error{Op: "start the Publisher", Code: code, Message: screen.Fit(screen.Line(strings.TrimSpace(said.String())), 500), Err: err, Hint: "`sallyport-publisher check` says more"})
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fail(err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "publisher"), os.NewFile(uintptr(pair[1]), "publisher")
	defer ours.Close()
	defer theirs.Close()
	cmd := exec.Command(program, "once", "--config", config)
	cmd.Env, cmd.Stdin, cmd.Dir = PublisherEnv(), theirs, "/"
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fail(&sallyport.Error{Op: "start the Publisher", Code: sallyport.CodeUnavailable, Subject: program, Err: err})
	}
	go func() { _ = cmd.Wait() }() // it ends what it has begun, whoever waits for the answer
	if conn, err = net.FileConn(ours); err != nil {
		return fail(err)
	}
	return conn, keys, func() { conn.Close() }, nil
}

// PublisherEnv is what a child needs to find its way, and nothing of ours.
func PublisherEnv() []string {
	var env []string
	for _, name := range []string{"HOME", "PATH", "LANG", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// PublisherProgram is the program of a Publisher.
func PublisherProgram() (string, error) { return besideUs(publisherProgram) }

// besideUs is a program of ours: in the folder that SALLYPORT_LIBEXEC names, where this one is, else on PATH.
func besideUs(name string) (string, error) {
	self, err := os.Executable()
	for _, dir := range []string{os.Getenv("SALLYPORT_LIBEXEC"), filepath.Dir(self)} {
		path := filepath.Join(dir, name)
		if _, serr := os.Stat(path); err == nil && dir != "" && serr == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", &sallyport.Error{Op: "publish", Code: sallyport.CodeUnsupported, Subject: name, Message: fmt.Sprintf("the program is neither beside %s nor on PATH", self), Hint: "install all programs of a release together"}
	}
	return path, nil
}
