package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-github/v93/github"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
)

// maxSkew is how far a clock may be off before GitHub refuses what an App signs: it is signed for the minute before.
const maxSkew = time.Minute

// refused is the error of an answer that is no success.
func (d *Driver) refused(c call, res *github.Response, err error) error {
	told := &github.ErrorResponse{}
	if !errors.As(err, &told) {
		told.Message = messageOf(err)
	}
	words := told.Message
	for _, e := range told.Errors {
		words += "; " + strings.TrimSpace(e.Field+" "+e.Code+" "+e.Message)
	}
	header := res.Header
	// A secondary limit need not say how long: a minute, GitHub's documentation asks.
	if secondary := (*github.AbuseRateLimitError)(nil); errors.As(err, &secondary) && header.Get("Retry-After") == "" {
		header = header.Clone()
		header.Set("Retry-After", "60")
	}
	out := c.plainly(res.StatusCode, header, words)
	var e *sallyport.Error
	if !errors.As(out, &e) || e.Code == sallyport.CodeUnavailable {
		return out
	}
	switch res.StatusCode {
	case http.StatusUnauthorized:
		if clock(told.Message, res.Header, c.now) {
			e.Hint = "this machine's clock differs from the forge's: set it"
		}
	case http.StatusUnprocessableEntity:
		unprocessable(e, told)
	}
	return e
}

// messageOf is the message of the errors for which the library has types of their own.
func messageOf(err error) string {
	var primary *github.RateLimitError
	var secondary *github.AbuseRateLimitError
	switch {
	case errors.As(err, &primary):
		return primary.Message
	case errors.As(err, &secondary):
		return secondary.Message
	}
	return ""
}

// clock tells whether a 401 is about time: GitHub names the claim, or its own date is far from ours.
func clock(message string, h http.Header, now time.Time) bool {
	if strings.Contains(message, "'iat'") || strings.Contains(message, "'exp'") {
		return true
	}
	date, err := http.ParseTime(h.Get("Date"))
	return err == nil && now.Sub(date).Abs() > maxSkew
}

// unprocessable tells the 422s apart. GitHub documents the codes, not the messages; the two read here are those that
// it has given for years, and where they change the error is CodeInvalid, after which nothing is repeated.
func unprocessable(e *sallyport.Error, told *github.ErrorResponse) {
	for _, one := range told.Errors {
		switch {
		case one.Code == "custom" && strings.Contains(one.Message, "already exists"):
			e.Code = sallyport.CodeConflict
			return
		case one.Field == "head" && one.Code == "invalid":
			e.Err = errHead
			return
		}
	}
	all := told.Message
	for _, one := range told.Errors {
		all += one.Message
	}
	if strings.Contains(strings.ToLower(all), "draft pull requests are not supported") {
		e.Hint = "this repository's plan has no draft pull requests: set `draft: false`"
	}
}

// errHead marks the refusal of a head branch that GitHub does not see, or not yet.
var errHead = errors.New("the forge does not see the branch")

// call is what an error about one request has to know.
type call struct {
	op      string // "open a pull request at the forge"
	subject string // the repository
	// changes: the request may change something; an answer that was lost is not known then.
	changes bool
	sent    *sent
	secrets []string // never in an error, also where the forge says them back
	now     time.Time
}

// fail is an error of this call.
func (c call) fail(code sallyport.Code, message, hint string) *sallyport.Error {
	return &sallyport.Error{Op: c.op, Code: code, Subject: c.subject, Message: message, Hint: hint}
}

// lost is the error of a request that has no whole answer: none, one cut off, one too large, one that cannot be read.
// CodeUnknown where the forge may have acted on it, else CodeUnavailable.
func (c call) lost(err error) error {
	e := c.fail(sallyport.CodeUnavailable, "the forge did not answer: "+c.words(reason(err)), "")
	if c.changes && c.sent.may() {
		e.Code, e.Message = sallyport.CodeUnknown, "the forge's answer was lost: "+c.words(reason(err))
		e.Hint = "look up what became of it before it is asked for again"
	}
	for _, known := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			e.Err = known
		}
	}
	return e
}

