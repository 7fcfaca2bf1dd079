package sallyport

import (
	"encoding/base32"
	"fmt"
	"strings"
)

// Identifiers are a kind prefix, an underscore and 26 characters of lower-case Crockford base32 over 16
// bytes (UUIDv7: time-ordered). They are safe as file names, branch parts and command arguments.
type (
	// FactoryID names one installation's state folder; every resource a provider makes bears it.
	FactoryID string
	// WorkOrderID names what was asked: one repository and one name in it.
	WorkOrderID string
	// AttemptID names one try at a Manifest.
	AttemptID string
	// AllocationID names one external resource of an Attempt. It is durable before the resource exists.
	AllocationID string
	// ResourceID is the provider's own exact id, including the substrate's identity. Opaque to all others.
	ResourceID string
)

// The kind prefixes.
const (
	FactoryPrefix    = "fac"
	WorkOrderPrefix  = "wo"
	AttemptPrefix    = "att"
	AllocationPrefix = "alc"
)

var idEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// FormatID renders 16 raw bytes under a kind prefix. The caller supplies the bytes (this package has no
// randomness and no clock); see internal/id.
func FormatID(prefix string, raw [16]byte) string {
	return prefix + "_" + idEncoding.EncodeToString(raw[:])
}

// CheckID reports CodeInvalid unless s is an id of the given kind, exactly as FormatID writes it.
func CheckID(prefix, s string) error {
	rest, ok := strings.CutPrefix(s, prefix+"_")
	if !ok {
		return &Error{Op: "parse id", Code: CodeInvalid, Subject: s, Message: fmt.Sprintf("expected an id beginning with %q", prefix+"_")}
	}
	raw, err := idEncoding.DecodeString(rest)
	if err != nil || len(raw) != 16 || idEncoding.EncodeToString(raw) != rest {
		return &Error{Op: "parse id", Code: CodeInvalid, Subject: s, Message: "expected 26 characters of lower-case base32 after the prefix"}
	}
	return nil
}
