package inspect

import (
	"net/url"
	"slices"
	"strings"
	"unicode"

	"sallyport.dev/sallyport"
)

// submodules judges a .gitmodules by what git would read in it.
func (i *inspection) submodules(c sallyport.Change, now, before []byte) {
	list, bad := parseConfig(now)
	if bad > 0 {
		i.found.add("submodule.unsafe", c.Path, "git cannot read the file: "+lineWord(bad)+" is not in its configuration format")
	}
	old, _ := parseConfig(before)
	known := map[string]bool{}
	for _, s := range old {
		known[s.full+"\x00"+s.value] = true
	}
	said := map[string]bool{}
	unsafe := func(why string) {
		if why != "" && !said[why] {
			said[why] = true
			i.found.add("submodule.unsafe", c.Path, why)
		}
	}
	var names, urls []string
	for _, s := range list {
		section, name, key, named := s.split()
		if section != "submodule" || !named {
			continue
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
			unsafe(badSubmoduleName(name))
		}
		switch key {
		case "path":
			unsafe(badSubmodulePath(s.value))
		case "url":
			unsafe(badSubmoduleURL(s.value))
			if !known[s.full+"\x00"+s.value] {
				urls = append(urls, name)
			}
		case "update":
			if strings.HasPrefix(s.value, "!") {
				unsafe("a submodule is updated by a command of its own")
			}
		}
	}
	if nestedNames(names) {
		unsafe("two submodules' names lie within each other or differ only in case, so one's git folder lies in the other's")
	}
	if len(urls) > 0 {
		i.found.add("submodule.url", c.Path, "the change sets another URL for "+quoted(urls))
	}
}

func badSubmoduleName(name string) string {
	switch {
	case name == "":
		return "a submodule has no name"
	case strings.ContainsFunc(name, unicode.IsControl):
		return "a submodule's name contains a control character"
	case strings.HasPrefix(name, "/") || slices.Contains(strings.FieldsFunc(name, slash), ".."):
		return "a submodule's name climbs out of git's folder for submodules"
	}
	return ""
}

func badSubmodulePath(path string) string {
	parts := strings.FieldsFunc(path, slash)
	switch {
	case path == "" || strings.ContainsFunc(path, unicode.IsControl):
		return "a submodule's path is empty or contains a control character"
	case strings.HasPrefix(path, "-"):
		return "a submodule's path begins with a dash, which git takes for an option"
	case slash(rune(path[0])) || len(path) > 1 && path[1] == ':' || slices.Contains(parts, ".."):
		return "a submodule's path leaves the repository"
	case slices.ContainsFunc(parts, gitLike):
		return "a submodule's path lies in .git"
	}
	return ""
}

// badSubmoduleURL refuses what is no place on a network: git would read an option or run a program, or fetch
// from the machine that it runs on.
func badSubmoduleURL(u string) string {
	decoded, err := url.PathUnescape(u)
	if err != nil {
		decoded = u
	}
	switch {
	case u == "" || strings.ContainsFunc(u, unicode.IsControl) || strings.ContainsFunc(decoded, unicode.IsControl):
		return "a submodule's URL is empty or contains a control character"
	case strings.HasPrefix(decoded, "-"):
		return "a submodule's URL begins with a dash, which git takes for an option"
	}
	scheme, rest, ok := strings.Cut(u, "://")
	helper, _, named := strings.Cut(u, "::")
	switch {
	case named && !strings.ContainsAny(helper, "/:@["):
		return "a submodule's URL names a program that git starts"
	case !ok:
		return badShortURL(u)
	}
	switch strings.ToLower(scheme) {
	case "https", "http", "ssh", "git", "git+ssh", "ssh+git":
	case "file":
		return "a submodule's URL names a folder of the machine"
	default:
		return "a submodule's URL has a scheme that git gives to a helper program"
	}
	host, _, _ := strings.Cut(rest, "/")
	if _, after, user := strings.Cut(host, "@"); user {
		host = after
	}
	if decoded, err := url.PathUnescape(host); err != nil || strings.HasPrefix(decoded, "-") {
		return "a submodule's URL has a host that begins with a dash, which ssh takes for an option"
	}
	return ""
}

// badShortURL judges a URL without a scheme: "host:path", a relative one, or a folder.
func badShortURL(u string) string {
	if strings.HasPrefix(u, "./") || strings.HasPrefix(u, "../") {
		// Relative to where the repository itself comes from. More than up and then a name can leave the host.
		if rest := strings.TrimLeft(u, "./"); strings.HasPrefix(rest, ":") || strings.Contains(rest, "://") {
			return "a submodule's relative URL leaves its host"
		}
		return ""
	}
	host, _, remote := strings.Cut(u, ":")
	if !remote || strings.ContainsAny(host, `/\`) || len(host) == 1 {
		return "a submodule's URL names a folder of the machine"
	}
	if _, after, user := strings.Cut(host, "@"); user {
		host = after
	}
	if strings.HasPrefix(host, "-") {
		return "a submodule's URL has a host that begins with a dash, which ssh takes for an option"
	}
	return ""
}

// nestedNames reports two names of which one is the other's folder, or which are one on some file system.
func nestedNames(names []string) bool {
	seen := map[string]bool{}
	for _, n := range names {
		if f := fold(n); seen[f] {
			return true
		} else {
			seen[f] = true
		}
	}
	for f := range seen {
		for at, c := range f {
			if c == '/' && seen[f[:at]] {
				return true
			}
		}
	}
	return false
}

func slash(r rune) bool { return r == '/' || r == '\\' }
