package publisher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
	"sallyport.dev/sallyport/internal/publication"
)

// How long and how often a forge that has taken something is asked whether it knows of it.
const (
	seenTimeout  = 20 * time.Second
	madeTimeout  = 2 * time.Second
	seenPause    = 200 * time.Millisecond
	settleRounds = 5
)

// pull has exactly one open pull request, of this commit and with its text. A forge's own check for a second one is not
// atomic, and Publishers that do not share a ledger do not wait for each other, so what is open is looked at again at the
// end: whoever opened last sees all, and of two of ours the older stays.
func (w *work) pull(ctx context.Context) error {
	if !w.d.Describe().PullRequests {
		if c := w.d.Describe().Compare; c != nil && c(w.o.head(), w.o.base()) != "" {
			w.note("open a pull request at %s", c(w.o.head(), w.o.base()))
		}
		return nil
	}
	for range settleRounds {
		settled, err := w.settle(ctx)
		if err != nil || settled {
			return err
		}
	}
	return &sallyport.Error{Op: "publish", Code: sallyport.CodeUnavailable, Subject: w.o.head(), Message: "others open and close pull requests for it at the same time", Hint: "publish again"}
}

// settle brings the one pull request up to date. false: it was not the one after all.
func (w *work) settle(ctx context.Context) (bool, error) {
	text := w.text()
	pr, err := w.theOne(ctx, text)
	if err != nil {
		return false, err
	}
	w.out.opened = w.openedHere(pr)
	switch {
	case w.foreign(pr):
		w.note("%s was opened by %s: its text was left as it is", pr.URL, pr.Author)
	case pr.Number != w.made && pr.Text != text:
		if err := w.p.effect("edit", func() error { return w.d.Edit(ctx, w.g, pr.Number, text) }); err != nil {
			return false, err
		}
	}
	row := PullRow{Head: w.o.head(), Base: w.o.base(), Number: pr.Number, URL: pr.URL, Opened: w.out.opened, Author: pr.Author}
	if !w.foreign(pr) {
		row.Labels = w.label(ctx, pr)
	}
	if err := w.record(ctx, Record{Type: PullRequestBound, Pull: &row}); err != nil {
		return false, err
	}
	seen, err := w.seen(ctx, pr.Number)
	if err != nil {
		return false, err
	}
	w.out.pull = &seen
	list, err := w.openOnes(ctx)
	if err != nil {
		return false, err
	}
	if seen.State == forge.Open {
		list = with(list, seen)
	}
	if len(list) == 0 {
		return false, no("pull request", "%s was closed while it was being published", pr.URL)
	}
	one, extra := w.choose(list)
	return one.Number == pr.Number && len(extra) == 0, nil
}

// label puts on the target's labels that are not there and were not there before: what a person has taken off stays off. It
// tells which were ever put on. Labels are an ornament: that they could not be put on is a note, and tried again another time.
func (w *work) label(ctx context.Context, pr forge.PullRequest) (put []string) {
	if i := w.state.pull(pr.Number); i >= 0 {
		put = slices.Clone(w.state.Pulls[i].Labels)
	}
	var missing []string
	for _, l := range w.o.target.Labels {
		switch {
		case slices.Contains(put, l):
		case slices.Contains(pr.Labels, l):
			put = append(put, l)
		default:
			missing = append(missing, l)
		}
	}
	if len(missing) == 0 {
		return put
	}
	var now []string
	err := w.p.effect("label", func() (err error) {
		now, err = w.d.Label(ctx, w.g, pr.Number, missing)
		return err
	})
	if err != nil {
		w.note("the labels could not be put on, which the next publication tries again: %s", publication.Refuse(err).Message)
	}
	return append(put, now...)
}

// with is the list with one that a lagging list leaves out.
func with(list []forge.PullRequest, pr forge.PullRequest) []forge.PullRequest {
	if slices.ContainsFunc(list, func(p forge.PullRequest) bool { return p.Number == pr.Number }) {
		return list
	}
	return append(list, pr)
}

// openedHere says whether this request has opened it, now or before a crash.
func (w *work) openedHere(pr forge.PullRequest) bool {
	if pr.Number == w.made {
		return true
	}
	nonce := w.o.accepted().Nonce
	if i := w.state.pull(pr.Number); i >= 0 {
		return w.state.Pulls[i].Opened && w.state.Pulls[i].nonce == nonce
	}
	return w.state.Opening != nil && w.state.Opening.nonce == nonce && !w.foreign(pr)
}

// seen waits until the forge's own page shows the commit that was pushed: what it merges is what it shows. It may also have
// been closed.
func (w *work) seen(ctx context.Context, number int64) (forge.PullRequest, error) {
	for until := time.Now().Add(seenTimeout); ; {
		pr, err := w.d.Get(ctx, w.g, number)
		if err == nil && (pr.Tip == w.o.commit() || pr.State != forge.Open) {
			return pr, nil
		}
		var later *forge.Later
		if time.Now().After(until) || ctx.Err() != nil || errors.As(err, &later) {
			if err == nil {
				err = &sallyport.Error{Op: "publish", Code: sallyport.CodeUnavailable, Subject: pr.URL, Message: fmt.Sprintf("the forge shows commit %s, expected %s", pr.Tip, w.o.commit()), Hint: "publish again"}
			}
			return pr, err
		}
		pause(ctx)
	}
}

