package egress

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

	"sallyport.dev/sallyport"
)

// Bounds on one rule, so that a decision stays cheap.
const (
	maxListed  = 256
	maxPattern = maxPath
)

// Check holds a rule to its form: CodeInvalid names the field and what was expected. A rule that passes is
// canonical, so that its JSON has one spelling.
func Check(r Rule) error {
	if err := checkHost(r.Host); err != nil {
		return err
	}
	switch r.Protocol {
	case HTTPS, HTTP:
		if err := checkMethods(r.Methods); err != nil {
			return err
		}
	case Git, TCP:
		if r.Methods != nil {
			return badRule("methods", "only http and https have methods", "")
		}
	default:
		return badRule("protocol", fmt.Sprintf("%.40q is none; expected https, http, tcp or git", string(r.Protocol)), "")
	}
	if r.Port == 0 {
		return badRule("port", "expected 1 to 65535", "")
	}
	if r.Protocol == TCP {
		return checkTCP(r)
	}
	if err := checkPaths(r); err != nil {
		return err
	}
	return checkLimits(r.Limits)
}

func checkTCP(r Rule) error {
	switch {
	case r.Paths != nil:
		return badRule("paths", "tcp has no paths: its bytes are not read", "")
	case r.OwnAuth:
		return badRule("own-auth", "tcp is not read, so it cannot be said what it may hold", "")
	}
	return checkLimits(r.Limits)
}

func checkHost(host string) error {
	suffix, wild := strings.CutPrefix(host, "*.")
	n, err := Host(suffix)
	if err != nil {
		return &sallyport.Error{Op: opRule, Code: sallyport.CodeInvalid, Subject: "host", Message: "expected a host name, *.SUFFIX or an address",
			Hint: sallyport.HintOf(err), Err: err}
	}
	if n.text != suffix {
		return badRule("host", fmt.Sprintf("%q is not in its canonical form; expected %q", suffix, n.text), "")
	}
	switch {
	case wild && n.IsAddr():
		return badRule("host", "*. goes before a name, not before an address", "")
	case wild && isPublicSuffix(n.text):
		return badRule("host", "anybody can have a name below "+n.text+"; expected a suffix that has one owner", "list the hosts that are needed")
	case n.addr.IsUnspecified() || n.addr.IsMulticast() || classOf(n.addr) == "broadcast":
		return badRule("host", n.text+" is no single host", "")
	}
	return nil
}

// isPublicSuffix holds also for a single label (*.com, *.internal): nobody owns all below it.
func isPublicSuffix(name string) bool {
	suffix, _ := publicsuffix.PublicSuffix(name)
	return suffix == name
}

func checkMethods(methods []string) error {
	return checkList("methods", methods, func(m string) string {
		if m == "*" || m != "" && len(m) <= 32 && strings.Trim(m, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") == "" && m != "CONNECT" {
			return ""
		}
		return "expected an upper-case method such as GET, WEBSOCKET for an upgrade, or *"
	})
}

func checkPaths(r Rule) error {
	return checkList("paths", r.Paths, func(glob string) string {
		switch {
		case len(glob) > maxPattern:
			return fmt.Sprintf("expected at most %d bytes", maxPattern)
		case r.Protocol == Git && strings.HasSuffix(glob, ".git"):
			return "name the repository without .git"
		}
		return checkGlob(glob)
	})
}

// checkList wants entries that are good and not said twice. An empty list is good: it means nothing.
func checkList(field string, list []string, wrong func(string) string) error {
	if len(list) > maxListed {
		return badRule(field, fmt.Sprintf("expected at most %d entries", maxListed), "")
	}
	for i, s := range list {
		at := fmt.Sprintf("%s[%d]", field, i)
		if why := wrong(s); why != "" {
			return badRule(at, fmt.Sprintf("%.80q: %s", s, why), "")
		}
		if slices.Contains(list[:i], s) {
			return badRule(at, fmt.Sprintf("%.80q is said twice", s), "")
		}
	}
	return nil
}

func checkLimits(l Limits) error {
	for _, f := range []struct {
		name  string
		value int64
	}{{"requests", l.Requests}, {"up", l.Up}, {"down", l.Down}, {"rate", l.Rate}} {
		if f.value < 0 {
			return badRule("limits."+f.name, "expected a positive number", "")
		}
	}
	return nil
}

const opRule = "read an egress rule"

func badRule(field, message, hint string) error {
	return &sallyport.Error{Op: opRule, Code: sallyport.CodeInvalid, Subject: field, Message: message, Hint: hint}
}
