package control

import (
	"strings"
	"testing"

	"sallyport.dev/sallyport"
)

// An agent without its credential is refused before anything is made; the message names the variable.
func TestCredentialThere(t *testing.T) {
	a := sallyport.Agent{Name: "claude-code", Endpoint: &sallyport.Endpoint{CredentialEnv: "ANTHROPIC_API_KEY"}}
	env := func(value string) func(string) string {
		return func(name string) string {
			if name == "ANTHROPIC_API_KEY" {
				return value
			}
			return ""
		}
	}
	err := credentialThere(a, env(""))
	if sallyport.CodeOf(err) != sallyport.CodeInvalid || !strings.Contains(err.Error(), "ANTHROPIC_API_KEY") || sallyport.HintOf(err) == "" {
		t.Errorf("without the variable: %v", err)
	}
	if err := credentialThere(a, env("sk-there")); err != nil {
		t.Errorf("with the variable: %v", err)
	}
	if err := credentialThere(sallyport.Agent{Name: "command"}, env("")); err != nil {
		t.Errorf("a plain command has no endpoint: %v", err)
	}
}
