package publication_test

import (
	"testing"

	"sallyport.dev/sallyport/internal/corpus/corpustest"
)

// TestCorpusRequests makes the attacks of testdata/attacks that are this room's.
func TestCorpusRequests(t *testing.T) { corpustest.Run(t, "publication-request") }
