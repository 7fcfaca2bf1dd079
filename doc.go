// Package sallyport is the vocabulary of Sallyport: the nouns that every room shares, and nothing else.
//
// It holds WorkOrder, Manifest, Attempt, Allocation, Receipt, Finding, Check, Decision, Digest, Error and
// their wire names. It does no I/O, reads no clock, starts no goroutine and imports only the standard
// library. Behaviour lives in the rooms under internal/; see docs/ARCHITECTURE.md for the map.
package sallyport
