package egress

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// Forges are the hosts of the well-known public forges at which changes could be published, sorted: their pages, their
// APIs, and where they take uploads. From a sandbox they are only read.
func Forges() []string {
	return []string{"api.bitbucket.org", "api.github.com", "bitbucket.org", "codeberg.org", "gist.github.com", "git.sr.ht", "github.com", "gitlab.com", "uploads.github.com"}
}

// ListsForge says that an https rule names one of forges: its requests have to be read, whatever else the rule says.
func ListsForge(r Rule, forges []string) bool {
	return r.Protocol == HTTPS && slices.ContainsFunc(forges, func(f string) bool {
		n, err := Host(f)
		return err == nil && names(r, n)
	})
}

// RemoteHost is the host of a git remote, as a URL or as [USER@]HOST:PATH; false: a path of this machine, or what has
// no one meaning.
func RemoteHost(remote string) (Name, bool) {
	host := remote
	if scheme, rest, ok := strings.Cut(remote, "://"); ok {
		if scheme == "file" {
			return Name{}, false
		}
		host, _, _ = strings.Cut(rest, "/")
		host = host[strings.LastIndexByte(host, '@')+1:]
		if h, _, ok := splitPort(host); ok {
			host = h
		}
	} else {
		before, _, ok := strings.Cut(remote, ":")
		if strings.HasPrefix(remote, "[") || !ok || strings.Contains(before, "/") {
			return Name{}, false
		}
		host = before[strings.LastIndexByte(before, '@')+1:]
	}
	n, err := Host(host)
	return n, err == nil
}

// MaxGraphQL bounds the body of a query that ForgeRead looks into, in bytes.
const MaxGraphQL = 1 << 20

// GraphQL says that q is sent to a forge's GraphQL endpoint, whose body ForgeRead has to see.
func GraphQL(q Request) bool {
	path, ok := canonicalPath(q.Path)
	return ok && q.Method == "POST" && (path == "/graphql" || path == "/api/graphql")
}

// ForgeRead says whether q only reads from a forge: GET and HEAD, git's upload-pack, and GraphQL queries. body counts
// for GraphQL alone. What is not known to read does not.
func ForgeRead(q Request, body []byte) bool {
	switch {
	case q.Method == "GET" || q.Method == "HEAD":
		return true
	case GraphQL(q):
		return queryOnly(body)
	}
	ok, _ := GitFetch(q.Method, q.Path, q.Query)
	return ok
}

// queryOnly reads the one JSON object that a GraphQL request is. A batch, a persisted query, a key that is said twice
// or that is not of the specification is no query: a server could take another part of it than this reader.
func queryOnly(body []byte) bool {
	d := json.NewDecoder(bytes.NewReader(body))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return false
	}
	seen := map[string]bool{}
	var query string
	for d.More() {
		t, err := d.Token()
		key, ok := t.(string)
		if err != nil || !ok || seen[key] {
			return false
		}
		seen[key] = true
		var v any
		if d.Decode(&v) != nil {
			return false
		}
		switch key {
		case "query":
			if query, ok = v.(string); !ok {
				return false
			}
		case "variables", "operationName":
		default:
			return false
		}
	}
	if t, err := d.Token(); err != nil || t != json.Delim('}') || d.More() {
		return false
	}
	return onlyQueries(query)
}

// onlyQueries says that every operation in a GraphQL document is a query (specification of October 2021, section 2).
func onlyQueries(doc string) bool {
	const (
		begin  = iota // of a definition
		header        // between its keyword and its braces
		inside        // of the braces
	)
	state, braces, parens, found := begin, 0, 0, false
	for len(doc) > 0 {
		var token string
		var ok bool
		if token, doc, ok = lex(doc); !ok {
			return false
		}
		switch {
		case token == "":
		case state == begin:
			if found = true; token == "{" {
				state, braces = inside, 1
			} else if state = header; token != "query" && token != "fragment" {
				return false
			}
		case token == "(":
			parens++
		case token == ")":
			parens--
		case token == "{":
			// Braces between parentheses are values.
			if braces++; state == header && parens == 0 {
				state = inside
			}
		case token == "}":
			if braces--; braces == 0 && parens == 0 && state == inside {
				state = begin
			}
		}
		if braces < 0 || parens < 0 {
			return false
		}
	}
	return found && state == begin
}

// lex takes one token off a GraphQL document; "" for what carries no meaning. Strings are one token, so that nothing in
// them counts.
func lex(doc string) (token, rest string, ok bool) {
	switch c := doc[0]; {
	case strings.HasPrefix(doc, `"""`):
		doc = doc[3:]
		for {
			end := strings.Index(doc, `"""`)
			if end < 0 {
				return "", "", false
			}
			escaped := end > 0 && doc[end-1] == '\\'
			if doc = doc[end+3:]; !escaped {
				return `"`, doc, true
			}
		}
	case c == '"':
		for i := 1; i < len(doc); i++ {
			switch doc[i] {
			case '\\':
				i++
			case '\n', '\r':
				return "", "", false
			case '"':
				return `"`, doc[i+1:], true
			}
		}
		return "", "", false
	case c == '#':
		end := strings.IndexAny(doc, "\r\n")
		if end < 0 {
			return "", "", true
		}
		return "", doc[end:], true
	case strings.IndexByte(" \t\r\n,", c) >= 0:
		return "", doc[1:], true
	case strings.HasPrefix(doc, "\ufeff"):
		return "", doc[3:], true
	case isNameByte(c):
		i := 1
		for i < len(doc) && isNameByte(doc[i]) {
			i++
		}
		return doc[:i], doc[i:], true
	case c >= 0x80:
		return "", "", false // outside of strings and comments the grammar has ASCII alone
	}
	return doc[:1], doc[1:], true
}

func isNameByte(c byte) bool { return isAlnum(c) || c == '_' }

// RepositoryAddress is where people find the repository of a remote: scheme, host and path without user, password and
// ".git". What git reaches by SSH is taken to be at https. false: RemoteHost has none, or there is no path.
func RepositoryAddress(remote string) (string, bool) {
	n, ok := RemoteHost(remote)
	if !ok {
		return "", false
	}
	scheme, authority, path := "https", n.String(), ""
	if s, rest, is := strings.Cut(remote, "://"); is {
		var host string
		host, path, _ = strings.Cut(rest, "/")
		if s == "http" || s == "https" {
			scheme = s
			if _, port, has := splitPort(host[strings.LastIndexByte(host, '@')+1:]); has {
				authority += ":" + strconv.Itoa(int(port))
			}
		}
	} else {
		_, path, _ = strings.Cut(remote, ":")
	}
	path = strings.TrimSuffix(strings.Trim(path, "/"), ".git")
	if path == "" || strings.ContainsAny(path, "?#@% \\") || strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", false
	}
	return scheme + "://" + authority + "/" + path, true
}
