package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/evidence"
)

// maxKeyBytes is far above any list of public keys.
const maxKeyBytes = 1 << 20

func (a *app) verifyVerb() *cobra.Command {
	var keys []string
	var commit, tree, sum, base, attempt, since, summary, pr string
	c := &cobra.Command{
		Use:   "verify FILE|--pr URL --key PUB",
		Short: "Verify signed evidence, offline, or a pull request",
		Long: `Verify evidence against keys that you give, with --key or in the file named by SALLYPORT_KEY, and say in
sentences what it proves, what is a mere claim and what was not checked. It needs no state, network or
repository. With --commit and the like the evidence must be about exactly that; what does not match is named.
With --pr the head of a pull request and the evidence that is attached to it are fetched with your own git, and the
evidence must be about the very commit that the forge shows.
With --summary the SLSA summary beside the evidence must say PASSED of the very same. Exit codes: 0 verified, 20
not, 2 something is missing.

In embedded mode the submitter holds the key: evidence binds the agent, not the submitter.`,
		Example: "  sallyport keys > key.pem\n  sallyport verify evidence.json --key key.pem --commit $(git rev-parse sallyport/fix-12)",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if (pr == "") == (len(args) == 0) {
				return invalid("verify", "FILE", "expected a file of evidence, or --pr with an address", "sallyport verify --help")
			}
			want := evidence.Expect{Commit: sallyport.ObjectID(commit), Tree: sallyport.ObjectID(tree), TreeSHA256: sallyport.Digest(sum), Base: sallyport.ObjectID(base), Attempt: sallyport.AttemptID(attempt)}
			if pr != "" {
				return a.verifyPull(c.Context(), pr, verifyFiles{since: since, summary: summary}, keys, want)
			}
			return a.verify(verifyFiles{args[0], since, summary}, keys, want)
		},
	}
	s := c.Flags()
	s.StringArrayVar(&keys, "key", nil, "a `FILE` of public keys, as `sallyport keys` prints; repeat for more")
	s.StringVar(&pr, "pr", "", "the `ADDRESS` of a pull or merge request whose evidence is fetched")
	s.StringVar(&commit, "commit", "", "the evidence must be about this commit `ID`")
	s.StringVar(&tree, "tree", "", "the evidence must be about this tree `ID`")
	s.StringVar(&sum, "tree-sha256", "", "the evidence must be about the tree with this `DIGEST` (sha256:…)")
	s.StringVar(&base, "base", "", "the evidence must start from this commit `ID`")
	s.StringVar(&attempt, "attempt", "", "the evidence must be about this attempt `ID`")
	s.StringVar(&since, "since", "", "a `FILE` with earlier evidence or a signed checkpoint of the same journal: what is older is stale")
	s.StringVar(&summary, "summary", "", "the `FILE` of the SLSA summary (VSA) beside the evidence")
	return c
}

// verifyFiles are the documents of one verification; "" was not given.
type verifyFiles struct{ evidence, since, summary string }

func (a *app) verify(files verifyFiles, keys []string, want evidence.Expect) error {
	if err := checkExpect(want); err != nil {
		return err
	}
	trusted, err := a.publicKeys(keys)
	if err != nil {
		return err
	}
	data, err := a.readFile(files.evidence, evidence.MaxEnvelopeBytes)
	if err != nil {
		return err
	}
	if want.Since, err = a.since(files.since, trusted); err != nil {
		return err
	}
	v, err := evidence.Verify(data, trusted, want)
	if err != nil {
		return &exitError{code: ExitRejected, err: err}
	}
	said, err := a.summary(files.summary, trusted, v)
	if err != nil {
		return err
	}
	for _, s := range append(evidence.Summary(v), said...) {
		a.say("%s", s)
	}
	return nil
}

// since is the point of the journal that a file speaks of; zero without one.
func (a *app) since(file string, trusted []evidence.PublicKey) (evidence.Head, error) {
	if file == "" {
		return evidence.Head{}, nil
	}
	data, err := a.readFile(file, evidence.MaxEnvelopeBytes)
	if err != nil {
		return evidence.Head{}, err
	}
	head, err := evidence.HeadOf(data, trusted)
	if err != nil {
		return head, &exitError{code: ExitRejected, err: err}
	}
	return head, nil
}

// summary holds the SLSA summary to the very evidence that was verified.
func (a *app) summary(file string, trusted []evidence.PublicKey, v evidence.Verified) ([]string, error) {
	if file == "" {
		return nil, nil
	}
	data, err := a.readFile(file, evidence.MaxEnvelopeBytes)
	if err != nil {
		return nil, err
	}
	_, compared, err := evidence.VerifyVSA(data, trusted, evidence.SummaryOf(v))
	if err != nil {
		return nil, &exitError{code: ExitRejected, err: err}
	}
	return []string{"Proved: the SLSA summary says PASSED of the same " + strings.Join(compared, ", ") + "."}, nil
}

// checkExpect refuses what could match by being misread: an abbreviation, a ref name.
func checkExpect(want evidence.Expect) error {
	for _, f := range []struct {
		flag string
		id   sallyport.ObjectID
	}{{"--commit", want.Commit}, {"--tree", want.Tree}, {"--base", want.Base}} {
		if f.id != "" && f.id.Check() != nil {
			return invalid("verify", f.flag, "expected a full object id of 40 or 64 lower-case hexadecimal characters", "git rev-parse REVISION gives it")
		}
	}
	if want.TreeSHA256 != "" && want.TreeSHA256.Check() != nil {
		return invalid("verify", "--tree-sha256", "expected sha256: and 64 lower-case hexadecimal characters", "")
	}
	if want.Attempt == "" {
		return nil
	}
	return sallyport.CheckID(sallyport.AttemptPrefix, string(want.Attempt))
}

// publicKeys reads the keys that the person chose to trust; there is no default.
func (a *app) publicKeys(files []string) ([]evidence.PublicKey, error) {
	if len(files) == 0 {
		if file := a.getenv("SALLYPORT_KEY"); file != "" {
			files = []string{file}
		}
	}
	if len(files) == 0 {
		return nil, invalid("verify", "--key", "expected a public key that you trust; one found beside the evidence would prove nothing",
			"where the evidence was made: sallyport keys > key.pem; then: sallyport verify FILE --key key.pem")
	}
	var out []evidence.PublicKey
	for _, f := range files {
		data, err := a.readFile(f, maxKeyBytes)
		if err != nil {
			return nil, err
		}
		if strings.Contains(string(data), "PRIVATE KEY") {
			return nil, invalid("verify", f, "expected public keys, found a private one", "sallyport keys > key.pem")
		}
		keys, err := evidence.ParsePublicKeys(data)
		if err != nil {
			return nil, &sallyport.Error{Op: "verify", Code: sallyport.CodeInvalid, Subject: f, Message: "expected a file of public keys", Hint: "sallyport keys > key.pem", Err: err}
		}
		out = append(out, keys...)
	}
	return out, nil
}
