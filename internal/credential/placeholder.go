package credential

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"sallyport.dev/sallyport"
)

// Placeholder is what the sandbox of an Attempt holds instead of the credential of this name: the same for the same
// key, Attempt and binding (name, hosts, place in the request), and not to be guessed without key, which is random, of
// this Attempt alone, and durable before the sandbox is made. It is at least 33 characters of letters, digits, dots,
// dashes and underscores, and begins with the credential's PlaceholderPrefix, with what the tool of a login expects,
// or with "sallyport-". CodeNotFound for a name that is not in the Set.
func (s *Set) Placeholder(key string, attempt sallyport.AttemptID, name string) (string, error) {
	e, ok := s.named[name]
	if !ok {
		return "", failure(sallyport.CodeNotFound, name, "this Attempt has no such credential", "")
	}
	begin := token{Begin: e.PlaceholderPrefix}.begin("")
	if e.Source.Login != "" {
		l, err := loginNamed(e.Source.Login, s.deps.Logins)
		if err != nil {
			return "", err
		}
		begin = l.Access.begin("")
	}
	return begin + tag(key, attempt, e.Credential, ""), nil
}

// tag is 128 bits in hexadecimal. part tells the tokens of one credential apart.
func tag(key string, attempt sallyport.AttemptID, c sallyport.Credential, part string) string {
	mac := hmac.New(sha256.New, []byte(key))
	bound := append([]string{"sallyport placeholder 1", string(attempt), c.Name, c.Header, c.Prefix, c.Basic, c.Query, part}, c.Hosts...)
	mac.Write([]byte(strings.Join(bound, "\x00"))) // none of them can hold NUL
	return hex.EncodeToString(mac.Sum(nil))[:32]
}
