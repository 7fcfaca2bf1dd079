package change_test

import (
	"testing"

	"sallyport.dev/sallyport/internal/corpus/corpustest"
)

// TestCorpusHandovers makes the attacks of testdata/attacks that are this room's.
func TestCorpusHandovers(t *testing.T) { corpustest.Run(t, "handover") }
