// Package attacks is the corpus of attacks, one file each: CLASS/NAME.txtar. The format is internal/corpus's,
// which is the only one to read it.
package attacks

import "embed"

// Files is the corpus, in the program: who runs it has no sources.
//
//go:embed */*.txtar
var Files embed.FS
