package inspect

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"sallyport.dev/sallyport"
)

// format is one kind of credential with a beginning of its own: prefix, then min to max characters of a set.
// The character before it must not belong to a word. Numbers come from the issuers' documents and from real
// tokens; "at least" is used where an issuer keeps the right to lengthen.
type format struct {
	rule     string
	prefix   string
	set      charset
	min, max int
	check    func(token string) bool // nil: the form is enough
}

type charset func(c byte) bool

func alnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
func upperDigit(c byte) bool { return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' }
func lowerHex(c byte) bool   { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' }
func word(c byte) bool       { return alnum(c) || c == '_' || c == '-' }
func dotted(c byte) bool     { return word(c) || c == '.' }
func base64Char(c byte) bool { return alnum(c) || c == '+' || c == '/' || c == '=' }
func bech32(c byte) bool     { return upperDigit(c) && c != '1' && c != 'B' && c != 'I' && c != 'O' }
func anyURL(c byte) bool     { return word(c) || c == '/' }

const noMax = 1 << 12

var formats = []format{
	{rule: "secret.github-token", prefix: "ghp_", set: alnum, min: 36, max: noMax},
	{rule: "secret.github-token", prefix: "gho_", set: alnum, min: 36, max: noMax},
	{rule: "secret.github-token", prefix: "ghu_", set: alnum, min: 36, max: noMax},
	{rule: "secret.github-token", prefix: "ghr_", set: alnum, min: 36, max: noMax},
	{rule: "secret.github-token", prefix: "ghs_", set: dotted, min: 36, max: noMax}, // newer ones hold a JWT
	{rule: "secret.github-token", prefix: "github_pat_", set: word, min: 36, max: noMax},
	{rule: "secret.gitlab-token", prefix: "glpat-", set: dotted, min: 20, max: noMax},
	{rule: "secret.gitlab-token", prefix: "gldt-", set: dotted, min: 20, max: noMax},
	{rule: "secret.gitlab-token", prefix: "glrt-", set: dotted, min: 20, max: noMax},
	{rule: "secret.gitlab-token", prefix: "glptt-", set: word, min: 20, max: noMax},
	{rule: "secret.aws-access-key-id", prefix: "AKIA", set: upperDigit, min: 16, max: 16},
	{rule: "secret.aws-access-key-id", prefix: "ASIA", set: upperDigit, min: 16, max: 16},
	{rule: "secret.anthropic-key", prefix: "sk-ant-", set: word, min: 24, max: noMax},
	{rule: "secret.openai-key", prefix: "sk-proj-", set: word, min: 24, max: noMax},
	{rule: "secret.openai-key", prefix: "sk-svcacct-", set: word, min: 24, max: noMax},
	{rule: "secret.openai-key", prefix: "sk-admin-", set: word, min: 24, max: noMax},
	{rule: "secret.openai-key", prefix: "sk-", set: alnum, min: 40, max: noMax},
	{rule: "secret.slack-token", prefix: "xoxb-", set: word, min: 20, max: noMax},
	{rule: "secret.slack-token", prefix: "xoxp-", set: word, min: 20, max: noMax},
	{rule: "secret.slack-token", prefix: "xoxa-", set: word, min: 20, max: noMax},
	{rule: "secret.slack-token", prefix: "xoxr-", set: word, min: 20, max: noMax},
	{rule: "secret.slack-token", prefix: "xoxs-", set: word, min: 20, max: noMax},
	{rule: "secret.slack-token", prefix: "xoxe.", set: dotted, min: 20, max: noMax},
	{rule: "secret.slack-token", prefix: "xapp-", set: word, min: 20, max: noMax},
	{rule: "secret.slack-webhook", prefix: "hooks.slack.com/services/", set: anyURL, min: 30, max: noMax},
	{rule: "secret.google-key", prefix: "AIza", set: word, min: 35, max: 35},
	{rule: "secret.google-key", prefix: "GOCSPX-", set: word, min: 24, max: noMax},
	{rule: "secret.google-key", prefix: "ya29.", set: dotted, min: 40, max: noMax},
	{rule: "secret.stripe-key", prefix: "sk_live_", set: alnum, min: 20, max: noMax},
	{rule: "secret.stripe-key", prefix: "rk_live_", set: alnum, min: 20, max: noMax},
	{rule: "secret.stripe-key", prefix: "whsec_", set: base64Char, min: 32, max: noMax},
	{rule: "secret.npm-token", prefix: "npm_", set: alnum, min: 36, max: 36},
	{rule: "secret.pypi-token", prefix: "pypi-", set: word, min: 50, max: noMax},
	{rule: "secret.huggingface-token", prefix: "hf_", set: alnum, min: 34, max: noMax},
	{rule: "secret.sendgrid-key", prefix: "SG.", set: dotted, min: 60, max: noMax},
	{rule: "secret.digitalocean-token", prefix: "dop_v1_", set: lowerHex, min: 64, max: 64},
	{rule: "secret.digitalocean-token", prefix: "doo_v1_", set: lowerHex, min: 64, max: 64},
	{rule: "secret.docker-token", prefix: "dckr_pat_", set: word, min: 24, max: noMax},
	{rule: "secret.docker-token", prefix: "dckr_oat_", set: word, min: 24, max: noMax},
	{rule: "secret.vault-token", prefix: "hvs.", set: word, min: 24, max: noMax},
	{rule: "secret.vault-token", prefix: "hvb.", set: word, min: 24, max: noMax},
	{rule: "secret.age-key", prefix: "AGE-SECRET-KEY-1", set: bech32, min: 58, max: 58},
	{rule: "secret.age-key", prefix: "AGE-SECRET-KEY-PQ-1", set: bech32, min: 50, max: noMax},
	{rule: "secret.azure-key", prefix: "AccountKey=", set: base64Char, min: 80, max: 96},
	{rule: "secret.shopify-token", prefix: "shpat_", set: lowerHex, min: 32, max: 32},
	{rule: "secret.shopify-token", prefix: "shpss_", set: lowerHex, min: 32, max: 32},
	{rule: "secret.telegram-token", prefix: ":AA", set: word, min: 33, max: 33},
	{rule: "secret.jwt", prefix: "eyJ", set: dotted, min: 40, max: 1 << 14, check: isJWT},
}

// labelled are credentials without a beginning of their own: they follow a name.
var labelled = []struct {
	rule     string
	labels   []string // lower case, without separators
	set      charset
	min, max int
}{
	{"secret.aws-secret-key", []string{"secretaccesskey", "awssecretkey"}, base64Char, 40, 40},
}

// hit is a credential's place in one line.
type hit struct {
	rule       string
	start, end int
}

// findSecrets lists the credentials in a line, in order of formats.
func findSecrets(line []byte) []hit { return findFormats(line, formats) }

// present are the formats whose beginning occurs in text at all: few, so that each line is asked for few.
func present(text []byte) []format {
	var out []format
	for _, f := range formats {
		if bytes.Contains(text, []byte(f.prefix)) {
			out = append(out, f)
		}
	}
	return out
}

func findFormats(line []byte, formats []format) []hit {
	var hits []hit
	for _, f := range formats {
		for from := 0; ; {
			at := bytes.Index(line[from:], []byte(f.prefix))
			if at < 0 {
				break
			}
			at += from
			from = at + len(f.prefix)
			if end := f.match(line, at); end > 0 {
				hits = append(hits, hit{f.rule, f.begin(line, at), end})
				from = end
			}
		}
	}
	return append(append(hits, findLabelled(line)...), findKeyBlocks(line)...)
}

// begin is where the whole credential begins: a Telegram token has its bot's number before the colon.
func (f format) begin(line []byte, at int) int {
	if f.prefix[0] == ':' {
		for at > 0 && line[at-1] >= '0' && line[at-1] <= '9' {
			at--
		}
	}
	return at
}

// match is the end of a credential that begins at; 0 if there is none.
func (f format) match(line []byte, at int) int {
	start := f.begin(line, at)
	if f.prefix[0] == ':' && (at-start < 8 || at-start > 10) {
		return 0
	}
	if start > 0 && (alnum(line[start-1]) || line[start-1] == '_') && alnum(f.prefix[0]) {
		// "\n" and its like before a token, as in JSON or Go source, are no part of a word.
		if start < 2 || line[start-2] != '\\' {
			return 0
		}
	}
	end := at + len(f.prefix)
	for end < len(line) && f.set(line[end]) {
		end++
	}
	for end > at && (line[end-1] == '.' || line[end-1] == '-') && end-at-len(f.prefix) > f.min {
		end-- // the sentence's own punctuation
	}
	n := end - at - len(f.prefix)
	if n < f.min || n > f.max {
		return 0
	}
	body := line[at+len(f.prefix) : end]
	if sample(body) || f.check != nil && !f.check(string(line[at:end])) {
		return 0
	}
	return end
}

// sample reports a placeholder: too few different characters to be random ("xxxx…"), or the word that
// issuers put into their documents' keys.
func sample(body []byte) bool {
	var seen [256]bool
	different := 0
	for _, c := range body {
		if !seen[c] {
			seen[c] = true
			different++
		}
	}
	return different < 6 || bytes.Contains(body, []byte("EXAMPLE"))
}

// isJWT reports three parts whose first two are JSON objects, the second with one of the claims of a token
// that grants something.
func isJWT(token string) bool {
	parts := strings.Split(token, ".")
	if len(parts) != 3 || len(parts[2]) < 16 {
		return false
	}
	var header, claims map[string]any
	for i, into := range []*map[string]any{&header, &claims} {
		b, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil || json.Unmarshal(b, into) != nil {
			return false
		}
	}
	_, exp := claims["exp"]
	_, sub := claims["sub"]
	_, iss := claims["iss"]
	return header["alg"] != nil && (exp || sub || iss)
}

// findLabelled looks for `label = "value"` in its many spellings.
func findLabelled(line []byte) []hit {
	var hits []hit
	lower, at := squeeze(line)
	for _, l := range labelled {
		for _, label := range l.labels {
			for from := 0; ; {
				i := bytes.Index(lower[from:], []byte(label))
				if i < 0 {
					break
				}
				from += i + len(label)
				start := at[from-1] + 1
				for start < len(line) && start < at[from-1]+12 && bytes.IndexByte([]byte(" \t\"'`=:>,("), line[start]) >= 0 {
					start++
				}
				end := start
				for end < len(line) && l.set(line[end]) {
					end++
				}
				if n := end - start; n >= l.min && n <= l.max && !sample(line[start:end]) {
					hits = append(hits, hit{l.rule, start, end})
				}
			}
		}
	}
	return hits
}

// squeeze is a line in lower case without "_" and "-", with the place of each byte kept.
func squeeze(line []byte) (lower []byte, at []int) {
	if !bytes.ContainsAny(line, "kK") || !bytes.ContainsAny(line, "yY") || len(line) < 40 {
		return nil, nil // too short for a label and a value, or without the "key" that every label ends in
	}
	lower, at = make([]byte, 0, len(line)), make([]int, 0, len(line))
	for i, c := range line {
		switch {
		case c == '_' || c == '-':
			continue
		case c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
		}
		lower, at = append(lower, c), append(at, i)
	}
	return lower, at
}

// findKeyBlocks looks for the first line of a private key in PEM, OpenSSH, PGP and PuTTY form.
func findKeyBlocks(line []byte) []hit {
	var hits []hit
	const begin, end = "-----BEGIN ", "-----"
	for from := 0; ; {
		i := bytes.Index(line[from:], []byte(begin))
		if i < 0 {
			break
		}
		start := from + i
		from = start + len(begin)
		label, _, closed := bytes.Cut(line[from:], []byte(end))
		if closed && len(label) < 64 && bytes.Contains(label, []byte("PRIVATE KEY")) {
			hits = append(hits, hit{"secret.private-key", start, from + len(label) + len(end)})
		}
	}
	if i := bytes.Index(line, []byte("PuTTY-User-Key-File-")); i >= 0 {
		hits = append(hits, hit{"secret.private-key", i, len(line)})
	}
	return hits
}

// secrets reports the credentials in added lines: rule and line, never the value.
func (i *inspection) secrets(c sallyport.Change, b []byte, known lines) {
	count := map[string]int{}
	formats := present(b)
	addedLines(b, known, func(n int, line []byte) bool {
		said := map[string]bool{}
		for _, h := range findFormats(line, formats) {
			rule := h.rule
			if rule == "secret.private-key" && IsTest(c.Path, i.Tests) {
				rule = "secret.private-key-in-test"
			}
			if said[rule] {
				continue
			}
			said[rule] = true
			if count[rule]++; count[rule] <= perFile {
				i.found.add(rule, c.Path, fmt.Sprintf("line %d: the added text contains what looks like %s", n, describe(rule)))
			}
		}
		return true
	})
}

func describe(rule string) string {
	name := strings.ReplaceAll(strings.TrimPrefix(rule, "secret."), "-", " ")
	if strings.ContainsRune("aeiou", rune(name[0])) {
		return "an " + name
	}
	return "a " + name
}

// redact replaces the credentials in a name.
func redact(s string) string {
	hits := findSecrets([]byte(s))
	if len(hits) == 0 {
		return s
	}
	drop := make([]bool, len(s))
	for _, h := range hits {
		for i := h.start; i < h.end; i++ {
			drop[i] = true
		}
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case !drop[i]:
			b.WriteByte(s[i])
		case i == 0 || !drop[i-1]:
			b.WriteString("<redacted>")
		}
	}
	return b.String()
}
