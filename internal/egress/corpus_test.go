package egress_test

import (
	"testing"

	"sallyport.dev/sallyport/internal/corpus/corpustest"
)

// TestCorpusNames makes the attacks of testdata/attacks that are this room's.
func TestCorpusNames(t *testing.T) { corpustest.Run(t, "host", "client-hello") }
