package gateway

import (
	"os"
	"testing"

	"sallyport.dev/sallyport/internal/gateway/gatewaytest"
)

func TestMain(m *testing.M) {
	gatewaytest.Main()
	os.Exit(m.Run())
}
