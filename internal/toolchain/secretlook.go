package toolchain

import (
	"io"
	"os"
	"regexp"
)

// credentialLook matches text that names or holds a credential. It errs towards yes: the price is a hidden
// file or a dropped variable, both of which are said.
var credentialLook = regexp.MustCompile(`(?i)` +
	`://[^/\s"'@]*:[^/\s"'@]+@` + // URL with a password
	`|(passw(or)?d|passwd|passphrase|secret|token|api[-_]?key|private[-_]?key|credential|authorization|_auth|\bauth)[\w.-]*"?\s*[=:>]` +
	`|\b(bearer|basic)\s+[a-z0-9+/=._-]{12,}` +
	`|-----BEGIN [A-Z ]*PRIVATE KEY` +
	`|\b(gh[pousr]_|github_pat_|glpat-|npm_|sk-|xox[abprs]-|AKIA|ASIA|AIza|pypi-|hvs\.)[A-Za-z0-9_-]{12,}`)

func looksSecret(s string) bool { return credentialLook.MatchString(s) }

// suspectBytes bounds what is read of a configuration file; a longer one is taken for a credential.
const suspectBytes = 256 << 10

// fileLooksSecret reports whether a file cannot be shown to be free of credentials.
func fileLooksSecret(path string) bool {
	fi, err := os.Stat(path)
	if err != nil || !fi.Mode().IsRegular() || fi.Size() > suspectBytes {
		return true
	}
	f, err := os.Open(path)
	if err != nil {
		return true
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, suspectBytes+1))
	return err != nil || len(b) > suspectBytes || credentialLook.Match(shippedSamples.ReplaceAll(b, nil))
}

// shippedSamples are the made-up values in the settings.xml that every Maven comes with. Hiding that file
// would stop Maven: it refuses an empty one.
var shippedSamples = regexp.MustCompile(`<(password|passphrase|privateKey)>(proxypass|repopwd|/path/to/private/key|optional; leave empty if not used\.)</\w+>`)
