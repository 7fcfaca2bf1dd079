package gateway

import (
	"bytes"
	"net/http"
)

// watch looks for one secret in a stream without delaying it: only bytes that could be the beginning of the
// secret are held back, which ordinary text, and the end of an SSE event, is not.
//
// It finds the secret verbatim. An upstream that hands it out in another form (reversed, base64) is not
// recognised; the upstream is the operator's choice and knows the credential anyway.
type watch struct {
	secret []byte
	next   []int // next[i]: length of the longest proper border of secret[:i+1]
	held   int   // how many bytes of secret the stream ends with
}

// Preconditions: secret is not empty.
func newWatch(secret string) *watch {
	w := &watch{secret: []byte(secret), next: make([]int, len(secret))}
	for i, k := 1, 0; i < len(secret); i++ {
		for k > 0 && secret[i] != secret[k] {
			k = w.next[k-1]
		}
		if secret[i] == secret[k] {
			k++
		}
		w.next[i] = k
	}
	return w
}

// pass takes the stream's next bytes and returns those that may go on, and whether the secret was met. After
// it was, nothing may go on.
func (w *watch) pass(p []byte) (out []byte, met bool) {
	before := w.held
	for _, c := range p {
		for w.held > 0 && c != w.secret[w.held] {
			w.held = w.next[w.held-1]
		}
		if c == w.secret[w.held] {
			w.held++
		}
		if w.held == len(w.secret) {
			return nil, true
		}
	}
	all := append(append([]byte(nil), w.secret[:before]...), p...)
	return all[:len(all)-w.held], false
}

// rest is what was held back, at the end of the stream.
func (w *watch) rest() []byte {
	r := w.secret[:w.held]
	w.held = 0
	return r
}

func headersHold(h http.Header, secret string) bool {
	for name, values := range h {
		if bytes.Contains([]byte(name), []byte(secret)) {
			return true
		}
		for _, v := range values {
			if bytes.Contains([]byte(v), []byte(secret)) {
				return true
			}
		}
	}
	return false
}

// watches look for several secrets at once.
type watches []*watch

func newWatches(secrets []string) (all watches) {
	for _, s := range secrets {
		all = append(all, newWatch(s))
	}
	return all
}

// pass is watch.pass for all of them.
func (all watches) pass(p []byte) (out []byte, met bool) {
	for _, w := range all {
		if p, met = w.pass(p); met {
			return nil, true
		}
	}
	return p, false
}

// rest is what was held back, at the end of the stream.
func (all watches) rest() (out []byte, met bool) {
	for _, w := range all {
		if out, met = w.pass(out); met {
			return nil, true
		}
		out = append(out, w.rest()...)
	}
	return out, false
}
