package gateway

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/net/http/httpguts"

	"sallyport.dev/sallyport"
)

// FromEnv reads the credential from the trusted side's environment, through getenv (os.Getenv), each time it
// is asked. Unset or empty: CodeNotFound with the variable's name and never a value.
func FromEnv(name string, getenv func(string) string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		if v := getenv(name); name != "" && v != "" {
			return v, nil
		}
		return "", &sallyport.Error{Op: "read the model credential", Code: sallyport.CodeNotFound, Subject: name,
			Message: "the environment variable is not set", Hint: "set " + name + " where sallyport runs; it never enters the sandbox"}
	}
}

// Usable reports CodeInvalid for a credential that the gateway would not send: one too short to be watched
// for in answers, or with characters that cannot stand in a header. The error does not hold it.
func Usable(credential string) error {
	bad := func(message string) error {
		return &sallyport.Error{Op: "read the model credential", Code: sallyport.CodeInvalid, Message: message}
	}
	if len(credential) < minCredential {
		return bad(fmt.Sprintf("expected at least %d characters: a shorter one could not be watched for", minCredential))
	}
	if !httpguts.ValidHeaderFieldValue(credential) || strings.ContainsAny(credential, " \t") {
		return bad("expected no spaces and no characters that cannot stand in a header")
	}
	return nil
}
