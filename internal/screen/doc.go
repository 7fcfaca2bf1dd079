// Package screen is everything that a person sees: bytes of an agent, a repository or a check are neutralised
// here before they reach a terminal, and the last page of a run is laid out here.
//
// Text, Line and NewWriter are for what is read as text, Source and NewSourceWriter for what is reviewed;
// TerminalFilter is for an interactive session, whose screen belongs to the agent while it lasts; Redactor takes
// known secrets out of a stream. For output that is kept or shown the order is redact, neutralise, redact: the
// first pass meets the bytes as they were written, the second what a person would read once control sequences
// inside a secret are gone.
//
// It decides nothing and finds nothing (see internal/inspect), and it writes to no terminal by itself.
package screen
