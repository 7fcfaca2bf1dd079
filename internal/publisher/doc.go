// Package publisher is the other side of the last door: a process of its own, with an identity, keys and a journal of its
// own, that publishes what a signed acceptance names and decides nothing.
//
// One request is one acceptance (internal/evidence), its evidence, the pack of its one commit (change.ReadHandover) and the
// approvals of people. Everything in it is verified before any credential exists. What comes back is a signed receipt.
//
// Each effect is intended in the ledger, done under a name that the intent gives, and its outcome recorded: a request that
// is repeated after a crash finds what was done and goes on. There is one branch and at most one open pull request for a
// WorkOrder and target.
package publisher
