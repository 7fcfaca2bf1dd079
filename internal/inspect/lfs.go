package inspect

import (
	"bytes"
	"strconv"
	"strings"

	"sallyport.dev/sallyport"
)

// pointer is a file that Git LFS keeps in place of a large one.
type pointer struct {
	oid  string // SHA-256, lower-case hex
	size int64
}

// maxPointer is the specification's bound.
const maxPointer = 1024

const pointerVersion = "version https://git-lfs.github.com/spec/v1"

// pointerLike reports a file that means to be a pointer, well-formed or not.
func pointerLike(b []byte) bool {
	head := bytes.TrimLeft(bytes.TrimPrefix(b[:min(len(b), maxPointer)], []byte("\ufeff")), " \t\r\n")
	return bytes.HasPrefix(head, []byte("version https://git-lfs")) || bytes.HasPrefix(head, []byte("version https://hawser"))
}

// parsePointer reads a pointer in exactly the form that git-lfs writes: version first, the other keys in
// order and each once, LF after every line. Extensions are allowed by name and not read.
func parsePointer(b []byte) (p pointer, ok bool) {
	if len(b) >= maxPointer || !bytes.HasSuffix(b, []byte{'\n'}) {
		return p, false
	}
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	if lines[0] != pointerVersion {
		return p, false
	}
	last, seen := "", 0
	for _, line := range lines[1:] {
		key, value, cut := strings.Cut(line, " ")
		if !cut || key <= last || value == "" || strings.ContainsAny(value, " \r\t\x00") {
			return p, false
		}
		last = key
		switch {
		case key == "oid":
			hex, sha := strings.CutPrefix(value, "sha256:")
			if !sha || !isSHA256(hex) {
				return p, false
			}
			p.oid = hex
			seen++
		case key == "size":
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n < 0 || strconv.FormatInt(n, 10) != value {
				return p, false
			}
			p.size = n
			seen++
		case !strings.HasPrefix(key, "ext-"):
			return p, false
		}
	}
	return p, seen == 2
}

func isSHA256(hex string) bool {
	return len(hex) == 64 && strings.Trim(hex, "0123456789abcdef") == ""
}

// lfsSize finds a file that Git LFS should keep and that is too large for a pointer, without reading it.
func (i *inspection) lfsSize(c sallyport.Change) {
	if i.ToLFS[c.Path] && !gone(c) && isFile(c.NewMode) && c.Size >= maxPointer {
		i.found.add("lfs.raw", c.Path, rawMessage(c.Size))
	}
}

func rawMessage(size int64) string {
	return "attributes give the file to Git LFS, and the change has " + megabytes(size) + " of content in place of a pointer"
}

// lfs judges a file that is, or was, a pointer, or should be one. Git LFS leaves an empty file as it is.
func (i *inspection) lfs(c sallyport.Change, now, before []byte) {
	if !pointerLike(now) {
		if i.ToLFS[c.Path] && c.Size > 0 && c.Size < maxPointer {
			i.found.add("lfs.raw", c.Path, rawMessage(c.Size))
		}
		if pointerLike(before) {
			i.found.add("lfs.replaced", c.Path, "the pointer of Git LFS is replaced by a file of "+megabytes(c.Size))
		}
		return
	}
	p, ok := parsePointer(now)
	switch {
	case !ok:
		i.found.add("lfs.malformed", c.Path, "the file begins like a pointer of Git LFS and is not one")
	case i.HasLFS == nil:
		i.found.add("lfs.pointer", c.Path, "the content of "+megabytes(p.size)+" was not inspected; whether the local store has it is not known")
	case !i.HasLFS(p.oid):
		i.found.add("lfs.missing", c.Path, "the local store does not have the content of "+megabytes(p.size))
	default:
		i.found.add("lfs.pointer", c.Path, "the content of "+megabytes(p.size)+" was not inspected")
	}
}

// lfsConfig reports a .lfsconfig that names a server, or another one than before.
func (i *inspection) lfsConfig(c sallyport.Change, now, before []byte) {
	list, bad := parseConfig(now)
	if bad > 0 {
		i.found.add("lfs.url", c.Path, "git cannot read the file: "+lineWord(bad)+" is not in its configuration format")
	}
	old, _ := parseConfig(before)
	known := map[setting]bool{}
	for _, s := range old {
		known[s] = true
	}
	for _, s := range list {
		section, _, key, _ := s.split()
		server := section == "lfs" && (strings.HasSuffix(key, "url") || key == "access" || key == "sshtransfer") ||
			section == "remote" && (key == "lfsurl" || key == "lfspushurl")
		if server && !known[s] {
			i.found.add("lfs.url", c.Path, "the change sets where git-lfs sends objects and credentials")
			return
		}
	}
}
