package pulltext

import (
	"regexp"
	"strings"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/evidence"
)

// MaxBodyBytes bounds a body. GitHub takes 65,536 characters; GitLab and Gitea take more.
const MaxBodyBytes = 60000

// Options are what a pull request tells of. Every text in it is neutralised, whoever wrote it.
type Options struct {
	Predicate evidence.Predicate // of evidence that was verified
	Evidence  sallyport.Digest   // of its envelope
	Task      string             // what was asked, as a person typed it; empty: the work order's name stands for it
	Changes   []sallyport.Change // shown as counts per top folder
	// Separation is what stands between the trusted parts as the Publisher sees it; empty: as the evidence says.
	Separation string
	BaseMoved  string // that the base has moved on, a sentence; empty: it has not
	// Issue is "#12", "owner/name#12" or the address of an issue, typed by a person; empty: none. Anything else is
	// shown as text and links nothing.
	Issue      string
	CloseIssue bool // merging closes Issue
	KeyID      string
	// VerifyCommand is the whole command line that verifies the evidence.
	VerifyCommand string
	Approvals     []string // who approved, one text each
}

// Render is title and body: the same bytes for the same Options. The title is one line of at most 72 columns, the body at
// most MaxBodyBytes of Markdown; what did not fit is counted where it is missing. The last line is a Marker where work
// order, attempt and Evidence are well-formed, as they are in verified evidence.
func Render(o Options) (string, string) {
	p := &page{}
	p.asked(o)
	p.changed(o.Changes)
	p.checks(o.Predicate.Checks)
	p.findings(o.Predicate.Findings)
	p.layers(o.Predicate.Layers)
	p.egress(o.Predicate)
	p.spend(o.Predicate.Spend)
	p.notChecked(o.Predicate)
	p.approvals(o.Approvals)
	p.claims(o.Predicate.Claims)
	p.verify(o)
	p.end()
	m := Marker{WorkOrder: o.Predicate.WorkOrder.ID, Attempt: o.Predicate.Attempt.ID, Evidence: o.Evidence}
	if s := m.String(); s != "" {
		p.b.WriteString("\n" + s + "\n")
	}
	return title(o), p.b.String()
}

func (p *page) asked(o Options) {
	p.section("What was asked", askedBytes)
	e := o.Predicate
	if o.Issue != "" {
		p.para(p.issue(o.Issue, o.CloseIssue))
	}
	if strings.TrimSpace(o.Task) != "" {
		p.para(p.block(o.Task, 60, 5000))
	}
	name := e.WorkOrder.Name
	p.item("Work order " + p.code(name) + ", attempt " + p.number(e.Attempt.Number) + "; base " + p.code(branch(e.Base.Ref)) + " at " + p.code(e.Base.Commit.Short()))
	if o.BaseMoved != "" {
		p.item("**The base has moved on:** " + p.sentence(o.BaseMoved))
	}
	p.item("Decision: **" + p.decision(e.Decision.Decision) + "**: " + p.sentence(e.Decision.Message))
	each(p, e.Attempts, func(a evidence.Earlier) {
		p.item("Earlier attempt " + p.number(a.Number) + ": " + p.code(strings.TrimSuffix(string(a.State)+" "+a.Code, " ")))
	})
}

// branch is a ref as people say it.
func branch(ref string) string {
	if ref == "" {
		return "detached"
	}
	return strings.TrimPrefix(ref, "refs/heads/")
}

// The forms of an issue that link. What could be emphasis or lead elsewhere has no place in them.
var (
	issueNumber  = regexp.MustCompile(`^(?:` + ownerName + `(?:/` + ownerName + `)+)?#[1-9][0-9]{0,9}$`)
	issueAddress = regexp.MustCompile(`^https://[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::[0-9]{1,5})?(?:/` + ownerName + `)+(?:/-)?/(?:issues|work_items)/[1-9][0-9]{0,9}$`)
)

const ownerName = `[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?`

// issue links a work item. Only a person's own word makes it close.
func (p *page) issue(s string, closes bool) string {
	verb := "For "
	if closes {
		verb = "Closes "
	}
	if s = strings.TrimSpace(s); len(s) <= 300 && (issueNumber.MatchString(s) || issueAddress.MatchString(s)) {
		return verb + s
	}
	return "For " + p.code(s)
}

func (p *page) approvals(list []string) {
	if len(list) == 0 {
		return
	}
	p.section("Approved by", approvalsBytes)
	each(p, list, func(a string) { p.item(p.code(a)) })
}

// claims are the agent's own words, which decided nothing.
func (p *page) claims(c evidence.Claims) {
	p.section("Claims of the agent", claimsBytes)
	p.para("Nothing here was believed, and nothing here decided anything.")
	who := c.Agent
	if who == "" {
		who = strings.Join(c.Command, " ")
	}
	p.item("Made by " + p.code(who) + ", which ended with exit status " + p.number(c.Exit))
	each(p, c.Messages, func(m string) { p.para("It says:\n\n" + p.block(m, 20, 1500)) })
}

func (p *page) verify(o Options) {
	p.section("How to verify", verifyBytes)
	e := o.Predicate
	p.para("With the public key as its owner gave it to you, never one that was found beside the evidence:")
	p.para(p.command(o.VerifyCommand))
	p.item("Public key " + p.name(o.KeyID))
	p.item("Evidence " + p.name(string(o.Evidence)))
	commit := "no commit"
	if e.Result.Commit != "" {
		commit = "commit " + p.name(string(e.Result.Commit))
	}
	p.item("Tree " + p.name(string(e.Result.Tree)) + ", " + commit)
	p.item("Manifest " + p.name(string(e.Manifest)))
	separation := o.Separation
	if separation == "" {
		separation = e.Separation
	}
	p.item("Separation between the trusted parts: " + p.name(separation))
	p.item("Independence of the signature: " + p.sentence(e.By.Independence))
	if p.altered {
		p.item("In quoted text ‹ is a less-than sign, and a space after one of `@ # ! - : [` may be ours: nothing quoted mentions, links or closes anything")
	}
}
