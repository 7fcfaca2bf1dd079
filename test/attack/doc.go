// Package attack holds attempts to break a finished run, made with the real programs: by the agent in its
// sandbox, by a candidate in a check, by a hostile repository, by another user of the machine. Each is a case
// of a table that says what must happen instead. What attacks is cmd/sallyport-hostile.
package attack
