package evidence

import (
	"fmt"
	"slices"
	"strings"

	"sallyport.dev/sallyport"
)

// Setup is one command that made ready what agent and checks could read beside the tree.
type Setup struct {
	Number   int                   `json:"number"` // from 1
	For      string                `json:"for"`    // base | change: from the lock files that the change edited, without scripts
	Command  string                `json:"command"`
	Locks    []string              `json:"locks,omitempty"`
	Status   sallyport.SetupStatus `json:"status"`
	StatusBy string                `json:"status_by,omitempty"`
	Exit     int                   `json:"exit"` // -1: no exit status
	Seconds  float64               `json:"seconds"`
	Egress   *Egress               `json:"egress,omitempty"` // nil: it had no way out, or it is not known
	Left     string                `json:"left,omitempty"`   // names what it wrote
	Reused   sallyport.AttemptID   `json:"reused,omitempty"` // the Attempt that ran it
}

func setupOf(r sallyport.SetupResult) Setup {
	s := Setup{Number: r.Number, For: r.For, Command: r.Run, Locks: r.Locks, Status: r.Status, StatusBy: r.StatusBy, Exit: r.Exit, Seconds: r.Seconds, Left: r.Left, Reused: r.Reused}
	if e := r.Egress; e != nil {
		s.Egress = &Egress{Requests: e.Requests, Refused: e.Refused, BytesUp: e.BytesUp, BytesDown: e.BytesDown}
	}
	return s
}

// checkSetups holds what was recorded of setup to its own form.
func checkSetups(list []Setup) error {
	for i, s := range list {
		where := fmt.Sprintf("setup[%d]", i)
		if s.Number < 1 || s.Command == "" || s.Seconds < 0 || s.For != "base" && s.For != "change" {
			return invalid(where, "expected a number, a command, base or change, and seconds of 0 or more")
		}
		if !slices.Contains([]sallyport.SetupStatus{sallyport.SetupRunning, sallyport.SetupDone, sallyport.SetupFailed}, s.Status) {
			return invalid(where+".status", "expected running, done or failed")
		}
		if e := s.Egress; e != nil && (min(e.Requests, e.Refused, e.BytesUp, e.BytesDown) < 0 || e.Refused > e.Requests) {
			return invalid(where+".egress", "expected numbers of 0 or more, and no more refused requests than requests")
		}
	}
	return nil
}

func setupSentence(s Setup) string {
	text := fmt.Sprintf("Observed by the signer: setup %d (%s), %s", s.Number, s.Command, s.Status)
	if s.For == "change" {
		text += ", from the change's " + strings.Join(s.Locks, ", ") + " without scripts"
	}
	if s.Reused != "" {
		text += fmt.Sprintf(", by attempt %s and kept", s.Reused)
	}
	if e := s.Egress; e != nil {
		text += fmt.Sprintf("; %d request(s), %d refused, %d bytes up, %d down", e.Requests, e.Refused, e.BytesUp, e.BytesDown)
	}
	return text + "."
}