// reason is the innermost cause: what is around it says the address again, and may say more than belongs in an error.
func reason(err error) string {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err.Error()
		}
		err = next
	}
}

// plainly is the error of an answer that is no success. words are the forge's.
func (c call) plainly(status int, header http.Header, words string) error {
	words = c.words(words)
	if until, ok := limit(status, header, c.now); ok {
		e := c.fail(sallyport.CodeUnavailable, fmt.Sprintf("the forge limits how much it is asked (%d)", status), "")
		e.Err = &forge.Later{Until: until}
		return e
	}
	e := c.fail(codeOf(status), fmt.Sprintf("the forge answers %d", status), "")
	if words != "" {
		e.Message += ": " + words
	}
	switch {
	case status >= 300 && status < 400:
		e.Message = fmt.Sprintf("the forge sends elsewhere (%d): %s", status, c.words(place(header.Get("Location"))))
		e.Hint = "the repository or the forge has moved: put its new address into the target"
	case status == http.StatusUnauthorized:
		e.Hint = "the forge does not take the credential: it has ended, was revoked, or is not for this forge"
	case (status == http.StatusBadGateway || status == http.StatusGatewayTimeout) && c.changes:
		// A gateway lost the answer after it had passed the request on.
		e.Code, e.Hint = sallyport.CodeUnknown, "look up what became of it before it is asked for again"
	}
	return e
}

// place is where a redirect leads, without its query, which is nobody's business.
func place(location string) string {
	u, err := url.Parse(location)
	if err != nil {
		return "an address that is none"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// words makes a forge's words fit for an error.
func (c call) words(s string) string { return forge.Words(s, c.secrets...) }

func codeOf(status int) sallyport.Code {
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return sallyport.CodeDenied
	case status == http.StatusNotFound:
		return sallyport.CodeNotFound
	case status == http.StatusConflict:
		return sallyport.CodeConflict
	case status == http.StatusRequestTimeout:
		return sallyport.CodeUnavailable
	case status >= 300 && status < 500:
		return sallyport.CodeInvalid
	}
	return sallyport.CodeUnavailable
}

// without is how long to stay away where a forge limits and does not say until when. GitHub asks for a minute:
// https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api
const without = time.Minute

// limit tells a rate limit by its headers, as GitHub documents them. A 403 without them is a
// refusal.
func limit(status int, h http.Header, now time.Time) (until time.Time, ok bool) {
	after := wait(h, now)
	reset, spent := h.Get("X-RateLimit-Reset"), h.Get("X-RateLimit-Remaining") == "0"
	switch status {
	case http.StatusTooManyRequests:
	case http.StatusForbidden:
		if after == 0 && !spent {
			return until, false
		}
	case http.StatusServiceUnavailable:
		if after == 0 {
			return until, false
		}
	default:
		return until, false
	}
	// What a forge asks for beyond a day is taken for a day: nobody waits longer without asking again.
	latest := now.Add(24 * time.Hour)
	until = now.Add(without)
	if after > 0 {
		until = now.Add(after)
	} else if at, err := strconv.ParseInt(reset, 10, 64); err == nil && spent && time.Unix(at, 0).After(now) {
		until = time.Unix(at, 0)
	}
	if until.After(latest) {
		until = latest
	}
	return until, true
}

// wait reads Retry-After: seconds, or a date.
func wait(h http.Header, now time.Time) time.Duration {
	v := h.Get("Retry-After")
	if s, err := strconv.ParseUint(v, 10, 31); err == nil {
		return max(time.Duration(s)*time.Second, time.Second)
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(at.Sub(now), time.Second)
	}
	return 0
}

// usable tells whether a token can stand in a header and in a password: printable ASCII without space. Nothing is
// assumed of its form beyond that.
func usable(token string) bool {
	return token != "" && len(token) <= 8192 && strings.IndexFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) < 0
}

// objectID is a commit's name as the forge told it, "" where it is none.
func objectID(s string) sallyport.ObjectID {
	if id := sallyport.ObjectID(s); id.Check() == nil {
		return id
	}
	return ""
}