func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(seenPause):
	}
}

// theOne finds the open pull request, or opens it, and closes what is beside it.
func (w *work) theOne(ctx context.Context, text forge.Text) (forge.PullRequest, error) {
	all, err := w.d.Find(ctx, w.g, w.o.head(), w.o.base())
	if err != nil {
		return forge.PullRequest{}, err
	}
	list := openOf(all)
	if len(list) == 0 && w.out.pull != nil {
		return forge.PullRequest{}, no("pull request", "%s was closed while it was being published", w.out.pull.URL)
	}
	if len(list) == 0 {
		// Since the first look, before the push, a person may have closed or merged the one that was there.
		if err := w.state.Stopped(all); err != nil {
			return forge.PullRequest{}, err
		}
		row := PullRow{Head: w.o.head(), Base: w.o.base()}
		if err := w.record(ctx, Record{Type: PullRequestIntended, Pull: &row}); err != nil {
			return forge.PullRequest{}, err
		}
		if list, err = w.create(ctx, text); err != nil {
			return forge.PullRequest{}, err
		}
	}
	one, extra := w.choose(list)
	for _, pr := range extra {
		if err := w.closeExtra(ctx, one, pr); err != nil {
			return forge.PullRequest{}, err
		}
	}
	for _, pr := range list {
		if pr.Number != one.Number && !slices.ContainsFunc(extra, func(x forge.PullRequest) bool { return x.Number == pr.Number }) {
			w.note("%s is open for the same branch too: it is not ours to close", pr.URL)
		}
	}
	return one, nil
}

func (w *work) choose(list []forge.PullRequest) (one forge.PullRequest, extra []forge.PullRequest) {
	return w.state.Choose(list, w.identity(), w.made)
}

// identity is as whom we act, "" where neither the forge nor the ledger tells.
func (w *work) identity() string {
	if w.g.Identity != "" {
		return w.g.Identity
	}
	for _, r := range w.state.Pulls {
		if r.Opened {
			return r.Author
		}
	}
	return ""
}

func (w *work) ours(pr forge.PullRequest) bool { return w.state.Ours(pr, w.identity(), w.made) }

// foreign says that somebody else has opened it, for sure.
func (w *work) foreign(pr forge.PullRequest) bool { return w.identity() != "" && !w.ours(pr) }

func (w *work) openOnes(ctx context.Context) ([]forge.PullRequest, error) {
	list, err := w.d.Find(ctx, w.g, w.o.head(), w.o.base())
	return openOf(list), err
}

func openOf(list []forge.PullRequest) []forge.PullRequest {
	return slices.DeleteFunc(slices.Clone(list), func(pr forge.PullRequest) bool { return pr.State != forge.Open })
}

// create opens one, and lists what is open then: a lost answer and a race are both settled by looking. A list may lag.
func (w *work) create(ctx context.Context, text forge.Text) ([]forge.PullRequest, error) {
	var made forge.PullRequest
	err := w.p.effect("create", func() (err error) {
		made, err = w.d.Create(ctx, w.g, forge.NewPullRequest{Head: w.o.head(), Base: w.o.base(), Text: text, Draft: *w.o.target.Draft && w.d.Describe().Drafts, Labels: w.o.target.Labels})
		return err
	})
	code := sallyport.CodeOf(err)
	if err != nil && code != sallyport.CodeConflict && code != sallyport.CodeUnknown {
		return nil, err
	}
	w.made = made.Number
	for until := time.Now().Add(madeTimeout); ; {
		list, ferr := w.openOnes(ctx)
		if ferr != nil {
			return nil, errors.Join(ferr, err)
		}
		if made.Number != 0 {
			list = with(list, made)
		}
		switch {
		case len(list) > 0:
			return list, nil
		case time.Now().Before(until) && ctx.Err() == nil:
			pause(ctx)
		case code == sallyport.CodeConflict:
			return nil, &sallyport.Error{Op: "publish", Code: sallyport.CodeUnavailable, Subject: w.o.head(), Message: "the forge says that there is a pull request already, and lists none", Hint: "publish again", Err: err}
		default:
			return nil, err // not known, and not to be seen: the next try looks first again
		}
	}
}

func (w *work) closeExtra(ctx context.Context, stays, extra forge.PullRequest) error {
	row := PullRow{Head: extra.Head, Base: extra.Base, Number: extra.Number, URL: extra.URL, Author: extra.Author, Why: "a second one beside " + stays.URL}
	if err := w.record(ctx, Record{Type: PullRequestClosed, Pull: &row}); err != nil {
		return err
	}
	return w.p.effect("close", func() error {
		err := w.d.Close(ctx, w.g, extra.Number, "Opened at the same moment as "+stays.URL+", which stays.")
		if err != nil {
			// Another Publisher may be closing it too, which Gitea answers with 500.
			if pr, gerr := w.d.Get(ctx, w.g, extra.Number); gerr == nil && pr.State != forge.Open {
				return nil
			}
		}
		return err
	})
}
