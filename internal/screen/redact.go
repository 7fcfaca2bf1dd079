package screen

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"sallyport.dev/sallyport"
)

// MinSecretBytes is the shortest value that is taken: shorter ones occur by chance, and blanking those would
// tell what they are.
const MinSecretBytes = 8

// Redactor replaces known secrets by [redacted:NAME]: the value, each of its lines of at least
// MinSecretBytes, its JSON, URL and hexadecimal forms, and base64 of any text that contains it; also with control
// characters, ends of lines and terminal sequences inside. It cannot find a secret that was encoded twice,
// encrypted, reversed or broken up by other text; the real protection is that a sandbox holds none. Safe for
// concurrent use; each stream has a writer of its own.
type Redactor struct {
	byFirst [256][]pattern // longest first
	pairs   [1 << 16]bool  // the first two bytes of the patterns: rules out most places at once

	mu     sync.Mutex
	counts map[string]int
}

type pattern struct {
	bytes  []byte
	marker string
	name   string
}

// Mark is what stands in a secret's place.
func Mark(name string) string { return "[redacted:" + name + "]" }

// NewRedactor takes secrets by name. CodeInvalid, naming the secret and never showing it, for a value shorter
// than MinSecretBytes (an end of line does not count), for one that the marker itself would contain, and for
// a name that is not plain. No secrets: everything passes.
func NewRedactor(secrets map[string][]byte) (*Redactor, error) {
	r := &Redactor{counts: map[string]int{}}
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		if err := checkSecretName(name); err != nil {
			return nil, err
		}
		value := bytes.TrimRight(secrets[name], "\r\n")
		if len(value) < MinSecretBytes {
			return nil, refuseSecret(name, fmt.Sprintf("expected at least %d bytes; a shorter value cannot be told from ordinary text", MinSecretBytes))
		}
		for _, f := range forms(value) {
			if seen[string(f)] {
				continue
			}
			seen[string(f)] = true
			p := pattern{f, Mark(name), name}
			r.pairs[int(f[0])<<8|int(f[1])] = true
			r.byFirst[f[0]] = append(r.byFirst[f[0]], p)
		}
	}
	for i := range r.byFirst {
		slices.SortStableFunc(r.byFirst[i], func(a, b pattern) int { return len(b.bytes) - len(a.bytes) })
	}
	return r, r.checkMarkers(secrets)
}

// checkMarkers refuses a secret that a marker contains or could begin: replacing it would write it.
func (r *Redactor) checkMarkers(secrets map[string][]byte) error {
	for name := range secrets {
		for _, list := range r.byFirst {
			for _, p := range list {
				if strings.Contains(Mark(name), string(p.bytes)) || strings.Contains(string(p.bytes), "[redacted:") {
					return refuseSecret(p.name, "expected a value that is no part of a redaction mark")
				}
			}
		}
	}
	return nil
}

func checkSecretName(name string) error {
	bad := strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
	})
	if name == "" || len(name) > 100 || bad {
		return refuseSecret(fmt.Sprintf("%.40q", name), "expected a name of letters, digits, dot, dash and underscore")
	}
	return nil
}

func refuseSecret(name, message string) error {
	return &sallyport.Error{Op: "redact", Code: sallyport.CodeInvalid, Subject: "secret " + name, Message: message,
		Hint: "check what the variable or file holds"}
}

// forms lists every spelling that is looked for. Those with control characters in them also stand there without:
// that is how the second look sees them.
func forms(value []byte) [][]byte {
	out := valueForms(value)
	for _, f := range out {
		if q := bytes.Map(func(r rune) rune { return unlessControl(r) }, f); len(q) >= MinSecretBytes && len(q) < len(f) {
			out = append(out, q)
		}
	}
	return out
}

func unlessControl(r rune) rune {
	if r < 0x20 || r == 0x7f {
		return -1
	}
	return r
}

func valueForms(value []byte) [][]byte {
	out := spellings(value)
	for line := range bytes.Lines(value) {
		line = bytes.TrimRight(line, "\r\n")
		// The first and last line of a PEM block are the same for everybody.
		if len(line) >= MinSecretBytes && len(line) < len(value) && !bytes.HasPrefix(line, []byte("-----")) {
			out = append(out, spellings(line)...)
		}
	}
	return out
}

var percent = regexp.MustCompile(`%[0-9A-F]{2}`)

