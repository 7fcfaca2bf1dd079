package inspect

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/pattern"
)

// pin is one dependency in a lock file.
type pin struct {
	hashes []string // with their algorithm: "sha512-…", "h1:…"
	remote bool     // it comes from a registry, so it should have a hash
	script bool     // it runs a script at installation
}

// pins are a lock file's dependencies by name and version, as the file writes them.
type pins map[string]pin

// pinReaders knows the lock files that name hashes, by plain name.
var pinReaders = map[string]func([]byte) pins{
	"go.sum": goSum, "go.work.sum": goSum, "package-lock.json": npmLock, "npm-shrinkwrap.json": npmLock, "yarn.lock": yarnLock, "pnpm-lock.yaml": pnpmLock,
	"cargo.lock": tomlLock, "poetry.lock": tomlLock, "uv.lock": tomlLock, "pdm.lock": tomlLock,
}

func pinsOf(at place, b []byte) pins {
	if read := pinReaders[at.name]; read != nil {
		return read(b)
	}
	if nameMatch("requirements*.txt", at.name) || nameMatch("constraints*.txt", at.name) {
		return requirements(b)
	}
	return nil
}

// pinned compares the hashes of a lock file with the base's.
func (i *inspection) pinned(c sallyport.Change, at place, now, before []byte) {
	a, b := pinsOf(at, now), pinsOf(at, before)
	anyHash, hadScript := false, map[string]bool{}
	for key, p := range b {
		anyHash = anyHash || len(p.hashes) > 0
		if p.script {
			hadScript[unversioned(key)] = true
		}
	}
	var lost, changed, without, scripts []string
	for key, p := range a {
		old, known := b[key]
		switch {
		case known && len(old.hashes) > 0 && len(p.hashes) == 0:
			lost = append(lost, key)
		case known && len(old.hashes) > 0 && sameAlgorithm(old.hashes, p.hashes) && !overlap(old.hashes, p.hashes):
			changed = append(changed, key)
		case !known && p.remote && len(p.hashes) == 0 && anyHash:
			without = append(without, key)
		}
		if p.script && !hadScript[unversioned(key)] {
			scripts = append(scripts, key)
		}
	}
	for _, f := range []struct {
		rule, what string
		keys       []string
	}{
		{"deps.integrity", "the hash of the same version is another one for ", changed}, {"deps.integrity", "the hash is gone for ", lost}, {"deps.integrity", "there is no hash for ", without},
		{"deps.install-script", "a script runs when these are installed: ", scripts},
	} {
		if slices.Sort(f.keys); len(f.keys) > 0 {
			i.found.add(f.rule, c.Path, f.what+quoted(f.keys))
		}
	}
}

func unversioned(key string) string { return key[:max(strings.LastIndexByte(key, ' '), 0)] }

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(h string) bool { return slices.Contains(b, h) })
}

// sameAlgorithm reports whether both have a hash by the same algorithm; a change of algorithm says nothing.
func sameAlgorithm(a, b []string) bool {
	return slices.ContainsFunc(a, func(h string) bool {
		return slices.ContainsFunc(b, func(g string) bool { return algorithm(g) == algorithm(h) })
	})
}

func algorithm(h string) string { return h[:max(strings.IndexAny(h, "-:"), 0)] }

func goSum(b []byte) pins {
	out := pins{}
	for line := range bytes.SplitSeq(b, []byte{'\n'}) {
		if w := strings.Fields(string(line)); len(w) == 3 {
			key := w[0] + " " + w[1]
			out[key] = pin{hashes: append(out[key].hashes, w[2]), remote: true}
		}
	}
	return out
}

type npmPackage struct {
	Version   string `json:"version"`
	Resolved  any    `json:"resolved"`
	Integrity string `json:"integrity"`
	Script    bool   `json:"hasInstallScript"`
	Link      bool   `json:"link"`
}

// npmOlder is a package of the older form, in which packages lie within each other.
type npmOlder struct {
	npmPackage
	Nested map[string]npmOlder `json:"dependencies"`
}

func npmLock(b []byte) pins {
	out := pins{}
	var file struct {
		Packages     map[string]npmPackage `json:"packages"`
		Dependencies map[string]npmOlder   `json:"dependencies"`
	}
	if json.Unmarshal(bytes.TrimPrefix(b, []byte("\ufeff")), &file) != nil {
		return out // lock.changed says already that it must be written anew
	}
	for name, p := range file.Packages {
		out.npm(name, p)
	}
	for name, p := range file.Dependencies {
		out.npmTree("node_modules/"+name, p)
	}
	return out
}

