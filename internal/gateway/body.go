package gateway

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

var errBodyTooLarge = errors.New("the request body is too large")

// countedBody is a request body with a cap and a stall limit. The transport may still read it while the
// answer is being written, so its numbers are atomic.
type countedBody struct {
	r    io.ReadCloser
	rc   *http.ResponseController
	max  int64
	n    atomic.Int64
	over atomic.Bool
	shut atomic.Bool
}

func (b *countedBody) Read(p []byte) (int, error) {
	if b.shut.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	_ = b.rc.SetReadDeadline(time.Now().Add(stallTimeout))
	n, err := b.r.Read(p)
	if b.n.Add(int64(n)) > b.max {
		b.over.Store(true)
		return 0, errBodyTooLarge
	}
	if err == io.EOF {
		// The server now watches the connection for its end; a deadline left behind would cut a long answer.
		_ = b.rc.SetReadDeadline(time.Time{})
	}
	return n, err
}

func (b *countedBody) Close() error {
	b.shut.Store(true)
	return nil // the server closes its own body
}

func (b *countedBody) count() int64 { return min(b.n.Load(), b.max) }

func (b *countedBody) tooLarge() bool { return b.over.Load() }

// meteredBody is a request body under a rule's limit of bytes: not one more passes.
type meteredBody struct {
	countedBody
	quota  *quota
	passed atomic.Int64
	spent  atomic.Bool
}

func (b *meteredBody) Read(p []byte) (int, error) {
	n, err := b.countedBody.Read(p)
	may := b.quota.takeUp(n)
	b.passed.Add(int64(may))
	if may < n {
		b.spent.Store(true)
		return may, errBodyTooLarge
	}
	return n, err
}
