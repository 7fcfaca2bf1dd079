package secret

import (
	"bytes"
	"math"
	"net/url"
	"strings"
	"unicode"
)

// Values are a person's own secrets by name. A name is of letters, digits, dot, dash and underscore.
type Values struct {
	Known map[string][]byte
	// Skipped are the names of those whose value is too short, or too common a word, to be told from ordinary
	// text: blanking such a word everywhere would hide what happened and tell what it is.
	Skipped []string
}

// minBytes is the shortest value that is taken.
const minBytes = 8

// maxFileBytes bounds what is read of one file; what is longer holds more than credentials.
const maxFileBytes = 1 << 20

// FromEnv takes, of an environment ("NAME=value"), what its name calls a secret, and the passwords in URLs.
func FromEnv(environ []string) Values {
	v := Values{Known: map[string][]byte{}}
	for _, kv := range environ {
		if name, value, ok := strings.Cut(kv, "="); ok && !ordinary[name] {
			v.take(name, name, value)
		}
	}
	return v
}

// ordinary are variables of a shell or a desktop whose names only look like a secret's: folders, sockets, kinds of
// session. As secrets they would have a repository's own path refused and redacted.
var ordinary = set("PWD OLDPWD SSH_AUTH_SOCK DESKTOP_SESSION GDMSESSION SESSION_MANAGER DBUS_SESSION_BUS_ADDRESS " +
	"XDG_SESSION_ID XDG_SESSION_TYPE XDG_SESSION_CLASS XDG_SESSION_DESKTOP XDG_SESSION_PATH")

// FromFile takes, of a file of settings, what FromEnv would, whatever looks random, and private keys; a file of
// one word is one secret. path names the values.
func FromFile(path string, b []byte) Values {
	v := Values{Known: map[string][]byte{}}
	b = b[:min(len(b), maxFileBytes)]
	if word := bytes.TrimSpace(b); len(word) > 0 && !bytes.ContainsAny(word, " \t\r\n=:") {
		v.keep(path, string(word))
		return v
	}
	for n, key := range pemBlock().FindAll(b, -1) {
		v.keep(path+".key"+strings.Repeat("I", n), string(key))
	}
	for line := range bytes.Lines(b) {
		m := assignment().FindSubmatch(bytes.TrimSpace(line))
		if m == nil {
			continue
		}
		name, value := string(m[1]), strings.Trim(strings.TrimSpace(string(m[2])), `"'`+"`,;")
		if random(value) {
			v.keep(path+"."+name, value)
		} else {
			v.take(path+"."+name, name, value)
		}
	}
	return v
}

var (
	pemBlock   = lazily(`(?s)-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----.+?-----END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----`)
	assignment = lazily(`^\s*(?:export\s+|set\s+|-\s+)?["']?([A-Za-z][\w.-]{0,80})["']?\s*[=:]\s*(.+)$`)
)

// take keeps a value whose name calls it a secret, or the password of one that is a URL.
func (v *Values) take(as, name, value string) {
	if u, err := url.Parse(value); err == nil && u.User != nil && u.Host != "" {
		if password, set := u.User.Password(); set {
			v.keep(as, password)
		}
		return
	}
	if Named(name) && !ordinaryPath().MatchString(value) {
		v.keep(as, value)
	}
}

var ordinaryPath = lazily(`^[~.]{0,2}(/[a-z0-9._-]+)+/?$`)

// Add keeps a value that is known to be secret whatever its name says.
func (v *Values) Add(name, value string) { v.keep(name, value) }

func (v *Values) keep(as, value string) {
	as = strings.Trim(plainName().ReplaceAllString(as, "_"), "_")
	as = as[max(0, len(as)-80):]
	value = strings.TrimRight(value, "\r\n")
	switch {
	case value == "":
	case len(value) < minBytes || common[strings.ToLower(value)] || strings.Contains(value, "redacted"):
		v.Skipped = append(v.Skipped, as)
	default:
		v.Known[as] = []byte(value)
	}
}

var plainName = lazily(`[^A-Za-z0-9._-]+`)

// common are what settings hold where a secret would go later.
var common = set("password passw0rd changeme change-me placeholder undefined disabled required optional localhost development production testing example default12 12345678 00000000 username postgres")

// secretWords are what names of secrets are made of.
var secretWords = set("token tokens secret secrets password passwd passphrase passcode pwd pass key keys apikey accesskey credential credentials auth authorization bearer pat jwt cookie session signature private salt dsn")

func set(words string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}

// Named reports whether a setting's name calls its value a secret: one of its words does, and none says public.
func Named(name string) bool {
	found := false
	for _, w := range words(name) {
		if w == "public" || w == "pub" {
			return false
		}
		found = found || secretWords[w]
	}
	return found
}

// words of a name in snake, kebab, dotted or camel case, in lower case.
func words(name string) []string {
	var b strings.Builder
	before := rune(0)
	for _, r := range name {
		if unicode.IsUpper(r) && (unicode.IsLower(before) || unicode.IsDigit(before)) {
			b.WriteByte(' ')
		}
		if before = r; !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			r = ' '
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return strings.Fields(b.String())
}

// random reports a value that nobody would write by hand.
func random(value string) bool {
	digit := strings.ContainsAny(value, "0123456789")
	letter := strings.ContainsFunc(value, unicode.IsLetter)
	return len(value) >= 20 && digit && letter && !strings.ContainsAny(value, " \t") && !strings.Contains(value, "://") && !ordinaryPath().MatchString(value) && entropy([]byte(value)) > 3.5
}

// entropy is Shannon's, in bits per byte.
func entropy(b []byte) float64 {
	var count [256]int
	for _, c := range b {
		count[c]++
	}
	var sum float64
	for _, n := range count {
		if n > 0 {
			p := float64(n) / float64(len(b))
			sum -= p * math.Log2(p)
		}
	}
	return sum
}
