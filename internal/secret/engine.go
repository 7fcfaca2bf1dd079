package secret

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/rs/zerolog"
	"github.com/spf13/viper"
	"github.com/zricethezav/gitleaks/v8/config"
	"github.com/zricethezav/gitleaks/v8/detect"
	"github.com/zricethezav/gitleaks/v8/logging"
	"github.com/zricethezav/gitleaks/v8/report"
)

// The rules that a match of the library's is reported as.
const (
	RuleFormat   = "secret.known-format" // the value itself has a service's form
	RuleAssigned = "secret.assigned"     // only the name beside it says that the value is a credential
)

// engine is the library with its rules and ours. A scan leaves nothing in it. Safe for concurrent use.
type engine struct {
	all    *detect.Detector
	own    *detect.Detector // ours alone: for lines that may not belong together
	reason map[string]reported
}

// reported is what a rule's match is called.
type reported struct{ rule, kind, prefix string }

// loaded is made at the first scan: a program that scans nothing pays nothing.
var loaded = sync.OnceValues(func() (*engine, error) {
	// The library logs to the terminal, debugging words with the credential in them.
	logging.Logger = zerolog.Nop()
	c, err := libraryRules()
	if err != nil {
		return nil, fmt.Errorf("secret: gitleaks' rules: %w", err)
	}
	e := &engine{reason: map[string]reported{}}
	for id, r := range c.Rules {
		if r.Regex == nil || public(id) || slices.Contains(replaced, id) {
			delete(c.Rules, id)
			continue
		}
		e.reason[id] = reported{judge(r), strings.ReplaceAll(id, "-", " "), ""}
	}
	own := config.Config{Rules: map[string]config.Rule{}, Keywords: map[string]struct{}{}}
	for _, r := range ownRules() {
		if err := r.Validate(); err != nil {
			return nil, fmt.Errorf("secret: own rule: %w", err)
		}
		rule, prefix, _ := strings.Cut(r.RuleID, " ")
		e.reason[r.RuleID] = reported{rule, strings.ReplaceAll(strings.TrimPrefix(rule, "secret."), "-", " "), prefix}
		for _, into := range []config.Config{c, own} {
			into.Rules[r.RuleID] = r
			for _, k := range r.Keywords {
				into.Keywords[k] = struct{}{}
			}
		}
	}
	e.all, e.own = detect.NewDetector(c), detect.NewDetector(own)
	for _, d := range []*detect.Detector{e.all, e.own} {
		d.IgnoreGitleaksAllow = true // the comment is written by who would hide something
	}
	return e, nil
})

// The library's rules want a value to be followed by a quote, a blank or a semicolon, and nothing of a word
// before it. In `f(TOKEN)`, `a: TOKEN, b`, `see TOKEN.` and "\nTOKEN" other characters stand there.
const (
	libraryEnd = `(?:[\x60'"\s;]|\\[nr]|$)`
	widerEnd   = `(?:[\x60'"\s;,)\]}>&]|[.:?](?:\s|$)|\\[nrt"']|$)`
)

var wider = strings.NewReplacer(libraryEnd, widerEnd, `'''\b`, `'''`+before, `'''(?i)\b`, `'''(?i)`+before)

// libraryRules reads what the library embeds, with a reader of its own: the library's uses a global one. What
// it allows because of a path is left out: the path is chosen by who would hide something.
func libraryRules() (config.Config, error) {
	v := viper.New()
	v.SetConfigType("toml")
	if err := v.ReadConfig(strings.NewReader(wider.Replace(config.DefaultConfig))); err != nil {
		return config.Config{}, err
	}
	var raw config.ViperConfig
	if err := v.Unmarshal(&raw); err != nil {
		return config.Config{}, err
	}
	if raw.AllowList != nil {
		raw.AllowList.Paths = nil
	}
	for i := range raw.Allowlists {
		raw.Allowlists[i].Paths = nil
	}
	c, err := raw.Translate()
	for id, r := range c.Rules {
		r.Allowlists = slices.DeleteFunc(r.Allowlists, func(a *config.Allowlist) bool { return len(a.Paths) > 0 })
		r.Allowlists = append(r.Allowlists, c.Allowlists...) // for the library's rules only
		c.Rules[id] = r
	}
	c.Allowlists = nil
	return c, err
}

// public reports a rule about what is no secret.
func public(id string) bool {
	return strings.HasSuffix(id, "-client-id") || strings.Contains(id, "-pub-") || strings.Contains(id, "public-key") || strings.HasSuffix(id, "-access-id") || id == "new-relic-user-api-id"
}

// replaced are the library's rules about what ours are about: they say it with another severity, take a token's
// beginning in the middle of a word, or read on to the end of a key.
var replaced = strings.Fields("jwt jwt-base64 private-key aws-access-token github-pat github-app-token github-oauth github-refresh-token github-fine-grained-pat")

// loose are rules whose match is a name and a value, or has a form that other things have too: 32 or 40
// hexadecimal digits, two numbers.
var loose = strings.Fields("curl-auth-header curl-auth-user kubernetes-secret-yaml nuget-config-password freemius-secret-key sidekiq-sensitive-url " +
	"sourcegraph-access-token facebook-access-token twilio-api-key hashicorp-tf-password clickhouse-cloud-api-secret-key")

// nameBefore is how the library spells "any name with one of these words".
const nameBefore = `[\w.-]{0,50}?`

func judge(r config.Rule) string {
	if slices.Contains(loose, r.RuleID) || strings.Contains(r.Regex.String(), nameBefore) {
		return RuleAssigned
	}
	return RuleFormat
}

// lockFile are files full of random values beside words like "key" and "auth".
var lockFile = lazily(`(?:^|/)(?:go\.(?:sum|work\.sum)|deno\.lock|npm-shrinkwrap\.json|package-lock\.json|pnpm-lock\.yaml|bun\.lock|yarn\.lock|Cargo\.lock|Gemfile\.lock|composer\.lock|Pipfile\.lock|poetry\.lock|uv\.lock|gradle\.lockfile)$`)

// found is a credential in a piece of text.
type found struct {
	reported
	start, end int
}

// find has d look at one piece. A panic of the library's is an error: the piece was not searched.
func (e *engine) find(ctx context.Context, d *detect.Detector, path, piece string) (list []found, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("secret: the library panicked: %T", r)
		}
	}()
	for _, f := range d.DetectContext(ctx, detect.Fragment{Raw: piece, FilePath: path}) {
		r := e.reason[f.RuleID]
		if sample(strings.TrimPrefix(f.Secret, r.prefix)) || r.rule == RuleAssigned && lockFile().MatchString(path) {
			continue
		}
		start := place(piece, f)
		list = append(list, found{r, start, start + len(f.Secret)})
	}
	return list, ctx.Err()
}

// place is where a finding's value begins. The library counts lines from 0, and a column from the line end before it.
func place(piece string, f report.Finding) int {
	at := 0
	for n := range f.StartLine {
		i := strings.IndexByte(piece[at:], '\n')
		if i < 0 {
			break
		}
		if at += i; n+1 < f.StartLine {
			at++
		}
	}
	at = min(at+max(f.StartColumn-1, 0), len(piece))
	if i := strings.Index(piece[at:], f.Secret); i >= 0 {
		at += i
	}
	return min(at, len(piece)-len(f.Secret))
}

// lazily compiles an expression at its first use.
func lazily(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}
