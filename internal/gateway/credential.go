package gateway

import (
	"context"

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
