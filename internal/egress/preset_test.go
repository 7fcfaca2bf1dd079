package egress

import (
	"slices"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
)

// presetNeeds are requests of real clients, one a line: [METHOD] URL. A preset must allow each of its own, and hold
// nothing that none of them needs.
var presetNeeds = map[string]string{
	"anthropic": `
POST https://api.anthropic.com/v1/messages?beta=true
POST https://api.anthropic.com/v1/messages/count_tokens`,
	"openai": `
POST https://api.openai.com/v1/responses
POST https://api.openai.com/v1/chat/completions`,
	"google": `
POST https://generativelanguage.googleapis.com/v1/models/gemini-2.5-pro:generateContent
POST https://generativelanguage.googleapis.com/v1/models/gemini-2.5-pro:streamGenerateContent?alt=sse
POST https://generativelanguage.googleapis.com/v1/models/gemini-2.5-pro:countTokens
POST https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-pro:generateContent
POST https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse
POST https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-pro:countTokens`,
	"npm": `
GET https://registry.npmjs.org/lodash
GET https://registry.npmjs.org/@babel%2fcore
GET https://registry.npmjs.org/@babel/core
GET https://registry.npmjs.org/lodash/-/lodash-4.17.21.tgz
GET https://registry.npmjs.org/@babel/core/-/core-7.28.0.tgz`,
	"go": `
GET https://proxy.golang.org/golang.org/x/net/@v/list
GET https://proxy.golang.org/golang.org/x/net/@v/v0.1.0.info
GET https://proxy.golang.org/github.com/!burnt!sushi/toml/@v/v1.5.0.mod
GET https://proxy.golang.org/golang.org/toolchain/@v/v0.0.1-go1.26.8.linux-amd64.zip
GET https://proxy.golang.org/golang.org/x/net/@latest
GET https://proxy.golang.org/sumdb/sum.golang.org/supported
GET https://proxy.golang.org/sumdb/sum.golang.org/latest
GET https://proxy.golang.org/sumdb/sum.golang.org/lookup/golang.org/x/net@v0.1.0
GET https://proxy.golang.org/sumdb/sum.golang.org/tile/8/0/x123/456.p/7
GET https://sum.golang.org/latest
GET https://sum.golang.org/lookup/golang.org/x/net@v0.1.0
GET https://sum.golang.org/tile/8/data/x001/234`,
	"pypi": `
GET https://pypi.org/simple/requests/
GET https://files.pythonhosted.org/packages/ba/bb/dfa0141a/requests-0.2.0-py3-none-any.whl.metadata`,
	"cargo": `
GET https://index.crates.io/config.json
GET https://index.crates.io/1/a
GET https://index.crates.io/2/cc
GET https://index.crates.io/3/l/log
GET https://index.crates.io/se/rd/serde
GET https://static.crates.io/crates/serde/1.0.0/download`,
	"debian": `
GET http://deb.debian.org/debian/dists/bookworm/InRelease
GET http://deb.debian.org/debian/pool/main/g/git/git_2.39.5-0+deb12u2_amd64.deb
GET http://deb.debian.org/debian-security/dists/bookworm-security/InRelease
GET http://deb.debian.org/debian-security/pool/updates/main/g/git/git_2.39.5-0+deb12u2_amd64.deb
GET https://deb.debian.org/debian/dists/bookworm/InRelease
GET https://deb.debian.org/debian/pool/main/g/git/git_2.39.5-0%2bdeb12u2_amd64.deb
GET https://deb.debian.org/debian-security/dists/bookworm-security/InRelease
GET https://deb.debian.org/debian-security/pool/updates/main/g/git/git_2.39.5-0+deb12u2_amd64.deb
GET http://security.debian.org/debian-security/dists/bookworm-security/InRelease
GET http://security.debian.org/debian-security/pool/updates/main/g/git/git_2.39.5-0+deb12u2_amd64.deb`,
	"github-read": `
GET https://github.com/golang/net.git/info/refs?service=git-upload-pack
POST https://github.com/golang/net/git-upload-pack
GET https://github.com/golang/net/archive/refs/tags/v0.1.0.tar.gz
GET https://github.com/cli/cli/releases/download/v2.0.0/gh_2.0.0_linux_amd64.tar.gz
GET https://github.com/golang/net/raw/master/README.md
GET https://codeload.github.com/golang/net/tar.gz/refs/tags/v0.1.0
GET https://release-assets.githubusercontent.com/github-production-release-asset/1/2?sp=r
GET https://objects.githubusercontent.com/github-production-release-asset-2e65be/1/2?X=1
GET https://raw.githubusercontent.com/golang/net/master/README.md
GET https://api.github.com/repos/golang/net/releases/latest`,
}

