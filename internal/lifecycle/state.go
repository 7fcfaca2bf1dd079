package lifecycle

import (
	"maps"
	"slices"

	"sallyport.dev/sallyport"
)

// State is what the events of one Attempt mean together. The zero value is "no such Attempt"; Apply is the
// only thing that changes it. Its JSON leaves the Allocations out: a store keeps them beside it, and need
// only load those that an event names.
type State struct {
	Report    sallyport.Report   `json:"report"`
	Submitter string             `json:"submitter"`
	StartTree sallyport.ObjectID `json:"start_tree"`
	Feedback  string             `json:"feedback,omitempty"`

	CancelRequested bool   `json:"cancel_requested,omitempty"`
	CancelBy        string `json:"cancel_by,omitempty"`

	// Logs are in the order in which their names came up.
	Logs []Log `json:"logs,omitempty"`
	// Egress sums up what went through ways out that were shut again; nil: none was opened, as far as is recorded.
	Egress     *Egress `json:"egress,omitempty"`
	EgressOpen int     `json:"egress_open,omitempty"` // ways out that are open, or of which nobody said what went through

	// Spend is what model APIs cost; nil: nothing was metered.
	Spend *Spend `json:"spend,omitempty"`

	Imported    *Imported    `json:"imported,omitempty"`
	Publication *Publication `json:"publication,omitempty"` // the last intent
	Publishing  bool         `json:"publishing,omitempty"`  // that intent is neither done nor refused: the ref may have moved
	Published   bool         `json:"published,omitempty"`

	Allocations map[sallyport.AllocationID]Allocation `json:"-"`
}

// Clone is a copy that shares nothing that Apply changes.
func (s State) Clone() State {
	s.Allocations = maps.Clone(s.Allocations)
	s.Report.Timings = maps.Clone(s.Report.Timings)
	return s
}

// Exists reports whether the Attempt has been created.
func (s *State) Exists() bool { return s.Report.State != "" }

// Settled reports whether nobody has anything left to do: ended, and no publication under way.
func (s *State) Settled() bool { return s.Report.State.Ended() && !s.Publishing }

// begin fills the State of a new Attempt. The Report's lists are empty rather than nil, so that JSON says
// [] and not null.
func (s *State) begin(e Event, c Created) {
	*s = State{
		Report: sallyport.Report{
			Attempt: e.Attempt, WorkOrder: c.WorkOrder, Name: c.Name, Number: c.Number, Previous: c.Previous,
			Manifest: c.Manifest, State: sallyport.AttemptQueued, Base: c.Base, Repository: c.Repository,
			Created: e.At, Separation: c.Separation, Notices: slices.Clone(c.Notices),
			Agent:   sallyport.AgentResult{Exit: -1},
			Changes: []sallyport.Change{}, Layers: []sallyport.LayerReport{}, Findings: []sallyport.Finding{},
			Checks: []sallyport.CheckResult{}, Timings: map[string]float64{},
		},
		Submitter: c.Submitter, StartTree: c.StartTree, Feedback: c.Feedback,
		Allocations: map[sallyport.AllocationID]Allocation{},
	}
}

// forgetResult drops all that was said about an earlier tree. A result that replaces another must not
// inherit its findings, its checks or its evidence.
func (s *State) forgetResult() {
	s.Imported = nil
	s.Report.Tree, s.Report.Commit = "", ""
	s.Report.Changes = []sallyport.Change{}
	s.Report.Findings = []sallyport.Finding{}
	s.Report.Checks = []sallyport.CheckResult{}
	s.voidEvidence()
}

// voidEvidence: the facts changed after they had been signed. Nothing can be accepted or approved until
// they are signed again.
func (s *State) voidEvidence() {
	if slices.Contains([]attemptState{sallyport.AttemptAccepted, sallyport.AttemptRejected}, s.Report.State) {
		return // decided on what was known then: the evidence of that decision stays
	}
	s.Report.Evidence, s.Report.EvidenceDigest, s.Report.NotChecked = "", "", nil
}
