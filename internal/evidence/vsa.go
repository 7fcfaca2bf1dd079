package evidence

import (
	"context"
	"net/url"
	"slices"
	"time"

	"sallyport.dev/sallyport"
)

// VSAType is the predicate of SLSA's Verification Summary Attestation.
const VSAType = "https://slsa.dev/verification_summary/v1"

// SLSAVersion is the version of the SLSA specification that a VSA follows.
const SLSAVersion = "1.1"

// VerifierEmbedded identifies an embedded Mission Control, whose key the submitter of the WorkOrder holds.
const VerifierEmbedded = "https://sallyport.dev/verifier/embedded/v1"

// manifestURI says what a VSA's policy is: the frozen Manifest, which holds everything that decided.
const manifestURI = "https://sallyport.dev/manifest/v1"

// The words of a verdict. Nothing is claimed of a SLSA level: Sallyport checks a change, not its build.
const (
	VSAPassed        = "PASSED"
	VSAFailed        = "FAILED"
	levelUnevaluated = "SLSA_BUILD_LEVEL_UNEVALUATED"
)

// VSA is an in-toto Statement v1 with SLSA's predicate: the decision alone, for those who have a verifier of
// such summaries and none of ours. It stands beside the evidence, which it names by digest.
type VSA struct {
	Type          string    `json:"_type" const:"https://in-toto.io/Statement/v1"`
	Subject       []Subject `json:"subject"`
	PredicateType string    `json:"predicateType" const:"https://slsa.dev/verification_summary/v1"`
	Predicate     Verdict   `json:"predicate"`
}

// Verdict is the predicate, in SLSA's own names.
type Verdict struct {
	Verifier           Verifier     `json:"verifier"`
	TimeVerified       string       `json:"timeVerified"` // RFC 3339, UTC
	ResourceURI        string       `json:"resourceUri"`
	Policy             Descriptor   `json:"policy"`
	InputAttestations  []Descriptor `json:"inputAttestations"`
	VerificationResult string       `json:"verificationResult"` // PASSED | FAILED
	VerifiedLevels     []string     `json:"verifiedLevels"`
	SLSAVersion        string       `json:"slsaVersion"`
}

// Verifier is who verified.
type Verifier struct {
	ID      string            `json:"id"` // a URI
	Version map[string]string `json:"version"`
}

// Descriptor is in-toto's ResourceDescriptor.
type Descriptor struct {
	URI    string    `json:"uri,omitempty"`
	Digest DigestSet `json:"digest"`
}

// ResourceURI is the resource of a WorkOrder's summaries. Both sides derive it from the WorkOrder's id: the
// repository is a folder of somebody's machine, whose path is nobody else's business.
func ResourceURI(id sallyport.WorkOrderID) string {
	return "https://sallyport.dev/work-order/" + url.PathEscape(string(id))
}

// Summarise is the VSA for verified evidence. It passes for an accepted change only: a change that awaits a
// person's approval has not passed. After a person's word the caller gives the later decision and its time.
// Errors: CodeInvalid for anything but rejected where the evidence says rejected, which nobody can overrule.
func Summarise(v Verified, decision sallyport.Decision, at time.Time) (VSA, error) {
	p := v.Statement.Predicate
	known := []sallyport.Decision{sallyport.DecisionRejected, sallyport.DecisionAccepted, sallyport.DecisionAwaitingApproval}
	if p.Decision.Decision == sallyport.DecisionRejected {
		known = known[:1]
	}
	if !slices.Contains(known, decision) {
		return VSA{}, invalid("decision", "expected one of %q after the evidence's %q, found %.40q", known, p.Decision.Decision, decision)
	}
	result, level := VSAFailed, VSAFailed
	if decision == sallyport.DecisionAccepted {
		result, level = VSAPassed, levelUnevaluated
	}
	s := VSA{Type: StatementType, Subject: artefacts(p), PredicateType: VSAType, Predicate: Verdict{
		Verifier:     Verifier{ID: VerifierEmbedded, Version: map[string]string{"sallyport": p.By.Version}},
		TimeVerified: Time(at), ResourceURI: ResourceURI(p.WorkOrder.ID),
		Policy:             Descriptor{URI: manifestURI, Digest: DigestSet{SHA256: p.Manifest.Hex()}},
		InputAttestations:  []Descriptor{{Digest: DigestSet{SHA256: v.Envelope.Hex()}}},
		VerificationResult: result, VerifiedLevels: []string{level}, SLSAVersion: SLSAVersion}}
	return s, s.Check()
}

func (s VSA) encode() ([]byte, error) { return encodeJSON(s) }

