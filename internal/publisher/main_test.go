package publisher

import (
	"os"
	"testing"

	"sallyport.dev/sallyport/internal/forge/forgetest"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childPlan); path != "" {
		os.Exit(child(path))
	}
	code := m.Run()
	forgetest.EndShared()
	os.Exit(code)
}
