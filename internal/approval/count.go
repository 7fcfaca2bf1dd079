package approval

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// maxBlobs bounds the work of one count.
const maxBlobs = 256

// Submitter is who asked for the change, by key, by name in policy, or both. Of nobody who is not known can it be said
// that somebody else approved.
type Submitter struct {
	Key    ssh.PublicKey // nil: not known
	Person string        // as policy has it; empty: not known
}

// Verdict is what one approval came to.
type Verdict struct {
	Counts      bool
	Reason      string // why it does not count; empty where it does
	Person      string // from here on: empty where the signature is not good
	Fingerprint string
	Approver    string
	Given       string
}

// Tally is what a count came to.
type Tally struct {
	Enough   bool
	Counted  int
	Needed   int
	Verdicts []Verdict // one per blob, in their order
}

// Count decides whether n different people, none of them the submitter, have approved exactly what want names: its
// evidence, tree, base commit, manifest and target. Approver and Given of want are not looked at. People are told apart
// by key and by the name that policy gives the key; of several approvals by one person the first counts. An approval
// that is malformed, by nobody allowed or about anything else does not count, and its Verdict says why.
// Errors: CodeInvalid for an incomplete want, n below 1, an unknown submitter, an empty or ambiguous allowed, too many
// blobs. Then nothing was decided, and nothing is approved.
func Count(blobs [][]byte, allowed []AllowedKey, want Approval, by Submitter, n int) (Tally, error) {
	want.Type = Type
	if err := want.checkSubject(); err != nil {
		return Tally{}, err
	}
	if err := checkAllowed(allowed); err != nil {
		return Tally{}, err
	}
	switch {
	case n < 1:
		return Tally{}, invalid("approvals", "expected at least 1 to be needed, found %d", n)
	case by.Key == nil && by.Person == "":
		return Tally{}, invalid("submitter", "expected a key or a name: nobody can be told from an unknown submitter")
	case len(blobs) > maxBlobs:
		return Tally{}, invalid("approvals", "expected at most %d, found %d", maxBlobs, len(blobs))
	}
	c := counter{allowed: allowed, want: want, submitter: submitterNames(allowed, by)}
	t := Tally{Needed: n}
	for _, b := range blobs {
		v := c.judge(b)
		if v.Counts {
			t.Counted++
		}
		t.Verdicts = append(t.Verdicts, v)
	}
	t.Enough = t.Counted >= n
	return t, nil
}

// submitterNames are all names that are the submitter's: the one given, and that of the given key, by which its other
// keys are the submitter's too.
func submitterNames(allowed []AllowedKey, by Submitter) []string {
	var names []string
	if by.Person != "" {
		names = append(names, by.Person)
	}
	if by.Key != nil {
		if k, ok := find(allowed, by.Key.Marshal()); ok {
			names = append(names, k.Person)
		}
	}
	return names
}

type counter struct {
	allowed   []AllowedKey
	want      Approval
	submitter []string
	counted   []AllowedKey
}

func (c *counter) judge(blob []byte) Verdict {
	a, key, err := verify(blob, c.allowed)
	if err != nil {
		return Verdict{Reason: err.Error()}
	}
	v := Verdict{Person: key.Person, Fingerprint: key.Fingerprint(), Approver: a.Approver, Given: a.Given}
	if v.Reason = c.against(a, key); v.Reason == "" {
		v.Counts = true
		c.counted = append(c.counted, key)
	}
	return v
}

// against is why a good approval does not count; "" where it does.
func (c *counter) against(a Approval, key AllowedKey) string {
	if d := differences(a, c.want); d != "" {
		return d
	}
	if slices.ContainsFunc(c.submitter, samePerson(key.Person)) {
		return fmt.Sprintf("%q asked for the change: somebody else must approve it", key.Person)
	}
	if slices.ContainsFunc(c.counted, func(k AllowedKey) bool { return samePerson(key.Person)(k.Person) }) {
		return fmt.Sprintf("%q has approved already", key.Person)
	}
	return ""
}

// samePerson ignores case: logins do.
func samePerson(name string) func(string) bool {
	return func(other string) bool { return strings.EqualFold(name, other) }
}

// differences names each thing that an approval is about and that the caller does not hold.
func differences(a, want Approval) string {
	var out []string
	for _, f := range []struct{ name, have, want string }{
		{"evidence", string(a.Evidence), string(want.Evidence)},
		{"tree", string(a.Tree), string(want.Tree)},
		{"base commit", string(a.BaseCommit), string(want.BaseCommit)},
		{"manifest", string(a.Manifest), string(want.Manifest)},
		{"repository", a.Target.Repository, want.Target.Repository},
		{"base branch", a.Target.BaseBranch, want.Target.BaseBranch},
		{"head branch", a.Target.HeadBranch, want.Target.HeadBranch},
	} {
		if f.have != f.want {
			out = append(out, fmt.Sprintf("%s: expected %.100q, approved is %.100q", f.name, f.want, f.have))
		}
	}
	return strings.Join(out, "; ")
}
