package inspect

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"sallyport.dev/sallyport"
)

// origins are the places that a file names as sources of dependencies: "host", or "host/owner/name" where it
// is a repository of source code.
type origins map[string]origin

type origin struct{ plain bool } // fetched without encryption

// urlEnd ends a URL in every format that is read here.
const urlEnd = " \t\r\n\"'`<>()[]{},;\\|#"

// urlsIn adds every URL in text.
func (o origins) urlsIn(text string) {
	for from := 0; ; {
		at := strings.Index(text[from:], "://")
		if at < 0 {
			return
		}
		at += from
		start := at
		for start > from && schemeByte(text[start-1]) {
			start--
		}
		rest := text[at+3:]
		if end := strings.IndexAny(rest, urlEnd); end >= 0 {
			rest = rest[:end]
		}
		o.add(strings.ToLower(text[start:at]), rest)
		from = at + 3
	}
}

func schemeByte(c byte) bool { return alnum(c) || c == '+' || c == '.' || c == '-' }

func (o origins) add(scheme, rest string) {
	if scheme == "" || rest == "" {
		return
	}
	host, path, _ := strings.Cut(rest, "/")
	host = strings.ToLower(host[strings.LastIndexByte(host, '@')+1:])
	last := scheme[strings.LastIndexByte(scheme, '+')+1:]
	if strings.Contains(scheme, "git") || strings.Contains(scheme, "ssh") || strings.Contains(path, ".git") || strings.Contains(path, "/tarball/") || strings.Contains(path, "/archive/") || strings.Contains(path, "/tar.gz/") {
		owner, name, _ := strings.Cut(path, "/")
		name, _, _ = strings.Cut(name, "/")
		name, _, _ = strings.Cut(name, "?")
		name, _, _ = strings.Cut(name, "@")
		host += "/" + owner + "/" + strings.TrimSuffix(name, ".git")
	}
	if host != "" {
		o[host] = origin{plain: last == "http" || last == "git" || last == "ftp"}
	}
}

// sourceNames are the files in which a URL is a place to fetch from.
var sourceNames = kind{names: []string{
	".npmrc", ".yarnrc", ".yarnrc.yml", "bunfig.toml", "pip.conf", "pip.ini", ".pypirc", ".condarc", "uv.toml", "nuget.config", "gemfile", ".gemrc", "podfile", "cartfile",
	"build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts", "init.gradle", "init.gradle.kts", "gradle-wrapper.properties", "maven-wrapper.properties", "build.sbt",
	"yarn.lock", "pnpm-lock.yaml", "bun.lock", "deno.lock", "cargo.lock", "poetry.lock", "uv.lock", "pdm.lock", "pylock*.toml", "pipfile", "conda-lock.yml", "environment.yml", "environment.yaml", "pixi.lock",
	"requirements*.txt", "requirements*.in", "constraints*.txt", "gemfile.lock", "mix.lock", "mix.exs", "pubspec.lock", "podfile.lock", "cartfile.resolved", "package.resolved", "package.swift", "paket.lock", "flake.lock", "flake.nix",
	".terraform.lock.hcl", "module.bazel", "workspace", "workspace.bazel", "conanfile.txt", "deno.json", "deno.jsonc", "build.zig.zon",
}, folders: []string{"requirements"}, paths: []string{".cargo/config", ".cargo/config.toml", ".mvn/settings.xml", ".bundle/config"}}.index()

// configKind are the files that steer package managers.
var configKind = kind{rule: "deps.config", message: "the change edits where a package manager fetches from, or how", names: []string{
	".npmrc", ".yarnrc", ".yarnrc.yml", "bunfig.toml", "pip.conf", "pip.ini", ".pypirc", ".condarc", "uv.toml", "nuget.config", ".gemrc", "init.gradle", "init.gradle.kts"},
	paths: []string{".mvn/settings.xml", ".bundle/config"}}

// loose are the settings that take verification away, without blanks and quotes, in lower case.
var loose = []string{"strict-ssl=false", "strict-sslfalse", "strictssl:false", "enablestrictssl:false", "trusted-host", "verify_ssl=false", "ssl_verify:false", "sslverify=false", "ssl_verify_mode:0",
	"insecure=true", "allow-insecure", "allowinsecureprotocol=true", "isallowinsecureprotocol=true", "unsafehttpwhitelist:", "allowinsecureconnections=true", "gosumdb=off", "goinsecure=", "gonosumdb=", "gonosumcheck=", "goflags=-insecure", "node_tls_reject_unauthorized=0", "ignore-scripts=false", "enablescripts:true", "checksumbehavior:ignore", "checksumbehavior:update", "no-verify=true", "--no-check-certificate"}

// sources reports places that the base's version of the file does not name.
func (i *inspection) sources(c sallyport.Change, at place, now, before []byte) {
	a, b := originsOf(at, now), originsOf(at, before)
	var fresh, plain []string
	for _, host := range slices.Sorted(maps.Keys(a)) {
		old, known := b[host]
		if !known {
			fresh = append(fresh, host)
		}
		if a[host].plain && !(known && old.plain) {
			plain = append(plain, host)
		}
	}
	if len(fresh) > 0 {
		i.found.add("deps.source", c.Path, "dependencies come from a place that the base's version does not name: "+quoted(fresh))
	}
	if len(plain) > 0 {
		i.found.add("deps.insecure", c.Path, "dependencies are fetched without encryption from "+quoted(plain))
	}
	if sourceNames.holds(at) {
		i.loosened(c, now, before)
	}
}