func spellings(v []byte) [][]byte {
	lower := hex.EncodeToString(v)
	out := [][]byte{v, []byte(lower), []byte(strings.ToUpper(lower)), everyByte(lower), everyByte(strings.ToUpper(lower))}
	for _, escaped := range []string{url.QueryEscape(string(v)), url.PathEscape(string(v))} {
		out = append(out, []byte(escaped), []byte(percent.ReplaceAllStringFunc(escaped, strings.ToLower)))
	}
	for _, html := range []bool{false, true} {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(html)
		if e.Encode(string(v)) == nil {
			escaped := bytes.TrimSuffix(bytes.TrimPrefix(bytes.TrimSpace(b.Bytes()), []byte{'"'}), []byte{'"'})
			out = append(out, escaped, bytes.ReplaceAll(escaped, []byte("/"), []byte(`\/`)))
		}
	}
	for shift := range 3 {
		out = append(out, base64Part(base64.StdEncoding, v, shift), base64Part(base64.URLEncoding, v, shift))
	}
	return slices.DeleteFunc(out, func(b []byte) bool { return len(b) < MinSecretBytes })
}

// everyByte is %XX for each byte, of its hexadecimal digits.
func everyByte(hex string) []byte {
	var out []byte
	for i := 0; i < len(hex); i += 2 {
		out = append(out, '%', hex[i], hex[i+1])
	}
	return out
}

// base64Part is what base64 of (shift bytes, v, anything) always contains: the first characters that the
// bytes before v take part in, and the last one that the bytes after it do, are left out.
func base64Part(enc *base64.Encoding, v []byte, shift int) []byte {
	s := enc.WithPadding(base64.NoPadding).EncodeToString(append(make([]byte, shift), v...))
	if (shift+len(v))%3 != 0 {
		s = s[:len(s)-1]
	}
	return []byte(s[[3]int{0, 2, 3}[shift]:])
}

// Forms lists what is looked for, sorted: it is as secret as what it is made of.
func (r *Redactor) Forms() [][]byte {
	var all [][]byte
	for _, list := range r.byFirst {
		for _, p := range list {
			all = append(all, p.bytes)
		}
	}
	slices.SortFunc(all, bytes.Compare)
	return all
}

// Counts says how often each secret was replaced, over all streams.
func (r *Redactor) Counts() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.counts)
}

func (r *Redactor) count(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[name]++
}

// Bytes redacts one complete text.
func (r *Redactor) Bytes(b []byte) []byte {
	var out bytes.Buffer
	w := r.Writer(&out)
	_, _ = w.Write(b) // a bytes.Buffer does not fail
	_ = w.Close()
	return out.Bytes()
}

// Names lists, sorted, the secrets that are in a complete text. They do not count as replaced.
func (r *Redactor) Names(b []byte) []string {
	found := map[string]bool{}
	w := r.stages(io.Discard, false, func(name string) { found[name] = true })
	_, _ = w.Write(b)
	_ = w.Close()
	return slices.Sorted(maps.Keys(found))
}

// Writer redacts a stream, whatever the writes' borders. It holds back only what could be the beginning of a
// secret, less than the longest form; Close writes that and does not close w. Not safe for concurrent use.
func (r *Redactor) Writer(w io.Writer) io.WriteCloser { return r.stages(w, false, r.count) }

// Live is Writer for a stream that somebody follows: once nothing has come for a moment, up to three characters that
// could be the beginning of a secret are let go, and only the rest of it can still be redacted. It adds to n how often
// this stream's secrets were replaced; n is right once it is closed. Safe for concurrent use.
func (r *Redactor) Live(w io.Writer, n *int64) io.WriteCloser {
	return newLive(r.stages(w, false, func(name string) { r.count(name); *n++ }))
}

// Terminal is Writer for a person who types and waits for the echo: up to three characters that could be the
// beginning of a secret are shown at once, and only the rest of it can still be redacted.
func (r *Redactor) Terminal(w io.Writer) io.WriteCloser { return r.stages(w, true, r.count) }

// match finds the longest form at the start of b. Wait: b is too short to tell, a longer one may be coming.
func (r *Redactor) match(b []byte) (found *pattern, wait bool) {
	if len(b) > 1 && !r.pairs[int(b[0])<<8|int(b[1])] {
		return nil, false
	}
	list := r.byFirst[b[0]]
	for i := range list {
		p := &list[i]
		if len(p.bytes) > len(b) {
			wait = wait || bytes.HasPrefix(p.bytes, b)
			continue
		}
		if bytes.HasPrefix(b, p.bytes) {
			return p, wait
		}
	}
	return nil, wait
}
