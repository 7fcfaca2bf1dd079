// Package sim runs whole histories of Sallyport in memory, under virtual time, one step at a time: Mission Controls with
// drivers on one journal, reconcilers, Publishers on one ledger, a person, and what others have at the same provider. Any of
// them is crashed or paused between any two steps; answers are lost, come late or twice; lists lag and omit; sandboxes vanish.
// Laws (laws.go) are asked after every step, and once everything has come to rest.
//
// What decides is the real code: lifecycle's tables and fold, journal's rule of leases and fences, reconcile.Plan,
// decision.Decide, and the Publisher's State with its rules. What is only modelled are the places where these are stored or
// done: the journal's file (journal.go, held to journal/sqlite by TestJournalIsTheStore), sandboxes (provider.go, held to
// internal/provider/fake by TestProviderIsTheFake), a forge (forge.go), and the order of steps of internal/control and
// internal/publisher (mission.go, publish.go), which steps.go has as a table that tests compare with real runs.
//
// A seed gives one history. It is recorded as a list of choices, in which 0 is always the harmless one; a failing list is
// made shorter and can be kept in testdata, from where it is replayed.
package sim
