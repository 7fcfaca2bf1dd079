package publisher

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the driver

	"sallyport.dev/sallyport"
)

// Type of a record. An effect at a forge has three: intended before anything is asked, bound once it is known, and gone or
// closed once it is proved to be no more.
type Type string

// The types.
const (
	RequestReceived     Type = "request.received"
	RequestRefused      Type = "request.refused"
	CredentialIntended  Type = "credential.intended"
	CredentialBound     Type = "credential.bound" // sealed
	CredentialGone      Type = "credential.gone"
	CredentialFailed    Type = "credential.failed" // it could not be revoked: tried again
	BranchIntended      Type = "branch.intended"
	BranchBound         Type = "branch.bound"
	BranchGone          Type = "branch.gone" // found to be deleted by somebody else
	EvidenceIntended    Type = "evidence.intended"
	EvidenceBound       Type = "evidence.bound"
	PullRequestIntended Type = "pull-request.intended"
	PullRequestBound    Type = "pull-request.bound"
	PullRequestClosed   Type = "pull-request.closed" // by us
	PullRequestGone     Type = "pull-request.gone"   // found to be closed or merged by somebody else
	RequestDone         Type = "request.done"        // with the receipt
)

// Record is one line of the ledger. Which members are set goes by Type.
type Record struct {
	Seq   int64  `json:"-"`
	At    string `json:"at"` // RFC 3339, UTC
	Type  Type   `json:"type"`
	Scope Scope  `json:"scope"`
	Nonce string `json:"nonce,omitempty"`

	Request    *Received          `json:"request,omitempty"`
	Why        *sallyport.Reason  `json:"why,omitempty"`
	Credential *CredentialRow     `json:"credential,omitempty"`
	Branch     *BranchRow         `json:"branch,omitempty"`
	Evidence   *BranchRow         `json:"evidence,omitempty"`
	Pull       *PullRow           `json:"pull_request,omitempty"`
	Receipt    string             `json:"receipt,omitempty"`
	Commit     sallyport.ObjectID `json:"commit,omitempty"`
}

// Scope is what a lease is about and what one branch and one pull request belong to.
type Scope struct {
	Target    string                `json:"target"` // its repository
	WorkOrder sallyport.WorkOrderID `json:"work_order"`
}

// Received is what a request was, by what it is compared with later.
type Received struct {
	Acceptance sallyport.Digest    `json:"acceptance"`
	Attempt    sallyport.AttemptID `json:"attempt"`
	Fence      int64               `json:"fence"`
	Branch     string              `json:"branch"`
	Base       string              `json:"base"`
	Origin     string              `json:"origin"` // of the journal
	Seq        int64               `json:"seq"`
	Hash       sallyport.Digest    `json:"hash"`
}

// CredentialRow is a minted credential. Sealed is it, for the holder of the Publisher's key alone.
type CredentialRow struct {
	Mark    string `json:"mark"` // what names it at the forge, chosen before it is made
	Class   string `json:"class,omitempty"`
	Sealed  []byte `json:"sealed,omitempty"`
	Expires string `json:"expires,omitempty"`
	Proof   string `json:"proof,omitempty"` // why it is known to be gone, or not
}

// BranchRow is one move of the branch, or of the ref that evidence is attached under.
type BranchRow struct {
	Ref    string             `json:"ref"`
	Commit sallyport.ObjectID `json:"commit"`
	Expect sallyport.ObjectID `json:"expect,omitempty"` // the tip before; empty: must not exist
	nonce  string             // of the record
}

// PullRow is one pull request.
type PullRow struct {
	Head   string `json:"head"`
	Base   string `json:"base"`
	Number int64  `json:"number,omitempty"`
	URL    string `json:"url,omitempty"`
	Opened bool   `json:"opened,omitempty"` // by us
	Author string `json:"author,omitempty"` // as the forge says
	Why    string `json:"why,omitempty"`
	// Labels are those of the target that were put on: each once, so that a person can take it off.
	Labels []string `json:"labels,omitempty"`
	nonce  string   // of the record
}

