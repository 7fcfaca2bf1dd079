// Package secret knows what a credential looks like: Scan finds known formats in a text, Named and FromFile say
// which of a person's own values are to be treated as secret.
//
// It talks to no network: whether a credential is live is never tried. It reads no configuration and no
// "ignore" comment of the text it looks at: that text is written by who would hide something. What a hit means
// for a change is internal/inspect's business; taking known values out of a stream is internal/screen's.
//
// The engine and most rules are those of gitleaks, linked as a library (engine.go). Ours are rules for what it
// misses (format.go), and the readings of a text in which it would not recognise anything (view.go, decode.go):
// see docs/decisions/secret-formats.md.
package secret
