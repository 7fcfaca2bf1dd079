package publisher

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"sallyport.dev/sallyport/internal/evidence"
)

var update = flag.Bool("update", false, "rewrite golden files")

// The points at which a request has left and no answer came are beside those that Options.At has.
var sent = []string{"sent mint", "sent create", "sent revoke"}

// TestKilled kills a Publisher at every point of a publication, once each: before and after each durable write and each
// effect, and with each changing request under way. The next one, with the same request, must end in the same place.
func TestKilled(t *testing.T) {
	rows := []string{"| Killed | Left behind | After the next |", "| --- | --- | --- |"}
	add := func(kind string, points []string, prepare func(*stage) (order1, *Publisher)) {
		for i, point := range points {
			t.Run(kind+"/"+point, func(t *testing.T) {
				s := newStage(t, fmt.Sprintf("killed-%s-%d", kind, i))
				rows = append(rows, s.kill(kind, point, prepare))
			})
		}
	}
	first := pointsOf(t, "first", firstTime)
	second := pointsOf(t, "second", secondTime)
	extra := pointsOf(t, "extra", withExtra)
	labels := only(pointsOf(t, "labels", withLabels), "label")
	golden(t, "testdata/points.golden", "first publication:\n  "+strings.Join(first, "\n  ")+"\nsecond Attempt:\n  "+strings.Join(second, "\n  ")+"\nwith a second pull request of ours:\n  "+strings.Join(extra, "\n  ")+
		"\nof these, with a label that is missing:\n  "+strings.Join(labels, "\n  ")+"\n")
	add("first", append(first, sent...), firstTime)
	add("second", only(second, "branch", "push", "edit"), secondTime)
	add("extra", only(extra, "close"), withExtra)
	add("labels", labels, withLabels)
	if !t.Failed() {
		golden(t, "testdata/killed.golden", strings.Join(rows, "\n")+"\n")
	}
}

func golden(t *testing.T, path, have string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(have), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(path); err != nil || string(want) != have {
		t.Errorf("%s differs (-update writes it anew, after thought): %v\n%s", path, err, have)
	}
}

// only are the points that have a word in them.
func only(points []string, words ...string) []string {
	return slices.DeleteFunc(slices.Clone(points), func(p string) bool {
		return !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(p, w) })
	})
}

func firstTime(s *stage) (order1, *Publisher) { return s.accept("one\n", nil), s.publisher(Options{}) }

func secondTime(s *stage) (order1, *Publisher) {
	o, p := firstTime(s)
	s.must(p, o)
	return s.accept("two\n", nil), p
}

// withExtra is a second Attempt, where the forge has let two pull requests of ours be opened.
func withExtra(s *stage) (order1, *Publisher) {
	o, p := secondTime(s)
	s.openExtra()
	return o, p
}

// withLabels is a second Attempt, where the pull request of the first lacks a label: so it is, too, where the forge takes labels
// in a request of their own and one was killed before it.
func withLabels(s *stage) (order1, *Publisher) {
	o, p := secondTime(s)
	s.forge.Label(s.t, s.repo, 0, "agent", false)
	s.config.Targets[0].Labels = []string{"agent"}
	return o, p
}

// pointsOf records the points of a publication that nothing disturbs.
func pointsOf(t *testing.T, kind string, prepare func(*stage) (order1, *Publisher)) (points []string) {
	t.Helper()
	s := newStage(t, "points-"+kind)
	o, _ := prepare(s)
	count := map[string]int{}
	p := s.publisher(Options{At: func(point string) { points = append(points, numbered(count, point)) }})
	s.must(p, o)
	return points
}

// kill is one row of the matrix.
func (s *stage) kill(kind, point string, prepare func(*stage) (order1, *Publisher)) string {
	t := s.t
	t.Helper()
	o, p := prepare(s)
	s.start(o, func(c *plan) { c.Kill = point }).killed(t)
	left := s.left(p, o)
	if kind == "first" && left.tokens > 1 {
		t.Errorf("%d tokens at once", left.tokens)
	}
	for _, name := range s.tokens() {
		if _, known := s.state(p, o).Credentials[name]; !known {
			t.Errorf("token %s is alive and in no row of the ledger", name)
		}
	}
	r := s.must(p, o)
	if on := s.forge.Labels(t, s.repo, r.PullRequest.Number); !slices.Equal(on, s.config.Targets[0].Labels) {
		t.Errorf("labels %q", on)
	}
	if st := s.state(p, o); len(r.Notes) > 0 || !slices.Contains(st.Attached, s.at(evidence.AttachedRef(o.commit))) {
		t.Errorf("of the evidence at the forge the ledger knows nothing, or: %q", r.Notes)
	}
	if kind == "second" && string(r.Replaced) == "" {
		t.Error("the receipt says that the branch was made")
	}
	what := left.String()
	if strings.HasPrefix(point, "sent ") {
		what = "what the forge made of it, at a moment of its own"
	}
	return fmt.Sprintf("| %s: %s | %s | one open pull request, no token |", kind, point, what)
}

// left is what a Publisher that was killed left at the forge.
type left struct {
	received     bool
	tokens, open int
	pushed       bool
	attached     bool
	labelled     bool
	sealed       bool
}

func (s *stage) left(p *Publisher, o order1) (l left) {
	st := s.state(p, o)
	_, l.received = st.Requests[o.c.Nonce]
	l.tokens, l.open, l.pushed = len(s.tokens()), len(s.pullRequests("open")), s.tip("sallyport/fix") == o.commit
	l.attached = s.at(evidence.AttachedRef(o.commit)) != ""
	for _, pr := range st.Pulls {
		l.labelled = l.labelled || len(s.forge.Labels(s.t, s.repo, pr.Number)) > 0
	}
	for _, row := range st.Credentials {
		l.sealed = l.sealed || row.Sealed != nil
	}
	return l
}

func (l left) String() string {
	var words []string
	switch {
	case l.tokens > 0 && l.sealed:
		words = append(words, "a token, sealed in the ledger")
	case l.tokens > 0:
		words = append(words, "a token, of which only the mark is known")
	}
	if l.pushed {
		words = append(words, "the branch")
	}
	if l.attached {
		words = append(words, "the evidence")
	}
	if l.open > 0 {
		words = append(words, []string{"", "the pull request", "two pull requests"}[l.open])
	}
	if l.labelled {
		words = append(words, "the label")
	}
	if len(words) == 0 {
		return "nothing"
	}
	return strings.Join(words, ", ")
}