// Check reports CodeInvalid unless s is complete and does not contradict itself.
func (s VSA) Check() error {
	if err := checkTypes(s.Type, s.PredicateType, VSAType); err != nil {
		return err
	}
	p := s.Predicate
	if _, err := parseTime(p.TimeVerified); err != nil {
		return invalid("timeVerified", "expected a time in RFC 3339 and UTC, found %.40q", p.TimeVerified)
	}
	for name, uri := range map[string]string{"verifier.id": p.Verifier.ID, "resourceUri": p.ResourceURI, "policy.uri": p.Policy.URI} {
		if u, err := url.Parse(uri); err != nil || u.Scheme == "" {
			return invalid(name, "expected a URI, found %.120q", uri)
		}
	}
	for _, d := range append([]Descriptor{p.Policy}, p.InputAttestations...) {
		if err := sallyport.Digest("sha256:" + d.Digest.SHA256).Check(); err != nil {
			return field("digest", err)
		}
	}
	if len(p.InputAttestations) != 1 {
		return invalid("inputAttestations", "expected the evidence and nothing else")
	}
	want := map[string][]string{VSAPassed: {levelUnevaluated}, VSAFailed: {VSAFailed}}[p.VerificationResult]
	if want == nil || !slices.Equal(p.VerifiedLevels, want) {
		return invalid("verificationResult", "expected PASSED with %s or FAILED with FAILED, found %.20q", levelUnevaluated, p.VerificationResult)
	}
	return checkArtefacts(s.Subject, p.VerificationResult)
}

// checkArtefacts demands the tree by both of its digests and, of what passed, the commit.
func checkArtefacts(list []Subject, result string) error {
	names := []string{"tree", "commit"}
	if len(list) > len(names) || len(list) == 0 || len(list) == 1 && result == VSAPassed {
		return invalid("subject", "expected the tree, and the commit of what passed; found %d subjects", len(list))
	}
	for i, s := range list {
		d, bad := s.Digest, s.Name != names[i]
		switch s.Name {
		case "tree":
			bad = bad || sallyport.ObjectID(d.GitTree).Check() != nil || sallyport.Digest("sha256:"+d.SHA256).Check() != nil || d.GitCommit != ""
		case "commit":
			bad = bad || sallyport.ObjectID(d.GitCommit).Check() != nil || d.GitTree+d.SHA256 != ""
		}
		if bad {
			return invalid("subject", "expected subject %d to be the %s with all of its digests", i+1, names[i])
		}
	}
	return nil
}

// SealVSA signs s. The envelope is one line of JSON, and its digest is over its bytes.
func SealVSA(ctx context.Context, signer Signer, s VSA) ([]byte, sallyport.Digest, error) {
	return sealExactly(ctx, signer, s, VSAType)
}

// ExpectVSA is what the verifier of a summary holds itself; a zero field is not compared. All that is given
// must match: in-toto would be content with any one digest of a subject.
type ExpectVSA struct {
	Tree       sallyport.ObjectID
	TreeSHA256 sallyport.Digest
	Commit     sallyport.ObjectID
	Manifest   sallyport.Digest
	Evidence   sallyport.Digest // of the evidence's envelope
	WorkOrder  sallyport.WorkOrderID
}

// SummaryOf is what a summary of verified evidence must be about.
func SummaryOf(v Verified) ExpectVSA {
	p := v.Statement.Predicate
	return ExpectVSA{Tree: p.Result.Tree, TreeSHA256: p.Result.TreeSHA256, Commit: p.Result.Commit, Manifest: p.Manifest, Evidence: v.Envelope, WorkOrder: p.WorkOrder.ID}
}

// VerifyVSA is Verify for a summary: PASSED by one of keys, about what want names, or an error. A summary of
// something that did not pass is CodeDenied.
func VerifyVSA(envelope []byte, keys []PublicKey, want ExpectVSA) (VSA, []string, error) {
	s, compared, err := ReadVSA(envelope, keys, want)
	if err == nil && s.Predicate.VerificationResult != VSAPassed {
		return VSA{}, nil, denied("verificationResult", "expected %s, found %s", VSAPassed, s.Predicate.VerificationResult)
	}
	return s, compared, err
}

// ReadVSA is VerifyVSA whatever the result: for those who hold the decision themselves, and compare.
func ReadVSA(envelope []byte, keys []PublicKey, want ExpectVSA) (VSA, []string, error) {
	s, signers, err := openExactly[VSA](envelope, keys, VSAType)
	if err != nil {
		return VSA{}, nil, err
	}
	for _, key := range signers {
		if _, err := validAt(key, s.Predicate.TimeVerified); err != nil {
			return VSA{}, nil, err
		}
	}
	if s.Predicate.Verifier.ID != VerifierEmbedded {
		return VSA{}, nil, denied("verifier.id", "expected %q, found %.120q", VerifierEmbedded, s.Predicate.Verifier.ID)
	}
	compared, err := compare(expectedVSA(s, want))
	if err != nil {
		return VSA{}, nil, err
	}
	return s, compared, nil
}

func expectedVSA(s VSA, want ExpectVSA) []pair {
	tree, commit := s.Subject[0].Digest, DigestSet{}
	if len(s.Subject) > 1 {
		commit = s.Subject[1].Digest
	}
	resource := ""
	if want.WorkOrder != "" {
		resource = ResourceURI(want.WorkOrder)
	}
	return []pair{
		{"tree", string(want.Tree), tree.GitTree},
		{"tree sha256", string(want.TreeSHA256), "sha256:" + tree.SHA256},
		{"commit", string(want.Commit), commit.GitCommit},
		{"manifest", string(want.Manifest), "sha256:" + s.Predicate.Policy.Digest.SHA256},
		{"evidence", string(want.Evidence), "sha256:" + s.Predicate.InputAttestations[0].Digest.SHA256},
		{"work order", resource, s.Predicate.ResourceURI},
	}
}
