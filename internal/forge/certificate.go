package forge

import (
	"regexp"
	"strings"
	"time"
)

// How long a Certificate may be asked for: a shorter one ends within a publication, a longer one is a key that lies around.
const (
	DefaultCertificate = 5 * time.Minute
	minCertificate     = time.Minute
	maxCertificate     = 15 * time.Minute
)

// Certificate is what is asked of an OpenSSH user certificate for one publication.
type Certificate struct {
	Principal string        // whom the server takes its holder for
	Valid     time.Duration // from now
	// Push is the one command that it is good for at the server, git-receive-pack 'PATH'; "": any, as the server allows.
	Push string
}

// Only this form: with the other service in its place it must be the command that reads.
var pushCommand = regexp.MustCompile(`^git-receive-pack '[^'\x00-\x1f\x7f]+'$`)

// Check names the part that is wrong, and what was expected. "": none is.
func (c Certificate) Check() (part, expected string) {
	switch {
	case c.Principal == "": // a certificate without one is good for every user
		return "principal", "expected whom the server takes us for"
	case strings.ContainsFunc(c.Principal, func(r rune) bool { return r <= ' ' || r == ',' || r > '~' }):
		return "principal", "expected one name without blanks and commas"
	case c.Valid < minCertificate || c.Valid > maxCertificate:
		return "valid", "expected " + minCertificate.String() + " to " + maxCertificate.String()
	case c.Push != "" && !pushCommand.MatchString(c.Push):
		return "command", "expected git-receive-pack 'PATH', which is turned into git-upload-pack for reading"
	}
	return "", ""
}

// Read is the command for reading where Push is the one for writing.
func (c Certificate) Read() string {
	if c.Push == "" {
		return ""
	}
	return upload + strings.TrimPrefix(c.Push, receive)
}
