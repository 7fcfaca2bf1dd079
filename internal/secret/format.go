package secret

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/zricethezav/gitleaks/v8/config"
)

// format is one kind of credential with a beginning of its own: prefix, then min to max characters of a set.
// The character before it must not belong to a word. Numbers come from the issuers' documents and from real
// tokens; "at least" (max 0) is used where an issuer keeps the right to lengthen.
//
// These are what is issued most. The library knows many of them in one length only; and theirs end where the
// set does, not at a quote or a blank, so that they are found where lines were joined.
type format struct {
	rule, prefix, set string
	min, max          int
}

// Sets of characters, as an expression has them.
const (
	alnums     = `[0-9A-Za-z]`
	upperDigit = `[0-9A-Z]`
	lowerHex   = `[0-9a-f]`
	wordChar   = `[0-9A-Za-z_-]`
	dotted     = `[0-9A-Za-z_.-]`
	base64Char = `[0-9A-Za-z+/=]`
	bech32     = `[02-9AC-HJ-NP-Z]`
	anyURL     = `[0-9A-Za-z_/-]`
)

var formats = []format{
	{"secret.github-token", "ghp_", alnums, 36, 0},
	{"secret.github-token", "gho_", alnums, 36, 0},
	{"secret.github-token", "ghu_", alnums, 36, 0},
	{"secret.github-token", "ghr_", alnums, 36, 0},
	// Newer ones are ghs_ID_JWT, of any length: GitHub's own published pattern lacks the JWT's dash.
	{"secret.github-token", "ghs_", dotted, 36, 0},
	{"secret.github-token", "github_pat_", wordChar, 36, 0},
	{"secret.gitlab-token", "glpat-", dotted, 20, 0},
	{"secret.gitlab-token", "gldt-", dotted, 20, 0},
	{"secret.gitlab-token", "glrt-", dotted, 20, 0},
	{"secret.gitlab-token", "glptt-", wordChar, 20, 0},
	{"secret.aws-access-key-id", "AKIA", upperDigit, 16, 16},
	{"secret.aws-access-key-id", "ASIA", upperDigit, 16, 16},
	{"secret.anthropic-key", "sk-ant-", wordChar, 24, 0},
	{"secret.openai-key", "sk-proj-", wordChar, 24, 0},
	{"secret.openai-key", "sk-svcacct-", wordChar, 24, 0},
	{"secret.openai-key", "sk-admin-", wordChar, 24, 0},
	{"secret.openai-key", "sk-", alnums, 40, 0},
	{"secret.slack-token", "xoxb-", wordChar, 20, 0},
	{"secret.slack-token", "xoxp-", wordChar, 20, 0},
	{"secret.slack-token", "xoxa-", wordChar, 20, 0},
	{"secret.slack-token", "xoxr-", wordChar, 20, 0},
	{"secret.slack-token", "xoxs-", wordChar, 20, 0},
	{"secret.slack-token", "xoxe.", dotted, 20, 0},
	{"secret.slack-token", "xapp-", wordChar, 20, 0},
	{"secret.slack-webhook", "hooks.slack.com/services/", anyURL, 30, 0},
	{"secret.google-key", "AIza", wordChar, 35, 35},
	{"secret.google-key", "GOCSPX-", wordChar, 24, 0},
	{"secret.google-key", "ya29.", dotted, 40, 0},
	{"secret.stripe-key", "sk_live_", alnums, 20, 0},
	{"secret.stripe-key", "rk_live_", alnums, 20, 0},
	{"secret.stripe-key", "whsec_", base64Char, 32, 0},
	{"secret.npm-token", "npm_", alnums, 36, 36},
	{"secret.pypi-token", "pypi-", wordChar, 50, 0},
	{"secret.huggingface-token", "hf_", alnums, 34, 0},
	{"secret.sendgrid-key", "SG.", dotted, 60, 0},
	{"secret.digitalocean-token", "dop_v1_", lowerHex, 64, 64},
	{"secret.digitalocean-token", "doo_v1_", lowerHex, 64, 64},
	{"secret.docker-token", "dckr_pat_", wordChar, 24, 0},
	{"secret.docker-token", "dckr_oat_", wordChar, 24, 0},
	{"secret.vault-token", "hvs.", wordChar, 24, 0},
	{"secret.vault-token", "hvb.", wordChar, 24, 0},
	{"secret.age-key", "AGE-SECRET-KEY-1", bech32, 58, 58},
	{"secret.age-key", "AGE-SECRET-KEY-PQ-1", bech32, 50, 0},
	{"secret.azure-key", "AccountKey=", base64Char, 80, 96},
	{"secret.shopify-token", "shpat_", lowerHex, 32, 32},
	{"secret.shopify-token", "shpss_", lowerHex, 32, 32},
}

// before may stand before a credential: the edge of a word, or "\n" and its like, as in JSON or Go source, which
// are no part of one.
const before = `(?:\b|\\[nrt])`

// expression has the credential as its group.
func (f format) expression() string {
	most, end := "", ""
	if f.max > 0 {
		most, end = fmt.Sprint(f.max), "(?:[^"+f.set[1:]+"|$)"
	}
	return fmt.Sprintf("%s(%s%s{%d,%s})%s", before, regexp.QuoteMeta(f.prefix), f.set, f.min, most, end)
}

// others are our rules that are no prefix and a set: by rule and keyword, the expression.
var others = [][3]string{
	{"secret.telegram-token", ":aa", before + `([0-9]{8,10}:AA[\w-]{33})(?:[^\w-]|$)`},
	{"secret.jwt", "eyj", before + `(eyJ[\w-]{14,}\.eyJ[\w-]{8,}\.[\w-]{16,})`},
	// A private key begins with a line of its own; its body has no form.
	{"secret.private-key", "private key", `(-----BEGIN [^\n-]{0,64}PRIVATE KEY[^\n-]{0,64}-----)`},
	{"secret.private-key", "putty-user-key-file-", `(PuTTY-User-Key-File-[^\n]{0,100})`},
	{"secret.aws-secret-key", "secret", `(?i)(?:secret[_-]*access[_-]*key|aws[_-]*secret[_-]*key)[ \t"'\x60=:>,(]{1,12}([0-9a-z+/=]{40})(?:[^0-9a-z+/=]|$)`},
}

// ownRules are formats and others as the library has its rules. A rule's id is what is reported, a space, and
// what of the value is the same in every one.
func ownRules() []config.Rule {
	var all []config.Rule
	for _, f := range formats {
		all = append(all, config.Rule{RuleID: f.rule + " " + f.prefix, Regex: regexp.MustCompile(f.expression()), Keywords: []string{strings.ToLower(f.prefix)}})
	}
	for _, o := range others {
		all = append(all, config.Rule{RuleID: o[0] + " " + o[1], Regex: regexp.MustCompile(o[2]), Keywords: []string{o[1]}})
	}
	return all
}

// sample reports a placeholder: too few different characters to be random ("xxxx…"), or the word that
// issuers put into their documents' keys (AKIAIOSFODNN7EXAMPLE).
func sample(body string) bool {
	var seen [256]bool
	different := 0
	for i := range len(body) {
		if c := body[i]; !seen[c] {
			seen[c] = true
			different++
		}
	}
	return different < 6 || strings.Contains(body, "EXAMPLE")
}
