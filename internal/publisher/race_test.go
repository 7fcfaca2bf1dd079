package publisher

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
)

// Two Publishers with one ledger and two Attempts of one work order: the one that comes second brings the first's pull request
// up to date, or is refused because a later one came before it.
func TestTwoAtOnce(t *testing.T) {
	s := newStage(t, "two-at-once")
	one, two := s.accept("one\n", nil), s.accept("two\n", nil)
	flag := filepath.Join(t.TempDir(), "go")
	a, b := s.start(one, func(c *plan) { c.Start = flag }), s.start(two, func(c *plan) { c.Start = flag })
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, errA := a.wait()
	receipt, errB := b.wait()
	if errB != nil || errA != nil && !strings.Contains(errA.Error(), "fence") {
		t.Fatal(errA, errB)
	}
	s.laws(s.publisher(Options{}), two, receipt)
	if all := s.pullRequests("all"); len(all) != 1 {
		t.Errorf("%d were opened", len(all))
	}
}

// Six creators at once, each with a ledger of its own: of what they open the oldest stays.
func TestSixAtOnce(t *testing.T) {
	s := newStage(t, "six")
	o := s.accept("one\n", nil)
	var ready, all sync.WaitGroup
	ready.Add(6)
	errs := make([]error, 6)
	for i := range 6 {
		mine := *s
		mine.config.State = filepath.Join(t.TempDir(), "state")
		var once sync.Once
		p := mine.publisher(Options{At: func(point string) {
			if point == "before create" {
				once.Do(func() { ready.Done(); ready.Wait() })
			}
		}})
		all.Go(func() { _, errs[i] = mine.publish(p, o) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil && sallyport.CodeOf(err) != sallyport.CodeUnavailable {
			t.Error(err)
		}
	}
	open, every := s.pullRequests("open"), s.pullRequests("all")
	// Gitea may have answered with 500 where two closed the same: whoever was told so tries again, as everybody does.
	if len(open) > 1 {
		s.must(s.publisher(Options{}), s.again(o))
		open = s.pullRequests("open")
	}
	if len(open) != 1 || open[0].Number != every[0].Number || open[0].Head.SHA != o.commit {
		t.Errorf("open %d of %d", len(open), len(every))
	}
	if len(every) < 2 {
		t.Log("the forge let only one be opened")
	}
	if left := s.tokens(); len(left) > 0 {
		t.Errorf("alive: %q", left)
	}
	s.must(s.publisher(Options{}), s.again(o))
}

// shaky is a forge that misbehaves at the requests that it is told.
type shaky struct {
	next http.RoundTripper
	at   atomic.Pointer[func(*http.Request, http.RoundTripper) (*http.Response, error)]
}

func (f *shaky) RoundTrip(r *http.Request) (*http.Response, error) {
	if do := f.at.Load(); do != nil {
		return (*do)(r, f.next)
	}
	return f.next.RoundTrip(r)
}

func (f *shaky) set(do func(*http.Request, http.RoundTripper) (*http.Response, error)) {
	if do == nil {
		f.at.Store(nil)
	} else {
		f.at.Store(&do)
	}
}

func shakyStage(t *testing.T, name string) (*stage, *Publisher, *shaky) {
	t.Helper()
	s, f := newStage(t, name), &shaky{}
	return s, s.publisher(Options{Driver: minting(func(next http.RoundTripper) http.RoundTripper { f.next = next; return f })}), f
}

// lost lets the request do its work, and its answer does not arrive.
func lost(r *http.Request, next http.RoundTripper) (*http.Response, error) {
	resp, err := next.RoundTrip(r)
	if err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		err = io.ErrUnexpectedEOF
	}
	return nil, err
}

func answered(r *http.Request, status int, header ...string) *http.Response {
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader("{}")), Request: r, ProtoMajor: 1, ProtoMinor: 1}
}

func creates(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/pulls")
}

func TestCreateAnswerLost(t *testing.T) {
	s, p, f := shakyStage(t, "create-lost")
	f.set(func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if creates(r) {
			return lost(r, next)
		}
		return next.RoundTrip(r)
	})
	if r := s.must(p, s.accept("one\n", nil)); len(s.pullRequests("all")) != 1 || r.PullRequest.Number != 1 {
		t.Errorf("%+v", r.PullRequest)
	}
}

