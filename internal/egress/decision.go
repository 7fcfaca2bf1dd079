package egress

import (
	"net/netip"
	"slices"
	"strings"
)

// Request is what a sandbox asks for. Method, Path and Query are as they stood in the request line; they are
// empty for TCP.
type Request struct {
	Name     Name     `json:"name"`
	Port     uint16   `json:"port"`
	Protocol Protocol `json:"protocol"` // HTTPS, HTTP or TCP; a git fetch is an HTTPS request
	Method   string   `json:"method,omitempty"`
	Path     string   `json:"path,omitempty"`  // escaped, without query: "/@scope%2fname"
	Query    string   `json:"query,omitempty"` // escaped, without "?"
}

// Decision is the answer. The zero value is a no.
type Decision struct {
	Allowed bool   `json:"allowed"`
	Rule    int    `json:"rule"`             // index of the first rule that allows it; -1: none
	Reason  Reason `json:"reason,omitempty"` // why not; "" when allowed
	Line    string `json:"line,omitempty"`   // the entry of `egress:` that would allow this and least else; "": none can
}

// Listed says that some rule names n, whatever the port: the question that DNS asks.
func Listed(rules []Rule, n Name) bool {
	return slices.ContainsFunc(rules, func(r Rule) bool { return names(r, n) })
}

// Reach decides on a connection before its first byte: some rule must name host and port. A yes is not yet a yes to
// what will be asked on it.
func Reach(rules []Rule, n Name, port uint16) Decision {
	far := ReasonHost
	for i, r := range rules {
		switch {
		case !names(r, n):
		case r.Port != port:
			far = ReasonPort
		default:
			return Decision{Allowed: true, Rule: i}
		}
	}
	return refuse(Request{Name: n, Port: port, Protocol: Usual(port)}, far)
}

// Usual is the protocol that a connection to port most likely speaks; only proposals depend on it.
func Usual(port uint16) Protocol {
	switch port {
	case 443:
		return HTTPS
	case 80:
		return HTTP
	}
	return TCP
}

// Decide decides on one request, or with TCP on one connection whose bytes are passed unread. The first rule that
// allows it counts. Nothing is pushed by git, whatever the rules say.
func Decide(rules []Rule, q Request) Decision {
	far := ReasonHost
	if q.Protocol != TCP {
		path, ok := canonicalPath(q.Path)
		if !ok {
			return refuse(q, ReasonAmbiguousPath)
		}
		if q.Path = path; pushes(q.Path, q.Query) {
			return refuse(q, ReasonGitPush)
		}
	}
	for i, r := range rules {
		why := judge(r, q)
		if why == "" {
			return Decision{Allowed: true, Rule: i}
		}
		far = further(far, why)
	}
	return refuse(q, far)
}

// stages are the questions in the order in which they are asked. The refusal that a person is told is the one that
// came furthest: it is the least to change.
var stages = []Reason{ReasonHost, ReasonPort, ReasonProtocol, ReasonGitRead, ReasonGitDumb, ReasonMethod, ReasonPath}

func further(a, b Reason) Reason {
	if slices.Index(stages, b) > slices.Index(stages, a) {
		return b
	}
	return a
}

// judge asks one rule about a request whose path is canonical; "" is a yes.
func judge(r Rule, q Request) Reason {
	switch {
	case !names(r, q.Name):
		return ReasonHost
	case r.Port != q.Port:
		return ReasonPort
	case r.Protocol == Git && q.Protocol == HTTPS:
		return judgeGit(r, q)
	case r.Protocol != q.Protocol:
		return ReasonProtocol
	case r.Protocol == TCP:
		return ""
	case !slices.Contains(r.Methods, "*") && !slices.Contains(r.Methods, q.Method):
		return ReasonMethod
	case !onPath(r, q.Path):
		return ReasonPath
	}
	return ""
}

func judgeGit(r Rule, q Request) Reason {
	repository, why := gitRead(q.Method, q.Path, q.Query)
	if why == "" && !onPath(r, repository) {
		return ReasonPath
	}
	return why
}

func onPath(r Rule, path string) bool {
	return slices.ContainsFunc(r.Paths, func(glob string) bool { return matchPath(glob, path) })
}

// names says that r's host is n. A wildcard is whatever lies below the suffix, never the suffix itself, never an
// address.
func names(r Rule, n Name) bool {
	if n.IsZero() {
		return false
	}
	if suffix, wild := strings.CutPrefix(r.Host, "*"); wild {
		return !n.IsAddr() && len(suffix) > 1 && suffix[0] == '.' && strings.HasSuffix(n.text, suffix)
	}
	return r.Host == n.text
}

func isAddr(r Rule, a netip.Addr) bool {
	own, err := netip.ParseAddr(r.Host)
	return err == nil && own == a
}

func refuse(q Request, why Reason) Decision {
	return Decision{Rule: -1, Reason: why, Line: LineFor(Refusal{q, why})}
}
