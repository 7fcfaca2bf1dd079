package secret

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
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
	// Newer ones are ghs_ID_JWT, of any length: GitHub's own published pattern lacks the JWT's dash.
	{rule: "secret.github-token", prefix: "ghs_", set: dotted, min: 36, max: noMax},
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

// begin is where the whole credential begins: a Telegram token has its bot's number before the colon.
func (f format) begin(text []byte, at int) int {
	if f.prefix[0] == ':' {
		for at > 0 && text[at-1] >= '0' && text[at-1] <= '9' {
			at--
		}
	}
	return at
}

// match is the end of a credential whose prefix begins at; 0 if there is none.
func (f format) match(text []byte, at int) int {
	if !bytes.HasPrefix(text[at:], []byte(f.prefix)) {
		return 0 // the finder does not mind case
	}
	start := f.begin(text, at)
	if f.prefix[0] == ':' && (at-start < 8 || at-start > 10) {
		return 0
	}
	if start > 0 && (alnum(text[start-1]) || text[start-1] == '_') && alnum(f.prefix[0]) {
		// "\n" and its like before a token, as in JSON or Go source, are no part of a word.
		if start < 2 || text[start-2] != '\\' {
			return 0
		}
	}
	end := at + len(f.prefix)
	for end < len(text) && f.set(text[end]) {
		end++
	}
	for end > at && (text[end-1] == '.' || text[end-1] == '-') && end-at-len(f.prefix) > f.min {
		end-- // the sentence's own punctuation
	}
	n := end - at - len(f.prefix)
	if n < f.min || n > f.max {
		return 0
	}
	if sample(text[at+len(f.prefix):end]) || f.check != nil && !f.check(string(text[at:end])) {
		return 0
	}
	return end
}

// sample reports a placeholder: too few different characters to be random ("xxxx…"), or the word that
// issuers put into their documents' keys (AKIAIOSFODNN7EXAMPLE).
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