// Ledger is the Publisher's own journal: an append-only table in SQLite, hash chained, that several Publishers of one host
// may share. Safe for concurrent use.
type Ledger struct {
	db   *sql.DB
	path string
	now  func() time.Time
}

const schema = `
create table if not exists records (
  seq integer primary key, type text not null, target text not null, work_order text not null, nonce text not null,
  body text not null, chain blob not null);
create table if not exists heads (origin text not null, seq integer not null, hash text not null, primary key (origin, seq));
create index if not exists by_scope on records(target, work_order);
create index if not exists by_nonce on records(nonce);
create index if not exists by_type on records(type);`

// OpenLedger opens or makes the ledger in a folder of mode 0700.
func OpenLedger(path string) (*Ledger, error) {
	fail := func(err error) (*Ledger, error) {
		return nil, &sallyport.Error{Op: "open the ledger", Code: sallyport.CodeUnavailable, Subject: path, Err: err}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fail(err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fail(err)
	}
	f.Close()
	q := url.Values{"_txlock": {"immediate"}, "_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)"}}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String())
	if err != nil {
		return fail(err)
	}
	db.SetMaxOpenConns(1)
	if _, err := db.Exec(schema); err != nil {
		db.Close()
		return fail(err)
	}
	return &Ledger{db: db, path: path, now: time.Now}, nil
}

// Close releases the file. Repeat: nothing.
func (l *Ledger) Close() error { return l.db.Close() }

// Append makes records durable, all or none, if check (which may be nil) has no objection to what is there: both see one state.
func (l *Ledger) Append(ctx context.Context, check func(*State) error, scope Scope, records ...Record) error {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return l.fault(err)
	}
	defer tx.Rollback()
	if check != nil {
		s, err := stateOf(ctx, tx, scope)
		if err != nil {
			return l.fault(err)
		}
		if err := check(s); err != nil {
			return err
		}
	}
	for _, r := range records {
		if r.Request != nil {
			if err := sameHistory(ctx, tx, r.Request); err != nil {
				return l.fault(err)
			}
		}
		r.Scope, r.At = scope, l.now().UTC().Format(time.RFC3339)
		body, err := json.Marshal(r)
		if err != nil {
			return l.fault(err)
		}
		var before []byte
		if err := tx.QueryRowContext(ctx, "select chain from records order by seq desc limit 1").Scan(&before); err != nil && !errors.Is(err, sql.ErrNoRows) {
			return l.fault(err)
		}
		if _, err := tx.ExecContext(ctx, "insert into records(type, target, work_order, nonce, body, chain) values(?,?,?,?,?,?)",
			string(r.Type), scope.Target, string(scope.WorkOrder), r.Nonce, string(body), link(before, body)); err != nil {
			return l.fault(err)
		}
	}
	if err := tx.Commit(); err != nil {
		return l.fault(err)
	}
	return nil
}

// sameHistory refuses a point of a journal that was seen with another hash, whichever work order it came with.
func sameHistory(ctx context.Context, tx *sql.Tx, r *Received) error {
	if _, err := tx.ExecContext(ctx, "insert or ignore into heads(origin, seq, hash) values(?,?,?)", r.Origin, r.Seq, string(r.Hash)); err != nil {
		return err
	}
	var known string
	if err := tx.QueryRowContext(ctx, "select hash from heads where origin = ? and seq = ?", r.Origin, r.Seq).Scan(&known); err != nil {
		return err
	}
	if known != string(r.Hash) {
		return otherHistory()
	}
	return nil
}

func otherHistory() error {
	return &sallyport.Error{Op: "publish", Code: sallyport.CodeDenied, Subject: "journal",
		Message: "the acceptance is tied to another history of the journal than one before it, or to an earlier point of it",
		Hint:    "was the state folder of Mission Control put back from a copy? `sallyport fsck` there says"}
}

func link(before, body []byte) []byte {
	h := sha256.New()
	h.Write(before)
	h.Write(body)
	return h.Sum(nil)
}

