package secret

import (
	_ "embed"
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
)

//go:embed known/rules.json
var rulesJSON []byte

// The rules that a match of the embedded data is reported as.
const (
	RuleFormat   = "secret.known-format" // the value itself has a service's form
	RuleAssigned = "secret.assigned"     // only the name beside it says that the value is a credential
)

// rule is one rule of the embedded data.
type rule struct {
	ID       string   `json:"id"`
	Regex    string   `json:"regex"`
	Group    int      `json:"group"`
	Entropy  float64  `json:"entropy"`
	Path     string   `json:"path"`
	Keywords []string `json:"keywords"`
	Allow    []allow  `json:"allow"`

	shape   shape
	mixed   bool                  // letters alone are no value
	regex   func() *regexp.Regexp // compiled at the first use: most rules have none in most changes
	path    func() *regexp.Regexp
	service string // for a person: "npm access token"
}

// allow says what is no credential although it looks like one.
type allow struct {
	All     bool     `json:"all"`    // every criterion, not one
	Target  string   `json:"target"` // of regexes: match, line; empty: the value
	Regexes []string `json:"regexes"`
	Words   []string `json:"words"`
	Paths   []string `json:"paths"`

	regexes, paths []func() *regexp.Regexp
}

// shape is what of a text around a keyword a rule can match, and so what must be there for it to be tried.
type shape int

const (
	token    shape = iota // one run of characters with the keyword in it
	assigned              // a name with the keyword, an operator, a value
	block                 // several lines
)

// blocks are the rules whose match is more than one token or assignment.
var blocks = []string{"curl-auth-header", "curl-auth-user", "kubernetes-secret-yaml", "nuget-config-password", "freemius-secret-key", "sidekiq-sensitive-url"}

// loose are the rules with a form that other things have too: 32 or 40 hexadecimal digits, two numbers.
var loose = []string{"sourcegraph-access-token", "facebook-access-token", "twilio-api-key", "hashicorp-tf-password", "clickhouse-cloud-api-secret-key"}

// nameBefore is how the data spells "any name with one of these words".
const nameBefore = `[\w.-]{0,50}?`

// lettersOnly is how the data spells "a value of letters is none".
const lettersOnly = `^[a-zA-Z_.-]+$`

func (r *rule) prepare() {
	switch {
	case slices.Contains(blocks, r.ID):
		r.shape = block
	case strings.Contains(r.Regex, nameBefore):
		r.shape = assigned
	}
	r.mixed = slices.ContainsFunc(r.Allow, func(a allow) bool { return !a.All && slices.Contains(a.Regexes, lettersOnly) })
	r.regex, r.path = lazily(r.Regex), lazily(r.Path)
	r.service = strings.ReplaceAll(r.ID, "-", " ")
	for i := range r.Allow {
		r.Allow[i].prepare()
	}
}

func (a *allow) prepare() {
	for _, x := range a.Regexes {
		a.regexes = append(a.regexes, lazily(x))
	}
	for _, x := range a.Paths {
		a.paths = append(a.paths, lazily(x))
	}
}

