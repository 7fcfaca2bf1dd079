// Package corpus is the format of the attacks in testdata/attacks, and their strict reader.
//
// A case is a txtar archive. Its comment is a header of lines "key: value", of which expect, where and source must
// be there; its files are the attacked repository, the agent's script and what must be true afterwards:
//
//	expect: rejected finding               how the main job must end: STATE [CODE] [or STATE [CODE]]
//	where: internal/inspect: TestLinks     what stops it, and the Go test that covers it
//	source: CVE-2024-32002                 where it is known from
//	says: link.git                         words that must be on the result
//	-- agent --                            the script; internal/selftest says what it may call
//	must ln -s .git/hooks/post-checkout new
//	-- base/dir/file --                    a file of the attacked repository; also sallyport.yaml, config.yaml
//	-- change --                           what an accepted change must be, as `git diff --name-status` says it
//
// The other keys are the fields of Case. Anything else is an error that names the line.
//
// It runs nothing: internal/selftest does.
package corpus

import "strings"

// The classes, in reading order.
var classes = []string{"links", "gitdir", "refs", "trees", "attributes", "packs", "files", "processes", "kernel", "egress", "credentials",
	"spend", "reviewer", "checks", "protocol", "publication"}

// Classes are the names of all classes, in reading order.
func Classes() []string { return append([]string{}, classes...) }

// Case is one attack: an agent's script that goes through the main job, or bytes that go to a room.
type Case struct {
	Class, Name string

	Where  string // what stops it, and the Go test that covers it
	Source string // where the attack is known from

	// Of an agent's script.
	Agent  string            // the script, for sh
	Expect []Outcome         // what the main job must come to: any of them
	Needs  []string          // what this host must have; else the case is not applicable
	Proves string            // arguments of the hostile program, which wins with them where nothing stops it; else not applicable
	Flags  []string          // further flags of `run`
	Ends   string            // how the agent is ended (AgentResult.Ended), where its script cannot come to its end
	Says   []string          // words that must be on the result
	Log    []string          // words that must be in what agent or checks said
	Silent []string          // words that must be in neither
	Heard  []string          // what the servers outside must have heard, or the rest says nothing
	AtMost []Bound           // what they may have heard so many times
	Base   map[string]string // files of the attacked repository beyond the usual ones
	Policy string            // sallyport.yaml; empty: the usual one
	Config string            // the operator's config.yaml; empty: the usual one where the script names $TLS, else none
	Change *string           // what a published branch changes, as `git diff --name-status` says it

	// Of bytes for a room.
	Room  string
	Input []byte
	Want  *string // what the room must make of them; nil: it must refuse them
}

// ID is CLASS/NAME.
func (c Case) ID() string { return c.Class + "/" + c.Name }

// Bound is how many times something may be heard.
type Bound struct {
	Times int
	What  string
}

// Outcome is one way in which the main job may end.
type Outcome struct {
	State string // an Attempt's state, or "refused": there never was an Attempt
	Code  string // the reason's code; empty: any
}

func (o Outcome) String() string { return strings.TrimSpace(o.State + " " + o.Code) }
