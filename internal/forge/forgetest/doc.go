// Package forgetest is what tests of forge drivers share: the suite that says in tests what forge.Driver says in words
// (Conform), and a real Gitea on loopback (Start). Only tests import it.
//
// Not for a forge that only mints tokens (internal/credential/credentialtest).
package forgetest
