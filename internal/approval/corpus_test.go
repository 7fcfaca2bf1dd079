package approval_test

import (
	"testing"

	"sallyport.dev/sallyport/internal/corpus/corpustest"
)

// TestCorpusApprovals makes the attacks of testdata/attacks that are this room's.
func TestCorpusApprovals(t *testing.T) { corpustest.Run(t, "approval") }