// Of a request that never arrived nobody can tell at once: it is said, and the next try opens one.
func TestCreateRequestLost(t *testing.T) {
	s, p, f := shakyStage(t, "create-request")
	f.set(func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if creates(r) {
			return answered(r, http.StatusGatewayTimeout), nil
		}
		return next.RoundTrip(r)
	})
	o := s.accept("one\n", nil)
	s.fails(p, o, sallyport.CodeUnknown)
	f.set(nil)
	s.must(p, o)
	if n := len(s.pullRequests("all")); n != 1 {
		t.Errorf("%d", n)
	}
}

// Lists that leave out the newest, after an answer that was lost: for as long as they do, the forge's own word that there is
// one already is all that is known.
func TestListsLag(t *testing.T) {
	s, p, f := shakyStage(t, "lists-lag")
	f.set(func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		switch {
		case creates(r):
			return lost(r, next)
		case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/pulls"):
			resp := answered(r, http.StatusOK, "X-Total-Count", "0")
			resp.Body = io.NopCloser(strings.NewReader("[]"))
			return resp, nil
		}
		return next.RoundTrip(r)
	})
	o := s.accept("one\n", nil)
	for range 2 {
		s.fails(p, o, sallyport.CodeUnknown)
	}
	f.set(nil)
	s.must(p, o)
	if n := len(s.pullRequests("all")); n != 1 {
		t.Errorf("%d", n)
	}
}

// A failure of each request in turn leaves nothing from which the next try cannot go on; a rate limit says until when.
func TestEachRequestFails(t *testing.T) {
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusTooManyRequests} {
		s, p, f := shakyStage(t, map[int]string{503: "each-503", 429: "each-429"}[status])
		o := s.accept("one\n", nil)
		for n := 1; ; n++ {
			count := 0
			f.set(func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
				if count++; count == n {
					return answered(r, status, "Retry-After", "120"), nil
				}
				return next.RoundTrip(r)
			})
			_, err := s.publish(p, o)
			if count < n {
				break // there is no such request any more: it is done
			}
			if err == nil {
				o = s.again(o) // a failed revocation does not take the publication back
				continue
			}
			var later *forge.Later
			if sallyport.CodeOf(err) != sallyport.CodeUnavailable || !errors.As(err, &later) || time.Until(later.Until) > 2*time.Minute {
				t.Errorf("%d at request %d: %v", status, n, err)
			}
			if n > 40 {
				t.Fatal("no end")
			}
		}
		f.set(nil)
		s.must(p, o)
		if n := len(s.pullRequests("all")); n != 1 {
			t.Errorf("%d", n)
		}
	}
}

// A credential that cannot be revoked is recorded, the receipt tells, and Reconcile ends it.
func TestRevokeFails(t *testing.T) {
	s, p, f := shakyStage(t, "revoke-fails")
	f.set(func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if r.Method == http.MethodDelete {
			return answered(r, http.StatusServiceUnavailable), nil
		}
		return next.RoundTrip(r)
	})
	o := s.accept("one\n", nil)
	receipt, err := s.publish(p, o)
	if err != nil || len(s.tokens()) != 1 || s.types(p)[CredentialFailed] != 1 {
		t.Fatal(err, s.tokens(), s.types(p))
	}
	if lines, err := p.Reconcile(t.Context()); err == nil || len(lines) != 1 || !strings.HasPrefix(lines[0], "still there") {
		t.Errorf("%q %v", lines, err)
	}
	f.set(nil)
	if lines, err := p.Reconcile(t.Context()); err != nil || len(lines) != 1 || !strings.HasPrefix(lines[0], "ended") {
		t.Errorf("%q %v", lines, err)
	}
	r := s.laws(p, o, receipt)
	if r.Credential.Revoked != "" || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "does not end by itself") {
		t.Errorf("%+v", r)
	}
}

// The answer to the mint is lost, and the Publisher lives: the token is found by its mark at the next publication.
func TestMintAnswerLost(t *testing.T) {
	s, p, f := shakyStage(t, "mint-lost")
	f.set(func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if sentPoint(r) == "sent mint" {
			return lost(r, next)
		}
		return next.RoundTrip(r)
	})
	o := s.accept("one\n", nil)
	s.fails(p, o, sallyport.CodeUnknown)
	if n := len(s.tokens()); n != 1 {
		t.Fatalf("%d tokens", n)
	}
	f.set(nil)
	s.must(p, o)
}
