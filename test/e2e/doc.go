// Package e2e runs the real programs as a person does: the built binaries, real git, real toolchains, the
// real kernel, and judges exit codes, documents, messages and what is left behind. It holds tests only.
//
// It is not for what one room can show by itself: those tests stand beside the room.
package e2e
