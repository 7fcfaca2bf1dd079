package evidence_test

import (
	"testing"

	"sallyport.dev/sallyport/internal/corpus/corpustest"
)

// TestCorpusReceipts makes the attacks of testdata/attacks that are this room's.
func TestCorpusReceipts(t *testing.T) { corpustest.Run(t, "receipt") }
