package sim

import (
	"slices"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
)

// remote is a forge: one repository with our branch, pull requests and tokens. It refuses a second open pull request of the
// same branch, as forges do; its lists lag.
type remote struct {
	w        *world
	tip      sallyport.ObjectID
	owner    map[sallyport.ObjectID]string // of commits: who made them, where not we did
	pulls    []*pull
	tokens   map[string]*token // by mark
	attached bool
	finds    bool   // a token by its mark
	identity string // whose token ours is; "": it does not tell
}

type pull struct {
	forge.PullRequest
	ours     bool
	byPerson bool          // a person closed it
	shown    time.Duration // from when on lists have it
}

type token struct{ alive, sealed bool }

// move is one change of a branch by us.
type move struct {
	from, to sallyport.ObjectID
	foreign  bool // what was replaced is not ours
}

func (f *remote) strangers() {
	f.pulls = append(f.pulls, &pull{PullRequest: forge.PullRequest{Number: 1, State: forge.Open, Head: "feature", Base: "main", Author: "ben"}})
}

func (f *remote) mine(c sallyport.ObjectID) bool { return f.owner[c] == "" }

// mint makes a token under a mark that was chosen before.
func (f *remote) mint(mark string) error {
	return f.w.call(f.w.fault(16), func() error {
		if f.tokens[mark] == nil {
			f.tokens[mark] = &token{alive: true}
		}
		return nil
	})
}

func (f *remote) revoke(mark string) error {
	return f.w.call(f.w.fault(16), func() error {
		if t := f.tokens[mark]; t != nil {
			t.alive = false
		}
		return nil
	})
}

// with does what a token is good for.
func (f *remote) with(mark string, n int, deed func() error) error {
	return f.w.call(f.w.fault(n), func() error {
		if t := f.tokens[mark]; t == nil || !t.alive {
			return errDenied
		}
		return deed()
	})
}

// find lists the pull requests of our branch, in any state.
func (f *remote) find(mark string) (list []forge.PullRequest, err error) {
	err = f.with(mark, 24, func() error {
		for _, p := range f.pulls {
			if p.Head == "sallyport/fix" && (p.shown <= f.w.now || f.w.c.calmed) {
				list = append(list, p.PullRequest)
			}
		}
		return nil
	})
	return list, err
}

func (f *remote) get(mark string, number int64) (pr forge.PullRequest, err error) {
	err = f.with(mark, 24, func() error {
		pr = f.pulls[number-1].PullRequest
		return nil
	})
	return pr, err
}

// create refuses a second one.
func (f *remote) create(mark string) (made forge.PullRequest, err error) {
	err = f.with(mark, 12, func() error {
		if f.w.opt.Broken != TwoPulls && slices.ContainsFunc(f.pulls, func(p *pull) bool { return p.Head == "sallyport/fix" && p.State == forge.Open }) {
			return errConflict
		}
		if f.tip == "" {
			return errDenied
		}
		p := &pull{ours: true, shown: f.w.now + [...]time.Duration{0, 0, time.Second, 10 * time.Second}[f.w.c.pick(4)]}
		p.PullRequest = forge.PullRequest{Number: int64(len(f.pulls) + 1), State: forge.Open, Head: "sallyport/fix", Base: "main", Author: "bot"}
		f.pulls = append(f.pulls, p)
		made = p.PullRequest
		return nil
	})
	return made, err
}

// push moves the branch if it is at expect.
func (f *remote) push(mark string, expect, commit sallyport.ObjectID) error {
	return f.with(mark, 12, func() error {
		if f.tip != expect && f.w.opt.Broken != Overwrite {
			return errConflict
		}
		f.w.h.pushed = &move{from: f.tip, to: commit, foreign: f.tip != "" && !f.mine(f.tip)}
		f.tip = commit
		return nil
	})
}

func (f *remote) close(mark string, number int64) error {
	return f.with(mark, 12, func() error {
		p := f.pulls[number-1]
		p.State = forge.Closed
		f.w.h.closed = p
		return nil
	})
}

func (f *remote) closeByPerson() {
	for _, p := range f.pulls {
		if p.ours && p.State == forge.Open {
			p.State, p.byPerson = forge.Closed, true
		}
	}
}

// openByPerson is possible where there is a branch and none is open.
func (f *remote) openByPerson() {
	if f.tip == "" || slices.ContainsFunc(f.pulls, func(p *pull) bool { return p.Head == "sallyport/fix" && p.State == forge.Open }) {
		return
	}
	f.pulls = append(f.pulls, &pull{PullRequest: forge.PullRequest{Number: int64(len(f.pulls) + 1), State: forge.Open, Head: "sallyport/fix", Base: "main", Author: "ben"}})
}
