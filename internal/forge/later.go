package forge

import (
	"net/http"
	"strconv"
	"time"
)

// longestPause is believed of a forge; what is longer, a person should hear of.
const longestPause = 24 * time.Hour

// laterOf reads when a forge may be asked again: Retry-After (RFC 9110 10.2.3: seconds or a date), else the second at which
// the rate limit begins anew (GitHub X-RateLimit-Reset, GitLab RateLimit-Reset). nil: it does not say.
func laterOf(h http.Header, now time.Time) *Later {
	at, ok := retryAfter(h.Get("Retry-After"), now)
	for _, kind := range []string{"X-RateLimit-", "RateLimit-"} {
		if !ok && h.Get(kind+"Remaining") == "0" {
			var second int64
			second, err := strconv.ParseInt(h.Get(kind+"Reset"), 10, 64)
			at, ok = time.Unix(second, 0), err == nil
		}
	}
	if !ok {
		return nil
	}
	if longest := now.Add(longestPause); at.After(longest) {
		at = longest
	}
	return &Later{Until: at}
}

func retryAfter(v string, now time.Time) (time.Time, bool) {
	if v == "" {
		return time.Time{}, false
	}
	if seconds, err := strconv.ParseInt(v, 10, 64); err == nil && seconds >= 0 {
		return now.Add(min(time.Duration(seconds), longestPause/time.Second) * time.Second), true
	}
	at, err := http.ParseTime(v)
	return at, err == nil
}
