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
	for name, value := range map[string]string{"unset": "", "too short to be watched for": "sk-short", "no header value": "sk-there-0123456\n789"} {
		err := credentialThere(a, env(value))
		if sallyport.CodeOf(err) != sallyport.CodeUnsupported || !strings.Contains(err.Error(), "ANTHROPIC_API_KEY") || sallyport.HintOf(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
		if value != "" && strings.Contains(err.Error()+sallyport.HintOf(err), value) {
			t.Errorf("%s: the error shows the value: %v", name, err)
		}
	}
	if err := credentialThere(a, env("sk-there-0123456789")); err != nil {
		t.Errorf("with the variable: %v", err)
	}
	if err := credentialThere(sallyport.Agent{Name: "command"}, env("")); err != nil {
		t.Errorf("a plain command has no endpoint: %v", err)
	}
}
