package control

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/internal/screen"
	"sallyport.dev/sallyport/internal/secret"
)

// Bytes that a sandbox or a provider gave come in by four ways, and each goes through the redactor before it
// reaches a disk or a person: a command's output into its log (copyOutput) or to a terminal (shown), everything
// that is recorded in the journal, and so in reports, feedback, evidence and commits (record), and what an
// operation answers at once (borrowed). The change itself is never altered: inspection refuses it instead. So is
// what a person writes for the agent (withoutSecrets); their reasons are recorded like all else.

// redaction is what this driver knows to be secret.
type redaction struct {
	mu       sync.Mutex
	known    map[string][]byte
	skipped  []string
	redactor *screen.Redactor   // nil: to be made of known
	made     []*screen.Redactor // all of them: what they met counts together
}

// redactor is made of all that is known now: what is learned later counts from then on.
func (d *driver) redactor() (*screen.Redactor, error) {
	s := &d.redaction
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		v := ownSecrets(d.m)
		s.known, s.skipped = v.Known, v.Skipped
	}
	if s.redactor == nil {
		r, err := screen.NewRedactor(s.known)
		if err != nil {
			return nil, err
		}
		s.redactor, s.made = r, append(s.made, r)
	}
	return s.redactor, nil
}

// learn adds what was issued for a sandbox: the key to its wire, and what its agent holds for a credential.
func (d *driver) learn(f frozen) error {
	if _, err := d.redactor(); err != nil {
		return err
	}
	held, err := d.placeholders()
	if err != nil {
		return err
	}
	s := &d.redaction
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, value := range map[string]string{"wire": f.Secret, "placeholder": f.Placeholder, "authority": f.Authority} {
		if value != "" {
			s.known[name+"."+string(f.Spec.Allocation)] = []byte(value)
		}
	}
	for name, value := range held {
		s.known["placeholder."+name] = []byte(value)
	}
	s.redactor = nil
	return nil
}

// ownSecrets are the person's, as far as they can be masked.
func ownSecrets(m sallyport.Manifest) secret.Values {
	return withoutMarks(withoutPlaces(knownValues(m), m))
}

// knownValues are the person's secrets: the model's credential, what the environment of this process or of the sandbox
// holds under a name that says so, and what is in the files that are copied in.
func knownValues(m sallyport.Manifest) secret.Values {
	v := secret.FromEnv(os.Environ())
	add := func(more secret.Values) {
		maps.Copy(v.Known, more.Known)
		v.Skipped = append(v.Skipped, more.Skipped...)
	}
	if e := m.Agent.Endpoint; e != nil {
		v.Add(e.CredentialEnv, os.Getenv(e.CredentialEnv))
	}
	add(credentialValues(m))
	var env []string
	for name, value := range m.Env {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	add(secret.FromEnv(env))
	if from, err := os.OpenRoot(m.Repository); err == nil {
		defer from.Close()
		for _, path := range m.Copies {
			if b, err := readCopy(from, path); err == nil { // what cannot be read is not given either
				add(secret.FromFile(path, b))
			}
		}
	}
	return v
}

// withoutPlaces leaves out values that stand in the repository's path or in the WorkOrder's name: a record that says
// where something is must stay true.
func withoutPlaces(v secret.Values, m sallyport.Manifest) secret.Values {
	for _, name := range slices.Sorted(maps.Keys(v.Known)) {
		if value := string(v.Known[name]); strings.Contains(m.Repository, value) || strings.Contains(m.Name, value) {
			v.Skipped = append(v.Skipped, name)
			delete(v.Known, name)
		}
	}
	return v
}

// withoutMarks leaves out values that a mark would write: the redactor refuses them, and without one nothing can be
// recorded.
func withoutMarks(v secret.Values) secret.Values {
	for _, name := range slices.Sorted(maps.Keys(v.Known)) {
		for other := range v.Known {
			if strings.Contains(screen.Mark(other), string(v.Known[name])) {
				v.Skipped = append(v.Skipped, name)
				delete(v.Known, name)
				break
			}
		}
	}
	return v
}

// copyOutput writes a command's output, redacted, to the Attempt's folder, from its start, and records what it has
// written once that is all. What was recorded of an earlier copy is void before it is overwritten.
func (d *driver) copyOutput(ctx context.Context, w provider.Wire, name string) error {
	if err := d.voidLog(ctx, name); err != nil {
		return err
	}
	file, err := os.OpenFile(d.logPath(name), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return stateError(d.logPath(name), err)
	}
	defer file.Close()
	r, err := d.redactor()
	if err != nil {
		return err
	}
	log, sum := lifecycle.Log{Name: name}, sha256.New()
	out := r.Live(io.MultiWriter(file, sum), &log.Redactions)
	_, err = w.Output(ctx, 0, out)
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return stateError(file.Name(), err)
	}
	if log.Bytes, err = file.Seek(0, io.SeekCurrent); err != nil {
		return stateError(file.Name(), err)
	}
	log.Digest = sallyport.DigestOf([sha256.Size]byte(sum.Sum(nil)))
	return d.record(ctx, journal.Record{Type: lifecycle.AttemptLog, Data: log})
}

// voidLog takes back what was recorded of a log.
func (d *driver) voidLog(ctx context.Context, name string) error {
	at, err := d.attempt(ctx)
	if err != nil || !slices.ContainsFunc(at.Logs, func(l lifecycle.Log) bool { return l.Name == name }) {
		return err
	}
	return d.record(ctx, journal.Record{Type: lifecycle.AttemptLog, Data: lifecycle.Log{Name: name}})
}

