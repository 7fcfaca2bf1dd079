// Package providertest holds every implementation of internal/provider to its contract: one named subtest for
// each promise. Where implementations may differ it asks their Capabilities, never their name.
//
// It knows nothing of a substrate. What only one kind can promise (no mount left on the host, no descriptor
// inherited) is tested beside that kind.
package providertest
