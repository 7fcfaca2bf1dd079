package collect_test

import (
	"testing"

	"sallyport.dev/sallyport/internal/corpus/corpustest"
)

// TestCorpusStreams makes the attacks of testdata/attacks that are this room's.
func TestCorpusStreams(t *testing.T) { corpustest.Run(t, "change-stream") }
