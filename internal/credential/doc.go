// Package credential reads the secrets that the gateway puts into requests, at the moment they are needed and on the
// trusted side alone: variables, files, commands, tokens minted of a GitHub App, and the login files of
// subscriptions. It makes the placeholders that the sandbox holds instead.
//
// It is not for deciding who may use a credential (internal/manifest), for putting one into a request
// (internal/gateway), or for finding unknown ones (internal/secret). What it tells the journal goes through Ledger.
package credential