func request(t *testing.T, line string) Request {
	t.Helper()
	method, url, _ := strings.Cut(line, " ")
	scheme, rest, _ := strings.Cut(url, "://")
	authority, target, _ := strings.Cut(rest, "/")
	path, query, _ := strings.Cut("/"+target, "?")
	std := map[string]uint16{"https": 443, "http": 80}[scheme]
	n, port, err := Authority(authority, std)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return Request{n, port, Protocol(scheme), method, path, query}
}

func TestPresetsAreMinimal(t *testing.T) {
	all := Presets()
	if len(all) != len(presetNeeds) {
		t.Fatalf("%d presets, %d are tested", len(all), len(presetNeeds))
	}
	for _, p := range all {
		var needs []Refusal
		for line := range strings.Lines(strings.TrimSpace(presetNeeds[p.Name])) {
			q := request(t, strings.TrimSpace(line))
			needs = append(needs, Refusal{q, Decide(nil, q).Reason})
		}
		if len(needs) == 0 {
			t.Errorf("%s has no requests", p.Name)
		}
		if missed := unallowed(p.Rules, needs); missed != "" {
			t.Errorf("%s does not allow %s", p.Name, missed)
		}
		for _, less := range smaller(p.Rules) {
			if unallowed(less, needs) == "" {
				t.Errorf("%s: nothing needs more than\n%s", p.Name, lines(less))
			}
		}
	}
}

func TestPresetsAreNarrow(t *testing.T) {
	for _, p := range Presets() {
		if p.About == "" || strings.ContainsAny(p.Name, ".:/") {
			t.Errorf("%q, %q", p.Name, p.About)
		}
		for _, r := range p.Rules {
			if err := Check(r); err != nil {
				t.Errorf("%s: %v", p.Name, err)
			}
			if strings.HasPrefix(r.Host, "*") || slices.Contains(r.Paths, "/**") || slices.Contains(r.Methods, "*") || r.Protocol == TCP || r.OwnAuth {
				t.Errorf("%s lists a whole host: %s", p.Name, Line(r))
			}
		}
		for _, n := range []string{"/", "/-/npm/v1/user", "/login", "/settings/tokens", "/v1/files", "/user", "/gists"} {
			for _, r := range p.Rules {
				for _, m := range []string{"PUT", "DELETE", "PATCH", "WEBSOCKET"} {
					q := Request{host(t, r.Host), r.Port, HTTPS, m, n, ""}
					if Decide(p.Rules, q).Allowed {
						t.Errorf("%s allows %s %s%s", p.Name, m, r.Host, n)
					}
				}
			}
		}
	}
}

func TestPresetByName(t *testing.T) {
	p, err := Preset("npm")
	if err != nil {
		t.Fatal(err)
	}
	p.Rules[0].Paths[0] = "/changed"
	if again, _ := Preset("npm"); again.Rules[0].Paths[0] == "/changed" {
		t.Error("a caller changed the preset for all")
	}
	_, err = Preset("NPM")
	if sallyport.CodeOf(err) != sallyport.CodeNotFound || !strings.Contains(err.Error(), "anthropic, cargo, debian, github-read, go, google, npm, openai, pypi") {
		t.Error(err)
	}
	for _, p := range Presets() {
		if got := rules(t, "- "+p.Name); lines(got) != lines(p.Rules) {
			t.Errorf("the word %s is\n%s", p.Name, lines(got))
		}
	}
}