// loosened reports the first added line that takes verification away.
func (i *inspection) loosened(c sallyport.Change, now, before []byte) {
	addedLines(now, lineSet(before), func(n int, line []byte) bool {
		if len(line) > 300 {
			return true
		}
		text := bare(line)
		if slices.ContainsFunc(loose, func(s string) bool { return strings.Contains(text, s) }) {
			i.found.add("deps.insecure", c.Path, lineWord(n)+": verification of what is fetched is turned off, or scripts are turned on")
			return false
		}
		return true
	})
}

var bareLine = strings.NewReplacer(" ", "", "\t", "", `"`, "", "'", "", "\r", "")

func bare(line []byte) string {
	if t := bytes.TrimSpace(line); len(t) == 0 || t[0] == '#' || bytes.HasPrefix(t, []byte("//")) {
		return ""
	}
	return strings.ToLower(bareLine.Replace(string(line)))
}

// originsOf reads the origins of a file by its kind; none where URLs mean something else.
func originsOf(at place, b []byte) origins {
	o := origins{}
	if len(b) == 0 {
		return o
	}
	switch at.name {
	case "package-lock.json", "npm-shrinkwrap.json", "composer.lock", "composer.json", "pipfile.lock", "packages.lock.json":
		var v any
		if json.Unmarshal(bytes.TrimPrefix(b, []byte("\ufeff")), &v) != nil {
			o.urlsIn(string(b))
		} else {
			o.json("", "", v)
		}
	case "package.json":
		o.packageJSON(b)
	case "pyproject.toml", "cargo.toml":
		o.toml(b)
	default:
		if sourceNames.holds(at) {
			o.urlsIn(string(b))
		}
	}
	return o
}

// json walks a lock file: the keys that name sources, and a "url" where it belongs to one.
func (o origins) json(parent, key string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			o.json(key, k, x)
		}
	case []any:
		for _, x := range v {
			o.json(parent, key, x)
		}
	case string:
		switch key {
		case "resolved", "tarball", "registry", "version":
			o.urlsIn(v)
		case "url":
			if slices.Contains([]string{"source", "sources", "dist", "repositories"}, parent) {
				o.urlsIn(v)
			}
		}
	}
}

// dependencyKeys are the objects of a package.json that map a name to where it comes from.
var dependencyKeys = []string{"dependencies", "devDependencies", "optionalDependencies", "peerDependencies", "overrides", "resolutions"}

// packageJSON adds what is no plain range of versions: a URL, a repository, another name, a folder.
func (o origins) packageJSON(b []byte) {
	var file map[string]any
	if json.Unmarshal(bytes.TrimPrefix(b, []byte("\ufeff")), &file) != nil {
		return // reported where its scripts are read
	}
	for _, k := range dependencyKeys {
		o.specs(file[k])
	}
	if pnpm, ok := file["pnpm"].(map[string]any); ok {
		o.specs(pnpm["overrides"])
	}
}

func (o origins) specs(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, x := range v {
			o.specs(x)
		}
	case string:
		kind, rest, named := strings.Cut(v, ":")
		switch {
		case strings.Contains(v, "://"):
			o.urlsIn(v)
		case named && slices.Contains([]string{"npm", "file", "link", "portal", "github", "gitlab", "bitbucket", "gist"}, strings.ToLower(kind)):
			rest, _, _ = strings.Cut(rest, "#")
			if kind == "npm" {
				rest = rest[:max(strings.LastIndexByte(rest, '@'), 0)]
			}
			o[kind+":"+rest] = origin{}
		case named && strings.Contains(kind, "@"):
			o["ssh:"+v] = origin{}
		case strings.Contains(v, "/") && !strings.HasPrefix(v, "@") && !named:
			o["github:"+strings.SplitN(v, "#", 2)[0]] = origin{} // "owner/name"
		}
	}
}

// toml adds the URLs of lines that say where a dependency comes from, and of tables that do so as a whole.
func (o origins) toml(b []byte) {
	in := false
	for line := range strings.SplitSeq(string(b), "\n") {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		if strings.HasPrefix(line, "[") && !strings.Contains(line, "=") {
			head := strings.ReplaceAll(strings.Trim(line, "[] \r"), " ", "")
			in = slices.ContainsFunc([]string{"source", "sources", "index", "registries", "patch", "replace"}, func(s string) bool {
				return head == s || strings.HasPrefix(head, s+".") || strings.HasSuffix(head, "."+s) || strings.Contains(head, "."+s+".")
			})
		}
		key, _, _ := strings.Cut(line, "=")
		inline := strings.Contains(line, "git =") || strings.Contains(line, "git=") || strings.Contains(line, "@ git+") || strings.Contains(line, "@ http") || strings.TrimSpace(key) == "git"
		if in || inline {
			o.urlsIn(line)
		}
	}
}
