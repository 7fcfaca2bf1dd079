package review

import (
	"fmt"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/screen"
)

func facts(r sallyport.Report) []Fact {
	var out []Fact
	for _, f := range []Fact{
		{"attempt", string(r.Attempt)}, {"previous", string(r.Previous)}, {"work order", string(r.WorkOrder)}, {"manifest", string(r.Manifest)},
		{"repository", r.Repository}, {"base", string(r.Base)}, {"tree", string(r.Tree)}, {"commit", string(r.Commit)}, {"branch", r.Branch}, {"pull request", r.PullRequest},
		{"bundle", string(r.Bundle)}, {"evidence", r.Evidence}, {"created", r.Created}, {"ended", r.Ended}, {"agent", agent(r.Agent)}, {"spent", spent(r.Spend)}, {"separation", r.Separation},
	} {
		if f.Value != "" {
			out = append(out, Fact{f.Name, line(f.Value)})
		}
	}
	return out
}

// agent is empty for one that has not ended.
func agent(g sallyport.AgentResult) string {
	if g.Ended == "" {
		return ""
	}
	s := fmt.Sprintf("ended by %s, exit %d, %s bytes of output", g.Ended, g.Exit, screen.Thousands(int(g.Output)))
	if g.Dropped > 0 {
		s += fmt.Sprintf(" and %s dropped", screen.Thousands(int(g.Dropped)))
	}
	return s
}

// spent is empty where nothing was metered.
func spent(s *sallyport.Spend) string {
	if s == nil {
		return ""
	}
	text := fmt.Sprintf("%s (%s in, %s out) in %s", screen.Spent(s), screen.Thousands(int(s.InputTokens)), screen.Thousands(int(s.OutputTokens)), count(int(s.Requests), "request"))
	if s.Unsettled > 0 {
		text += fmt.Sprintf("; %d of them not settled, counted at their most", s.Unsettled)
	}
	return text
}

// timings are in the order of an Attempt's life.
func timings(seconds map[string]float64) []Fact {
	var out []Fact
	for _, s := range []sallyport.AttemptState{sallyport.AttemptQueued, sallyport.AttemptPreparing, sallyport.AttemptRunning, sallyport.AttemptCollecting, sallyport.AttemptInspecting, sallyport.AttemptValidating, sallyport.AttemptDeciding} {
		if v, ok := seconds[string(s)]; ok {
			out = append(out, Fact{string(s), fmt.Sprintf("%.3f s", v)})
		}
	}
	return out
}