func (o pins) npm(name string, p npmPackage) {
	resolved, _ := p.Resolved.(string)
	if name == "" || p.Link {
		return
	}
	key := name + " " + p.Version
	x := pin{remote: strings.HasPrefix(resolved, "http"), script: p.Script || o[key].script, hashes: o[key].hashes}
	x.hashes = append(x.hashes, strings.Fields(p.Integrity)...)
	o[key] = x
}

func (o pins) npmTree(name string, p npmOlder) {
	o.npm(name, p.npmPackage)
	for n, x := range p.Nested {
		o.npmTree(name+"/node_modules/"+n, x)
	}
}

var (
	yarnField = pattern.New(`^\s+(version|resolved|integrity|checksum|resolution):?\s+"?([^"\s]+)"?`)
	pnpmField = pattern.New(`integrity:\s*['"]?([^'",}\s]+)`)
	tomlField = pattern.New(`^(name|version|source|checksum)\s*=\s*"?([^"]*)"?`)
	tomlHash  = pattern.New(`hash\s*=\s*"([^"]+)"`)
	pipPin    = pattern.New(`^([A-Za-z0-9._\[\],-]+)\s*==\s*([^\s;\\]+)`)
	pipHash   = pattern.New(`--hash[= ]([a-z0-9]+:[A-Za-z0-9]+)`)
)

func yarnLock(b []byte) pins {
	out := pins{}
	var name, version string
	var p pin
	flush := func() {
		if name != "" {
			out[name+" "+version] = p
		}
		name, version, p = "", "", pin{}
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		line = strings.TrimRight(line, "\r")
		if line == "" || line[0] == '#' {
			continue
		}
		if line[0] != ' ' && line[0] != '\t' {
			flush()
			name = strings.Trim(line, `":`)
			continue
		}
		if m := yarnField.FindStringSubmatch(line); m != nil && len(line)-len(strings.TrimLeft(line, " \t")) == 2 {
			switch m[1] {
			case "version":
				version = m[2]
			case "resolved":
				p.remote = strings.HasPrefix(m[2], "http")
			case "resolution":
				p.remote = strings.Contains(m[2], "@npm:")
			case "integrity":
				p.hashes = append(p.hashes, m[2])
			case "checksum":
				p.hashes = append(p.hashes, "berry:"+m[2])
			}
		}
	}
	flush()
	return out
}

func pnpmLock(b []byte) pins {
	out := pins{}
	name, in := "", false
	for line := range strings.SplitSeq(string(b), "\n") {
		line = strings.TrimRight(line, "\r")
		indent := len(line) - len(strings.TrimLeft(line, " "))
		text := strings.TrimSpace(line)
		switch {
		case text == "" || text[0] == '#':
		case indent == 0:
			in, name = text == "packages:", ""
		case in && indent == 2:
			name = strings.Trim(text, `'":`) + " "
			out[name] = pin{}
		case in && name != "" && strings.HasPrefix(text, "resolution:"):
			p := out[name]
			p.remote = true
			if m := pnpmField.FindStringSubmatch(text); m != nil {
				p.hashes = []string{m[1]}
			}
			out[name] = p
		case in && name != "" && text == "requiresBuild: true":
			p := out[name]
			p.script = true
			out[name] = p
		}
	}
	return out
}

// tomlLock reads the locks of Cargo, Poetry, uv and PDM: tables [[package]] with name, version and hashes.
func tomlLock(b []byte) pins {
	out := pins{}
	var name, version, source string
	var p pin
	flush := func() {
		if name != "" {
			p.remote = strings.Contains(source, "registry")
			out[name+" "+version] = p
		}
		name, version, source, p = "", "", "", pin{}
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[[") {
			flush()
			continue
		}
		if m := tomlField.FindStringSubmatch(line); m != nil {
			switch m[1] {
			case "name":
				name = m[2]
			case "version":
				version = m[2]
			case "source":
				source = line
			case "checksum":
				p.hashes = append(p.hashes, "cargo:"+m[2])
			}
		}
		for _, m := range tomlHash.FindAllStringSubmatch(line, -1) {
			p.hashes = append(p.hashes, m[1])
		}
	}
	flush()
	return out
}

func requirements(b []byte) pins {
	out := pins{}
	name := ""
	for line := range strings.SplitSeq(string(b), "\n") {
		line = strings.TrimSpace(line)
		if m := pipPin.FindStringSubmatch(line); m != nil {
			name = m[1] + " " + m[2]
			out[name] = pin{remote: true}
		}
		if name != "" {
			p := out[name]
			for _, m := range pipHash.FindAllStringSubmatch(line, -1) {
				p.hashes = append(p.hashes, m[1])
			}
			out[name] = p
		}
	}
	return out
}
