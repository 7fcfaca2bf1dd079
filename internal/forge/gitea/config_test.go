package gitea_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge/forgetest"
	"sallyport.dev/sallyport/internal/forge/gitea"
)

const canary = "a-secret-that-is-in-no-error"

func TestConfigurationsThatAreRefused(t *testing.T) {
	token, mint := forgetest.Known("x"), &gitea.Mint{User: "bot", Password: forgetest.Known("x")}
	for _, c := range []gitea.Config{
		{},
		{URL: "https://forge.example/owner/name"},
		{URL: "https://forge.example/owner/name", Credential: token, Mint: mint},
		{URL: "https://forge.example/owner/name", Mint: &gitea.Mint{User: "bot"}},
		{URL: "https://forge.example/owner/name", Credential: token, CAFile: "/nonexistent"},
		{URL: "https://forge.example/name", Credential: token},
		{URL: "https://forge.example/", Credential: token},
		{URL: "https://forge.example/../name", Credential: token},
		{URL: "https:///owner/name", Credential: token},
		{URL: "http://forge.example/owner/name", Credential: token},
		{URL: "ssh://forge.example/owner/name", Credential: token},
		{URL: "https://bot:" + canary + "@forge.example/owner/name", Credential: token},
		{URL: "https://forge.example/owner/name?token=" + canary, Credential: token},
	} {
		_, err := gitea.New(c)
		wantCode(t, err, sallyport.CodeInvalid)
		if strings.Contains(err.Error(), canary) {
			t.Errorf("%v", err)
		}
	}
}

func TestAddresses(t *testing.T) {
	for url, want := range map[string]string{
		"https://forge.example/owner/name":       "https://forge.example/owner/name",
		"https://forge.example/owner/name.git":   "https://forge.example/owner/name",
		"https://forge.example:3000/owner/name/": "https://forge.example:3000/owner/name",
		"https://forge.example/a/git/owner/name": "https://forge.example/a/git/owner/name",
		"http://127.0.0.1:3000/owner/name":       "http://127.0.0.1:3000/owner/name",
	} {
		d := driver(t, gitea.Config{URL: url, Credential: forgetest.Known("x")})
		if got := d.Describe().Repository; got != want {
			t.Errorf("%s: %s", url, got)
		}
	}
}

func TestSecretsThatCannotBeRead(t *testing.T) {
	missing := func(context.Context) (string, error) { return "", errors.New("no such file") }
	for name, c := range map[string]gitea.Config{
		"token":    {URL: "https://forge.invalid/owner/name", Credential: missing},
		"password": {URL: "https://forge.invalid/owner/name", Mint: &gitea.Mint{User: "bot", Password: missing}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := driver(t, c).Mint(t.Context(), "mark")
			wantCode(t, err, sallyport.CodeDenied, "no such file")
		})
	}
	for _, secret := range []string{"", "a b", "a\nb"} {
		_, err := driver(t, gitea.Config{URL: "https://forge.invalid/owner/name", Credential: forgetest.Known(secret)}).Mint(t.Context(), "mark")
		wantCode(t, err, sallyport.CodeInvalid)
	}
}
