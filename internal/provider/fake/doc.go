// Package fake is a provider in memory whose misbehaviour can be scripted. It keeps internal/provider's
// contract (providertest holds it to it) until a test tells it otherwise: it can fail before or after the
// deed, stall, do things late, list what is not there and omit what is, lose sandboxes, and cut wires.
//
// A command is a Go function (Program). It runs in the test's own process: nothing is contained, and a
// Program that does not heed its context is only forgotten, not killed. The wire is the real one over a pipe
// in memory.
package fake
