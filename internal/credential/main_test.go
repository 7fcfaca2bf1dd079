package credential

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"sallyport.dev/sallyport"
)

// TestMain lets the test program be another process that reads a login, and that ends itself at a step of the refresh
// as kill -9 would.
func TestMain(m *testing.M) {
	if home := os.Getenv("CREDENTIAL_TEST_HOME"); home != "" {
		os.Exit(readLogin(home))
	}
	os.Exit(m.Run())
}

func readLogin(home string) int {
	set, err := Open([]sallyport.Credential{of(sallyport.CredentialSource{Login: os.Getenv("CREDENTIAL_TEST_LOGIN")})},
		Deps{Home: home, Getenv: func(string) string { return "" }, Logins: os.DirFS(home + "/logins"), Now: time.Now})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	set.at = func(step string) {
		if step == os.Getenv("CREDENTIAL_TEST_KILL") {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	v, err := set.Value(context.Background(), "c")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Print(v.Reveal())
	return 0
}