func (l *Ledger) fault(err error) error {
	var own *sallyport.Error
	if errors.As(err, &own) {
		return err
	}
	return &sallyport.Error{Op: "use the ledger", Code: sallyport.CodeUnavailable, Subject: l.path, Err: err}
}

// Check goes through the whole chain. CodeCorrupt: a record was changed or taken out.
func (l *Ledger) Check(ctx context.Context) error {
	var before []byte
	var last int64
	return l.each(ctx, "", nil, func(r Record, body, chain []byte) error {
		if last++; r.Seq != last || string(link(before, body)) != string(chain) {
			return &sallyport.Error{Op: "check the ledger", Code: sallyport.CodeCorrupt, Subject: fmt.Sprintf("record %d", r.Seq), Message: "it is not as it was written, or one before it is missing"}
		}
		before = chain
		return nil
	})
}

// State is what the ledger knows of a scope.
func (l *Ledger) State(ctx context.Context, scope Scope) (*State, error) {
	s := NewState(scope)
	err := l.each(ctx, "where target = ? and work_order = ?", []any{scope.Target, string(scope.WorkOrder)}, func(r Record, _, _ []byte) error { s.Apply(r); return nil })
	return s, err
}

// ByNonce are the records of one request.
func (l *Ledger) ByNonce(ctx context.Context, nonce string) (out []Record, err error) {
	err = l.each(ctx, "where nonce = ?", []any{nonce}, func(r Record, _, _ []byte) error { out = append(out, r); return nil })
	return out, err
}

// Scopes are those with a credential that is not proved gone.
func (l *Ledger) Scopes(ctx context.Context) ([]*State, error) {
	all := map[Scope]*State{}
	var order []Scope
	err := l.each(ctx, "", nil, func(r Record, _, _ []byte) error {
		if all[r.Scope] == nil {
			all[r.Scope] = NewState(r.Scope)
			order = append(order, r.Scope)
		}
		all[r.Scope].Apply(r)
		return nil
	})
	var out []*State
	for _, s := range order {
		if len(all[s].Credentials) > 0 {
			out = append(out, all[s])
		}
	}
	return out, err
}

func (l *Ledger) each(ctx context.Context, where string, args []any, do func(r Record, body, chain []byte) error) error {
	rows, err := l.db.QueryContext(ctx, "select seq, type, target, work_order, nonce, body, chain from records "+where+" order by seq", args...)
	if err != nil {
		return l.fault(err)
	}
	defer rows.Close()
	if err := scan(rows, do); err != nil {
		return l.fault(err)
	}
	return nil
}

func scan(rows *sql.Rows, do func(r Record, body, chain []byte) error) error {
	for rows.Next() {
		var r Record
		var seq int64
		var body string
		var chain []byte
		var found Record // what the columns say, by which it is looked for
		if err := rows.Scan(&seq, &found.Type, &found.Scope.Target, &found.Scope.WorkOrder, &found.Nonce, &body, &chain); err != nil {
			return err
		}
		err := json.Unmarshal([]byte(body), &r)
		if err != nil || r.Type != found.Type || r.Scope != found.Scope || r.Nonce != found.Nonce {
			return &sallyport.Error{Op: "read the ledger", Code: sallyport.CodeCorrupt, Subject: fmt.Sprintf("record %d", seq), Message: "it is not as it was written", Err: err}
		}
		r.Seq = seq
		if err := do(r, []byte(body), chain); err != nil {
			return err
		}
	}
	return rows.Err()
}

func stateOf(ctx context.Context, tx *sql.Tx, scope Scope) (*State, error) {
	rows, err := tx.QueryContext(ctx, "select seq, type, target, work_order, nonce, body, chain from records where target = ? and work_order = ? order by seq", scope.Target, string(scope.WorkOrder))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	s := NewState(scope)
	return s, scan(rows, func(r Record, _, _ []byte) error { s.Apply(r); return nil })
}