// ended is how a command ended, as wire says, fit to be kept.
func (d *driver) ended(ctx context.Context, w provider.Wire) (provider.Exit, error) {
	exit, err := w.Wait(ctx)
	if err != nil {
		return exit, err
	}
	r, err := d.redactor()
	if err != nil {
		return exit, err
	}
	exit.Message = string(r.Bytes([]byte(exit.Message)))
	return exit, nil
}

// shown is a person's terminal behind the redactor.
func (d *driver) shown(w io.Writer) (io.WriteCloser, error) {
	r, err := d.redactor()
	if err != nil {
		return nil, err
	}
	return r.Terminal(w), nil
}

// record appends what no driver does: a person's words, a publication. Secrets that this process knows are redacted.
func (c *Control) record(ctx context.Context, lease *journal.Lease, m sallyport.Manifest, records ...journal.Record) error {
	r, err := screen.NewRedactor(ownSecrets(m).Known)
	if err != nil {
		return err
	}
	return c.append(ctx, lease, r, records)
}

// append is the way into the journal for all that may hold anybody's words.
func (c *Control) append(ctx context.Context, lease *journal.Lease, r *screen.Redactor, records []journal.Record) error {
	for i := range records {
		b, err := cleaned(r, records[i].Data)
		if err != nil {
			return err
		}
		if b != nil {
			records[i].Data = b
		}
	}
	_, err := c.journal.Append(ctx, lease, records...)
	return err
}

// spoken is a text of a person's, by the name of the field that it came in.
type spoken struct{ field, text string }

// withoutSecrets refuses texts that hold a secret which this process knows: they would go where the secret must not,
// into the sandbox to begin with. CodeInvalid; the error names field and secret, never the value.
func withoutSecrets(op string, m sallyport.Manifest, texts ...spoken) error {
	r, err := screen.NewRedactor(withoutMarks(knownValues(m)).Known)
	if err != nil {
		return err
	}
	for _, t := range texts {
		if names := r.Names([]byte(t.text)); len(names) > 0 {
			return &sallyport.Error{Op: op, Code: sallyport.CodeInvalid, Subject: t.field,
				Message: "it holds the value of " + strings.Join(names, ", ") + ", which is known as a secret here; what is written there goes into the sandbox, the commit and the evidence",
				Hint:    "leave the value out and speak of its name"}
		}
	}
	return nil
}

// clean is v as JSON with known secrets replaced in all of its strings; nil where there are none.
func (d *driver) clean(v any) (json.RawMessage, error) {
	r, err := d.redactor()
	if err != nil {
		return nil, err
	}
	return cleaned(r, v)
}

func cleaned(r *screen.Redactor, v any) (json.RawMessage, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber() // as they were written
	var tree any
	if err := dec.Decode(&tree); err != nil {
		return nil, err
	}
	changed := false
	tree = eachString(tree, func(s string) string {
		out := string(r.Bytes([]byte(s)))
		changed = changed || out != s
		return out
	})
	if !changed {
		return nil, nil
	}
	return json.Marshal(tree)
}

// cleanResult is a check's result for somebody who is told at once.
func (d *driver) cleanResult(r sallyport.CheckResult) (sallyport.CheckResult, error) {
	b, err := d.clean(r)
	if err != nil || b == nil {
		return r, err
	}
	var out sallyport.CheckResult
	err = json.Unmarshal(b, &out)
	return out, err
}

// eachString applies f to every string of a JSON value, keys too.
func eachString(v any, f func(string) string) any {
	switch v := v.(type) {
	case string:
		return f(v)
	case []any:
		for i := range v {
			v[i] = eachString(v[i], f)
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[f(k)] = eachString(e, f)
		}
		return out
	}
	return v
}

// cleanError is err where it holds no known secret, and otherwise what it says without: its causes are lost.
func (d *driver) cleanError(err error) error {
	if err == nil {
		return nil
	}
	r, rerr := d.redactor()
	if rerr != nil {
		return rerr
	}
	said := string(r.Bytes([]byte(err.Error())))
	if said == err.Error() {
		return err
	}
	return &sallyport.Error{Op: "work on the Attempt", Code: sallyport.CodeOf(err), Message: said, Hint: string(r.Bytes([]byte(sallyport.HintOf(err))))}
}

// tellSkipped says which secrets stay readable in logs.
func (d *driver) tellSkipped(ctx context.Context) error {
	if _, err := d.redactor(); err != nil || len(d.redaction.skipped) == 0 {
		return err
	}
	return d.notice(ctx, "%s", screen.Line("not masked in logs, as the value is too short, an ordinary word, or part of the repository's path or of a name: "+strings.Join(d.redaction.skipped, ", ")))
}

// tellRedacted says how often each known secret was met, and nothing where none was.
func (d *driver) tellRedacted(ctx context.Context) error {
	d.redaction.mu.Lock()
	counts := map[string]int{}
	for _, r := range d.redaction.made {
		for name, n := range r.Counts() {
			counts[name] += n
		}
	}
	d.redaction.mu.Unlock()
	var said []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		said = append(said, fmt.Sprintf("%s %d×", name, counts[name]))
	}
	if len(said) == 0 {
		return nil
	}
	return d.notice(ctx, "%s", "known secrets were redacted: "+strings.Join(said, ", "))
}

// knownIn names the known secrets in a text. A changed path was redacted when it was recorded: there the mark
// counts.
func (d *driver) knownIn(changes []sallyport.Change) (func(text []byte) []string, error) {
	r, err := d.redactor()
	if err != nil {
		return nil, err
	}
	d.redaction.mu.Lock()
	defer d.redaction.mu.Unlock()
	marked := map[string][]string{}
	for _, c := range changes {
		for name := range d.redaction.known {
			if strings.Contains(c.Path, screen.Mark(name)) {
				marked[c.Path] = append(marked[c.Path], name)
			}
		}
	}
	return func(text []byte) []string { return append(r.Names(text), marked[string(text)]...) }, nil
}
