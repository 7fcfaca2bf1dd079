package wire_test

import (
	"testing"

	"sallyport.dev/sallyport/internal/corpus/corpustest"
)

// TestCorpusHellos makes the attacks of testdata/attacks that are this room's.
func TestCorpusHellos(t *testing.T) { corpustest.Run(t, "hello") }