func lazily(pattern string) func() *regexp.Regexp {
	if pattern == "" {
		return nil
	}
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

// public reports a rule about what is no secret.
func (r *rule) public() bool {
	return strings.HasSuffix(r.ID, "-client-id") || strings.Contains(r.ID, "-pub-") || strings.Contains(r.ID, "public-key") || strings.HasSuffix(r.ID, "-access-id") || r.ID == "new-relic-user-api-id"
}

func (r *rule) report() string {
	if r.shape == token && !slices.Contains(loose, r.ID) {
		return RuleFormat
	}
	return RuleAssigned
}

// find calls hit for each credential of the rule in a piece of text.
func (r *rule) find(piece []byte, path string, global []allow, hit func(start, end int)) {
	for _, m := range r.regex().FindAllSubmatchIndex(piece, -1) {
		start, end := m[0], m[1]
		group := r.Group
		for g := 1; group == 0 && g < len(m)/2; g++ {
			if m[2*g] >= 0 && m[2*g+1] > m[2*g] {
				group = g
			}
		}
		if group > 0 && 2*group < len(m) && m[2*group] >= 0 {
			start, end = m[2*group], m[2*group+1]
		}
		value := piece[start:end]
		if len(value) == 0 || r.Entropy > 0 && entropy(value) <= r.Entropy || sample(value) {
			continue
		}
		if r.allowed(global, value, piece[m[0]:m[1]], lineAround(piece, m[0], m[1]), path) {
			continue
		}
		hit(start, end)
	}
}

func (r *rule) allowed(global []allow, value, match, line []byte, path string) bool {
	for _, list := range [][]allow{global, r.Allow} {
		for i := range list {
			if list[i].covers(value, match, line, path, r.report() == RuleAssigned) {
				return true
			}
		}
	}
	return false
}

// covers reports whether the value is no credential. Paths count for what is only named like one: a token with
// a form of its own is one in a lock file too.
func (a *allow) covers(value, match, line []byte, path string, paths bool) bool {
	target := value
	switch a.Target {
	case "match":
		target = match
	case "line":
		target = line
	}
	var said []bool
	if len(a.regexes) > 0 {
		said = append(said, slices.ContainsFunc(a.regexes, func(x func() *regexp.Regexp) bool { return x().Match(target) }))
	}
	if len(a.Words) > 0 {
		low := strings.ToLower(string(value))
		said = append(said, slices.ContainsFunc(a.Words, func(w string) bool { return strings.Contains(low, w) }))
	}
	if len(a.paths) > 0 {
		said = append(said, paths && slices.ContainsFunc(a.paths, func(x func() *regexp.Regexp) bool { return x().MatchString(path) }))
	}
	if a.All {
		return len(said) > 0 && !slices.Contains(said, false)
	}
	return slices.Contains(said, true)
}

func lineAround(b []byte, start, end int) []byte {
	for start > 0 && b[start-1] != '\n' {
		start--
	}
	for end < len(b) && b[end] != '\n' {
		end++
	}
	return b[start:end]
}

// entropy is Shannon's, in bits per byte.
func entropy(b []byte) float64 {
	var count [256]int
	for _, c := range b {
		count[c]++
	}
	var sum float64
	for _, n := range count {
		if n > 0 {
			p := float64(n) / float64(len(b))
			sum -= p * math.Log2(p)
		}
	}
	return sum
}

// knowledge is everything that Scan looks for, made at its first call: a program that scans nothing pays nothing.
type knowledge struct {
	finder  *finder
	byWord  []wanted // by the finder's word
	rules   []rule
	allow   []allow
	longest int // bytes of a word
}

// wanted is what a word may belong to.
type wanted struct {
	length  int
	formats []format
	key     bool // a private key begins with it
	label   bool
	rules   []int
}

var known = sync.OnceValue(func() *knowledge {
	var data struct {
		Rules []rule  `json:"rules"`
		Allow []allow `json:"allow"`
	}
	if err := json.Unmarshal(rulesJSON, &data); err != nil {
		panic("secret: the embedded rules are not what the program was built with: " + err.Error())
	}
	k := &knowledge{rules: data.Rules, allow: data.Allow}
	for i := range k.allow {
		k.allow[i].prepare()
	}
	index := map[string]int{}
	var words []string
	at := func(w string) *wanted {
		w = strings.ToLower(w)
		i, ok := index[w]
		if !ok {
			i = len(words)
			index[w], words = i, append(words, w)
			k.byWord = append(k.byWord, wanted{length: len(w)})
		}
		return &k.byWord[i]
	}
	for _, f := range formats {
		w := at(f.prefix)
		w.formats = append(w.formats, f)
	}
	at(pemBegin).key, at(puttyBegin).key = true, true
	for _, l := range labelWords {
		at(l).label = true
	}
	for i := range k.rules {
		r := &k.rules[i]
		if r.prepare(); r.public() {
			continue
		}
		for _, word := range r.Keywords {
			w := at(word)
			w.rules = append(w.rules, i)
		}
	}
	k.finder = newFinder(words)
	return k
})
