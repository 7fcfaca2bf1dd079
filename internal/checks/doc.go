// Package checks says what can be learned about a check without trusting it: how many tests its output
// claims (Read), whether they could be built at all (BuildFailed), which small faults it would have to notice
// (Faults), where its tests got easier to pass (Weakened), and which files its runner loads by itself
// (Loaded).
//
// It reads bytes and answers; it starts nothing, opens nothing and knows no git. A count that it reads is a
// claim of the code that was checked. Whoever uses it may let such a claim spoil a pass, never make one.
package checks
