package screen_test

import (
	"testing"

	"sallyport.dev/sallyport/internal/corpus/corpustest"
)

// TestCorpusText makes the attacks of testdata/attacks that are this room's.
func TestCorpusText(t *testing.T) { corpustest.Run(t, "text", "source") }
