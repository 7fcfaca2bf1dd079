package credential

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"unique"

	"sallyport.dev/sallyport"
)

// Secret is a value that no printing shows: every verb of fmt, JSON, text and slog write "[secret]". The zero value
// is no secret. Equal values are equal Secrets. The value lies behind a pointer, since fmt looks into a struct for a
// verb that it does not know, past all of its methods.
type Secret struct{ value unique.Handle[string] }

const shown = "[secret]"

// Reveal is the value. Whoever calls it answers for where it goes.
func (s Secret) Reveal() string {
	if s == (Secret{}) {
		return ""
	}
	return s.value.Value()
}

// String implements fmt.Stringer.
func (s Secret) String() string { return shown }

// GoString implements fmt.GoStringer.
func (s Secret) GoString() string { return shown }

// Format implements fmt.Formatter, for the verbs that would look inside.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, shown) }

// MarshalText implements encoding.TextMarshaler, and so JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(shown), nil }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(shown) }

const (
	minSecret = 16      // as the gateway: a shorter one could not be watched for in answers
	maxSecret = 8 << 10 // fits in a header; an installation token has about 520 characters
)

// usable is the secret in what a source gave: without the end of its line. CodeInvalid for what could not stand in a
// request, or could not be watched for.
func usable(name string, raw []byte) (Secret, error) {
	text := strings.TrimRight(string(raw), "\r\n")
	message := ""
	switch {
	case text == "":
		message = "it is empty"
	case len(text) < minSecret:
		message = fmt.Sprintf("expected at least %d characters: a shorter one could not be watched for", minSecret)
	case len(text) > maxSecret:
		message = fmt.Sprintf("expected at most %d characters", maxSecret)
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		message = "expected one word of printable ASCII characters: others cannot stand in a request"
	}
	if message != "" {
		return Secret{}, failure(sallyport.CodeInvalid, name, message, "look at what its source gives")
	}
	return Secretly(text), nil
}

func failure(code sallyport.Code, name, message, hint string) *sallyport.Error {
	return &sallyport.Error{Op: "read the credential", Code: code, Subject: name, Message: message, Hint: hint}
}

// Secretly is a value that came from elsewhere as a Secret, so that it is handled like one.
func Secretly(value string) Secret { return Secret{unique.Make(value)} }
