package fault

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// Words make of a path the kind of file that it is: folders of one world get a name, ids and numbers a placeholder.
type Words struct {
	Roots []Root // the first that holds a path counts
}

// Root is a folder with a name.
type Root struct{ Path, Name string }

var placeholders = []struct {
	of *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`/objects/(pack|info|[0-9a-f]{2})(/.*)?$`), "/objects/…"},
	{regexp.MustCompile(`\b([a-z]{2,5})_[0-9a-z]{20,}`), "${1}_ID"},
	{regexp.MustCompile(`\b[0-9a-hjkmnp-tv-z]{20,}\b`), "ID"},
	{regexp.MustCompile(`\b[0-9a-f]{8,}\b`), "N"},
	{regexp.MustCompile(`[0-9]{3,}`), "N"},
	{regexp.MustCompile(`(\.tmp|\.json|-)[0-9]+\b`), "${1}N"},
}

func (w *Words) path(p string) string {
	p = strings.TrimSuffix(filepath.Clean(p), " (deleted)")
	name := ""
	for _, r := range w.Roots {
		if rest, ok := strings.CutPrefix(p, r.Path); ok && (rest == "" || rest[0] == '/') {
			name, p = r.Name, rest
			break
		}
	}
	if name == "" {
		switch {
		case strings.HasPrefix(p, "/memfd:"):
			return ""
		case strings.HasPrefix(p, "/sys/fs/cgroup"):
			return "cgroup: " + cgroup(filepath.Base(p))
		case strings.HasPrefix(p, "/proc/"):
			return "/proc/…/" + placed(numbers.ReplaceAllString(filepath.Base(p), "N"))
		case strings.HasPrefix(p, "/dev/null"):
			return ""
		}
		return "elsewhere" // a sandbox's own root, and what is shown in it
	}
	p = name + placed(p)
	for _, f := range folded {
		p = f.of.ReplaceAllString(p, f.as)
	}
	return p
}

var numbers = regexp.MustCompile(`^[0-9]+$`)

// folded are folders with many files of one kind.
var folded = []struct {
	of *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`^(state/local/allocations/[^/]*/data)/.*`), "$1/…"},
	{regexp.MustCompile(`^(state/local/trial-[^/]*)/.*`), "$1/…"},
	{regexp.MustCompile(`^(state/attempts/[^/]*/layers)/.*`), "$1/…"},
	{regexp.MustCompile(`^(state/repos/[^/]*/[^/]*/building)/.*`), "$1/…"},
	{regexp.MustCompile(`^(state/repos/[^/]*/[^/]*/(cache/)?new-[^/]*)/.*`), "$1/…"},
	{regexp.MustCompile(`^(state/repos/[^/]*/[^/]*/cache/)[a-z]+-.*\.[0-9]+(/.*)?$`), "${1}NAME"},
	{regexp.MustCompile(`^(repo|home)/.*`), "$1/…"},
}

// cgroup leaves out which hierarchy it is.
func cgroup(name string) string {
	if strings.Contains(name, "_") || strings.Contains(name, "-") || name == "sallyport" {
		return placed(name)
	}
	if strings.Contains(name, ".") || name == "tasks" {
		return name
	}
	return "…"
}

func placed(p string) string {
	for _, r := range placeholders {
		p = r.of.ReplaceAllString(p, r.as)
	}
	return p
}

// open is of what a descriptor is open for; "": nothing that anybody else sees.
func (w *Words) open(to string) string {
	switch {
	case strings.HasPrefix(to, "/"):
		return w.path(to)
	case strings.HasPrefix(to, "socket:"):
		return "a socket"
	case strings.HasPrefix(to, "pipe:"):
		return "a pipe"
	}
	return "" // events, timers, handles of the kernel's
}

// address is where a socket is bound or connected to.
func (w *Words) address(b []byte) string {
	if len(b) < 2 {
		return ""
	}
	switch family := binary.NativeEndian.Uint16(b); family {
	case 1:
		path, _, _ := strings.Cut(string(b[2:]), "\x00")
		if path == "" {
			return "unix: without a path"
		}
		return "unix: " + w.path(path)
	case 2, 10:
		return "a network address"
	case 16:
		return "netlink"
	default:
		return fmt.Sprintf("family %d", family)
	}
}

// ofDatabase: what SQLite does to its files is done with the flush that makes it durable, which is a point.
func ofDatabase(call, on, by string) bool {
	return database.MatchString(on) && call != "fsync" && (call != "create" || !strings.Contains(by, "prepareFile"))
}

var database = regexp.MustCompile(`\.db(-wal|-shm|-journal)?$`)
