// Package sqlite keeps the journal in one SQLite file: the event log with its hash chain, the projections,
// and the leases, in one transaction. It is the embedded store; what events mean is internal/lifecycle's,
// what a journal promises is internal/journal's. It decides nothing and talks to no network.
//
// # Durability
//
// WAL with synchronous=FULL: Append returns after the write-ahead log has been synced. Concurrent appends
// of one process share a transaction, and so a sync; each runs in a savepoint of its own, so that a refused
// one takes nothing with it. Several processes may have the file open; they take turns at the write lock.
// SQLite's shared-memory index does not work over a network file system, which Open refuses.
//
// # Leases
//
// A lease is one row per Attempt: holder, fence, and its end on this boot's CLOCK_BOOTTIME. The fence comes
// from one counter for the whole file. A lease of another boot has expired.
//
// # The record, byte by byte
//
// The data of an event is the RFC 8785 canonical form of its payload's JSON ("null" where there is none).
// Integers beyond ±(2^53-1) are refused, because canonical JSON would round them.
//
// The hash of an event is SHA-256, written "sha256:" and 64 lower-case hexadecimal characters, over the
// RFC 8785 canonical form (UTF-8, no blank or newline anywhere, keys in UTF-16 order) of this object:
//
//	{"allocation":A,"at":T,"attempt":I,"data":D,"fence":F,"prev":P,"seq":N,"type":Y}
//
//	allocation  string; the key is absent where the event names no Allocation
//	at          string, RFC 3339 in UTC with nine fractional digits; for people
//	attempt     string; the key is absent where the event is of no Attempt
//	data        the data, as a JSON value and not as a string
//	fence       integer; the fence under which it was appended, 0 without a lease
//	prev        string; the hash of the event with seq N-1, "" where N is 1
//	seq         integer, 1, 2, 3, … without gaps
//	type        string
//
// That is the JSON form of lifecycle.Event without its hash, so `jq -cS 'del(.hash)'` gives the bytes for
// every event whose strings and numbers need no special rule.
package sqlite
