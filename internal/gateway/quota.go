package gateway

import (
	"sync"
	"time"

	"sallyport.dev/sallyport/internal/egress"
)

// quota holds one rule to its limits over the whole Attempt. Safe for concurrent use.
type quota struct {
	limits egress.Limits

	mu       sync.Mutex
	requests int64
	up, down int64
	recent   [61]int64 // requests by second, of the last 61
	second   int64     // the newest second in recent
}

// enter counts one request (tcp: connection) at now; the Reason is why not. What is refused is not counted.
//
// A rate holds for every span of sixty seconds, wherever it begins: the second under way and the sixty before it are
// counted, so it errs by less than a second to the strict side.
func (q *quota) enter(now time.Time) egress.Reason {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.limits.Requests > 0 && q.requests >= q.limits.Requests {
		return ReasonRequests
	}
	if q.limits.Rate > 0 {
		slot := q.turn(now.Unix())
		if q.sum() >= q.limits.Rate {
			return ReasonRate
		}
		q.recent[slot]++
	}
	q.requests++
	return ""
}

// turn forgets the seconds that have passed and returns the present one's slot. A clock that went back stays where it
// was.
func (q *quota) turn(second int64) int64 {
	size := int64(len(q.recent))
	if second-q.second >= size {
		q.recent, q.second = [61]int64{}, second
	}
	for q.second < second {
		q.second++
		q.recent[q.second%size] = 0
	}
	return q.second % size
}

func (q *quota) sum() (n int64) {
	for _, k := range q.recent {
		n += k
	}
	return n
}

// takeUp and takeDown ask for n bytes and say how many of them may pass. Less than n: the limit is met.
func (q *quota) takeUp(n int) int   { return q.take(&q.up, q.limits.Up, n) }
func (q *quota) takeDown(n int) int { return q.take(&q.down, q.limits.Down, n) }

func (q *quota) take(used *int64, limit int64, n int) int {
	if limit <= 0 {
		return n
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	n = int(min(int64(n), limit-*used))
	*used += int64(n)
	return n
}
