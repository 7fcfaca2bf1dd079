// Command secretpeer is gitleaks as a program of two uses. -rules prints its rule data in the form that
// internal/secret embeds; without it, the named files are scanned by gitleaks itself, plain, as the peer that
// `make bench` measures internal/secret against.
//
// It is a module of its own, so that none of the library's dependencies come near the product.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/zricethezav/gitleaks/v8/config"
	"github.com/zricethezav/gitleaks/v8/detect"
	"github.com/zricethezav/gitleaks/v8/regexp"
)

const version = "v8.30.1"

func main() {
	rules := flag.Bool("rules", false, "print the rule data")
	depth := flag.Int("depth", 0, "how often encoded text is decoded")
	flag.Parse()
	if err := run(*rules, *depth, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "secretpeer:", err)
		os.Exit(1)
	}
}

func run(rules bool, depth int, files []string) error {
	began := time.Now()
	d, err := detect.NewDetectorDefaultConfig()
	if err != nil {
		return err
	}
	if rules {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", " ")
		e.SetEscapeHTML(false)
		return e.Encode(export(d.Config))
	}
	ready := time.Since(began)
	d.MaxDecodeDepth, d.IgnoreGitleaksAllow = depth, true
	var out struct {
		Ready, Seconds float64
		Bytes, Found   int
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		began := time.Now()
		out.Found += len(d.DetectBytes(b))
		out.Seconds += time.Since(began).Seconds()
		out.Bytes += len(b)
	}
	out.Ready = ready.Seconds()
	return json.NewEncoder(os.Stdout).Encode(out)
}

// data is what internal/secret reads.
type data struct {
	Source string  `json:"source"`
	Rules  []rule  `json:"rules"`
	Allow  []allow `json:"allow"` // for every rule
}

type rule struct {
	ID       string   `json:"id"`
	Regex    string   `json:"regex"`
	Group    int      `json:"group,omitempty"`
	Entropy  float64  `json:"entropy,omitempty"`
	Path     string   `json:"path,omitempty"`
	Keywords []string `json:"keywords"`
	Allow    []allow  `json:"allow,omitempty"`
}

type allow struct {
	All     bool     `json:"all,omitempty"`    // every criterion, not one
	Target  string   `json:"target,omitempty"` // of regexes: match, line; empty: the value
	Regexes []string `json:"regexes,omitempty"`
	Words   []string `json:"words,omitempty"`
	Paths   []string `json:"paths,omitempty"`
}

// own are formats that internal/secret has a table of its own for.
var own = []string{"jwt", "jwt-base64", "private-key", "aws-access-token", "github-pat", "github-app-token", "github-oauth", "github-refresh-token", "github-fine-grained-pat"}

func export(c config.Config) data {
	out := data{Source: "github.com/gitleaks/gitleaks " + version + ", config/gitleaks.toml"}
	for _, r := range c.Rules {
		if r.Regex == nil || len(r.Keywords) == 0 || slices.Contains(own, r.RuleID) {
			continue
		}
		out.Rules = append(out.Rules, rule{r.RuleID, r.Regex.String(), r.SecretGroup, r.Entropy, text(r.Path), r.Keywords, allows(r.Allowlists)})
	}
	slices.SortFunc(out.Rules, func(a, b rule) int { return slices.Compare([]string{a.ID}, []string{b.ID}) })
	out.Allow = allows(c.Allowlists)
	return out
}

func allows(in []*config.Allowlist) []allow {
	var out []allow
	for _, a := range in {
		out = append(out, allow{a.MatchCondition == config.AllowlistMatchAnd, a.RegexTarget, texts(a.Regexes), a.StopWords, texts(a.Paths)})
	}
	return out
}

func text(r *regexp.Regexp) string {
	if r == nil {
		return ""
	}
	return r.String()
}

func texts(in []*regexp.Regexp) []string {
	var out []string
	for _, r := range in {
		out = append(out, r.String())
	}
	return out
}
