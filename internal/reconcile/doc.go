// Package reconcile concludes what to do from three things: what the providers list, what the journal says,
// and which leases are live. It is pure: no I/O, no clock. It carries nothing out; internal/control does,
// and looks again before each destructive step, because the world moves on while a plan is read.
//
// The rules, in the order of their weight:
//
//   - A resource of an Attempt with a live lease is never destroyed, whatever else is wrong with it.
//   - A resource whose Attempt has not ended is never destroyed: it may hold a workspace nobody has
//     collected yet. The Attempt is adopted, and its driver decides.
//   - A resource without live authority becomes orphaned and is destroyed by its exact id.
//   - Absence from a list proves nothing. What the journal has open and no provider lists is looked up.
//   - What cannot be attributed, or is said in two ways, is reported and left alone.
//
// List first, then read the journal: an intent precedes its resource, so whatever was listed is known to a
// journal that is read later. The other way round a sandbox just being made would look like a leftover.
package reconcile
