package review

import (
	"fmt"
	"strings"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/egress"
	"sallyport.dev/sallyport/internal/screen"
)

// Subject is what a page is about.
type Subject struct {
	Report   sallyport.Report
	Manifest sallyport.Manifest
	// Judges tells tests and other files that a check is judged by: they come first.
	Judges func(path string) bool
}

// Page is the page's content in the order it is read. All text is neutralised. A part that is empty has a
// sentence instead, since "none found" and "not looked for" must not look the same.
type Page struct {
	Title      string // the WorkOrder's name
	Verdict    string // the state in capitals: "ACCEPTED"
	State      sallyport.AttemptState
	Why        string
	Hint       string
	Asked      Asked
	Changed    Changed
	Checks     []Check
	NoChecks   string
	Findings   []Finding
	NoFindings string
	Refusals   []Refusal
	Setup      []Setup
	Layers     []Layer
	NoLayers   string
	Open       []string // what was not checked
	NoOpen     string
	Notices    []string
	Verify     []string // commands
	NoVerify   string
	Facts      []Fact
	Timings    []Fact
}

// Bounds, in columns: what is longer is in show --json and in the Manifest.
const (
	maxBrief   = 100
	maxCommand = 300
)

// Asked is the order.
type Asked struct {
	Task    string // as it was given
	Agent   string // preset or command line
	Base    string // ref and commit
	Policy  string
	Attempt string   // "attempt 2 of at most 3"
	Reach   []string // the egress rules, resolved, then those of setup; empty: nothing but its model
}

// Finding is one statement about the change.
type Finding struct{ Severity, Rule, Path, Message, Todo string }

// Refusal is what the agent wanted to reach and did not. Count also says which program asked first. Line is the entry of egress: that would allow it.
// Under is where that belongs.
type Refusal struct{ Asked, Count, Why, Line, Under string }

// Layer is one line of the containment receipt.
type Layer struct {
	Name, Status, Grade, Weaker, Fix string
	Brief, Proof                     string // what was tried, at a glance and whole
	Tone                             string // "good", "dim" or "wait"
}

// Fact is a name and a value.
type Fact struct{ Name, Value string }

// New builds the page. An Attempt that has not ended has one too: it says what is not known yet.
func New(s Subject) Page {
	r := s.Report
	p := Page{Title: line(r.Name), State: r.State, Verdict: strings.ToUpper(strings.ReplaceAll(line(string(r.State)), "-", " ")), Why: line(r.Reason.Message), Hint: line(r.Reason.Hint),
		Asked: asked(s), Changed: changed(r, s.Judges), Facts: facts(r), Timings: timings(r.Timings), Verify: verify(r), NoVerify: sofar(r, "nothing is signed")}
	p.Checks, p.NoChecks = checks(s)
	for _, f := range r.Findings {
		p.Findings = append(p.Findings, Finding{string(f.Severity), line(f.Rule), name(f.Path), line(f.Message), line(f.Todo)})
	}
	p.NoFindings = sofar(r, "nothing was looked at")
	if _, inspected := r.Timings[string(sallyport.AttemptInspecting)]; inspected {
		p.NoFindings = "none"
	}
	for _, f := range r.Refusals {
		p.Refusals = append(p.Refusals, Refusal{line(screen.Asked(f)), count(int(f.Count), "time") + by(f.Process), line(f.Message), line(f.Line), under(f)})
	}
	for _, s := range r.Setup {
		p.Setup = append(p.Setup, setup(s))
	}
	for _, l := range r.Layers {
		p.Layers = append(p.Layers, layer(l))
	}
	p.NoLayers = sofar(r, "no sandbox was made")
	p.Open, p.NoOpen, p.Notices = lines(r.NotChecked), sofar(r, "nothing is signed")+": nothing counts as checked", lines(r.Notices)
	return p
}

func layer(l sallyport.LayerReport) Layer {
	out := Layer{Name: line(string(l.Layer)), Status: line(string(l.Status)), Grade: line(string(l.Grade)), Weaker: line(l.Weaker), Fix: line(l.Fix), Proof: line(l.Proof), Tone: "wait"}
	switch l.Status {
	case sallyport.LayerHeld:
		out.Tone, out.Fix = "good", ""
	case sallyport.LayerNotRequired:
		out.Tone = "dim"
	}
	if out.Brief = out.Proof; screen.Columns(out.Brief) > maxBrief { // "19 trials: …"
		short, _, _ := strings.Cut(out.Brief, ": ")
		out.Brief = screen.Fit(short, maxBrief)
	}
	return out
}

// sofar says what may still change.
func sofar(r sallyport.Report, what string) string {
	if r.State.Ended() {
		return what
	}
	return what + " yet"
}

// line is for what people and programs of ours wrote; name is for paths, of which nothing may be dropped.
func line(s string) string { return screen.Line(s) }

func name(s string) string {
	return strings.NewReplacer("\n", "<LF>", "\t", "<TAB>").Replace(screen.Source([]byte(s)))
}

func lines(in []string) []string {
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = line(s)
	}
	return out
}

func asked(s Subject) Asked {
	m := s.Manifest
	a := Asked{Task: strings.TrimSpace(screen.Text([]byte(m.Task))), Agent: line(m.Agent.Name), Base: line(m.BaseRef), Policy: line(m.Policy.Kind)}
	if a.Agent == "" || a.Agent == "command" {
		a.Agent = line(command(m.Agent.Command))
	}
	if m.Base != "" {
		a.Base = strings.TrimSpace(strings.TrimPrefix(a.Base, "refs/heads/") + " " + m.Base.Short())
	}
	if m.Policy.Ref != "" {
		a.Policy += " " + strings.TrimPrefix(line(m.Policy.Ref), "refs/heads/")
	}
	a.Agent = screen.Fit(a.Agent, maxCommand)
	for _, r := range m.Egress {
		a.Reach = append(a.Reach, line(egress.Line(r)))
	}
	for i, s := range m.Setup {
		for _, r := range s.Egress {
			a.Reach = append(a.Reach, fmt.Sprintf("%s, only while setup %d runs", line(egress.Line(r)), i+1))
		}
	}
	a.Attempt = fmt.Sprintf("attempt %d", s.Report.Number)
	if m.Attempts > 1 {
		a.Attempt += fmt.Sprintf(" of at most %d", m.Attempts)
	}
	if limit := screen.SpendLimit(m.Spend); limit != "" {
		a.Attempt += ", all of them within " + limit
	}
	return a
}

// command is a command line as a shell would take it.
func command(argv []string) string {
	words := make([]string, len(argv))
	for i, w := range argv {
		words[i] = quote(w)
	}
	return strings.Join(words, " ")
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return screen.Thousands(n) + " " + noun + "s"
}

// verify are the commands by which somebody else can tell.
func verify(r sallyport.Report) []string {
	if r.Evidence == "" {
		return nil
	}
	c := "sallyport verify " + line(quote(r.Evidence)) + " --key key.pem"
	if r.Commit != "" {
		c += " --commit " + line(string(r.Commit))
	}
	return []string{"sallyport keys > key.pem   # once, from whoever runs Sallyport", c}
}

// quote makes a word of a shell command.
func quote(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("/._-+:@%,=", r)
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// by names the program that was seen to ask.
func by(process string) string {
	if process == "" {
		return ""
	}
	return ", by " + line(process)
}
