package inspect

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"sallyport.dev/sallyport"
)

// manifests looks into the files of dependencies whose danger is one line and not the file.
func (i *inspection) manifests(c sallyport.Change, now, before []byte) {
	at := placeOf(c.Path)
	i.sources(c, at, now, before)
	i.pinned(c, at, now, before)
	switch at.name {
	case "package.json":
		i.packageJSON(c, now, before)
	case "go.mod", "go.work":
		i.replaced(c, replaces(now), replaces(before))
	case "cargo.toml":
		if !sameLines(sections(now, "[patch", "[replace"), sections(before, "[patch", "[replace")) {
			i.found.add("runner.replace", c.Path, "the change edits [patch] or [replace]: a dependency comes from elsewhere")
		}
	}
}

// replaced reports replace directives of a go.mod that the base's does not have, by where they lead.
func (i *inspection) replaced(c sallyport.Change, now, before []string) {
	if sameLines(now, before) {
		return
	}
	where := "the change removes a replace directive"
	for _, r := range now {
		if slices.Contains(before, r) {
			continue
		}
		_, target, _ := strings.Cut(r, "=>")
		if target = strings.Trim(strings.TrimSpace(target), "\"`"); strings.HasPrefix(target, ".") || strings.HasPrefix(target, "/") {
			where = "the change edits replace directives: a dependency comes from a folder"
			break
		}
		where = "the change edits replace directives: a dependency comes from another module"
	}
	i.found.add("runner.replace", c.Path, where)
}

// packageJSON reports scripts that npm runs by itself. A file that cannot be read as npm reads it is reported
// as well.
func (i *inspection) packageJSON(c sallyport.Change, now, before []byte) {
	a, okNow := scriptsOf(now)
	b, _ := scriptsOf(before)
	if !okNow {
		i.found.add("runner.script", c.Path, "the file is not readable as JSON, so its scripts are not known")
		return
	}
	for _, name := range lifecycle {
		if a[name] != b[name] {
			i.found.add("runner.script", c.Path, "the change edits the script "+name+", which npm runs without being asked")
		}
	}
}

// scriptsOf reads scripts as JavaScript does: names are exact and the last of two equal ones counts. A struct
// would match "SCRIPTS" as well, and so let a second object speak for the first.
func scriptsOf(b []byte) (map[string]string, bool) {
	if len(bytes.TrimSpace(b)) == 0 {
		return nil, true
	}
	var file, scripts map[string]json.RawMessage
	if json.Unmarshal(bytes.TrimPrefix(b, []byte("\ufeff")), &file) != nil {
		return nil, false
	}
	raw, ok := file["scripts"]
	if !ok {
		return nil, true
	}
	if json.Unmarshal(raw, &scripts) != nil {
		return nil, false
	}
	out := map[string]string{}
	for k, v := range scripts {
		var s string
		if json.Unmarshal(v, &s) != nil {
			return nil, false
		}
		out[k] = s
	}
	return out, true
}

// replaces are the replace directives of a go.mod, block form included, without comments and blank space.
func replaces(b []byte) []string {
	var out []string
	block := false
	for line := range strings.SplitSeq(string(b), "\n") {
		line, _, _ = strings.Cut(line, "//")
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case block && words[0] == ")":
			block = false
		case block:
			out = append(out, strings.Join(words, " "))
		case words[0] == "replace" || strings.HasPrefix(words[0], "replace("):
			if strings.HasSuffix(strings.Join(words, ""), "replace(") {
				block = true
			} else {
				out = append(out, strings.Join(words[1:], " "))
			}
		}
	}
	return out
}

// sections are the lines of a TOML file in tables whose header begins with one of heads.
func sections(b []byte, heads ...string) []string {
	var out []string
	in := false
	for line := range strings.SplitSeq(string(b), "\n") {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			in = false
			for _, h := range heads {
				in = in || strings.HasPrefix(strings.ReplaceAll(line, " ", ""), h)
			}
		}
		if in && line != "" && line[0] != '#' {
			out = append(out, line)
		}
	}
	return out
}

func sameLines(a, b []string) bool { return strings.Join(a, "\n") == strings.Join(b, "\n") }
