package github

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

const (
	// requestTimeout is for one request with its whole answer. The slowest, opening a pull request, takes some seconds
	// on a large repository.
	requestTimeout = 45 * time.Second
	// maxAnswer is some hundred pull requests with bodies of the largest size that GitHub takes.
	maxAnswer = 16 << 20
)

// guarded is a client as the library must use it: the library reads without bound, and follows redirects.
func guarded(c *http.Client) *http.Client {
	next := c.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	return &http.Client{
		Transport:     bounded{next},
		Timeout:       requestTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

var errTooLarge = errors.New("the answer is too large")

// bounded lets no more than maxAnswer bytes of an answer through.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := b.next.RoundTrip(req)
	if err == nil {
		res.Body = &limited{res.Body, maxAnswer}
	}
	return res, err
}

type limited struct {
	io.ReadCloser
	left int64
}

func (l *limited) Read(p []byte) (int, error) {
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.ReadCloser.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return n, errTooLarge
	}
	return n, err
}

// sent tells whether a request may have reached the forge.
type sent struct{ left atomic.Bool }

// may is true once there was a connection: from then on the forge may have acted.
func (s *sent) may() bool { return s.left.Load() }

// watch gives a context whose requests are watched.
func watch(ctx context.Context) (context.Context, *sent) {
	s := &sent{}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { s.left.Store(true) }}), s
}

// again calls f until it says that it is done, at most times; before each repeat it waits, twice as long each time.
// It ends early, with what f gave last, when the wait would outlast ctx.
func again(ctx context.Context, times int, wait time.Duration, f func() (more bool, err error)) error {
	for n := 1; ; n++ {
		more, err := f()
		if !more || n >= times {
			return err
		}
		if end, ok := ctx.Deadline(); ok && time.Until(end) < wait {
			return err
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return err
		case <-t.C:
		}
		wait *= 2
	}
}
