// Package secret knows what a credential looks like: Scan finds known formats in a text, Named and FromFile say
// which of a person's own values are to be treated as secret.
//
// It talks to no network: whether a credential is live is never tried. It reads no configuration and no
// "ignore" comment of the text it looks at: that text is written by who would hide something. What a hit means
// for a change is internal/inspect's business; taking known values out of a stream is internal/screen's.
//
// The formats are a table of our own, for what is issued most and where others miss something, and the rule
// data of gitleaks (known/rules.json, MIT, see known/LICENSE), read by an engine of our own: see
// docs/decisions/secret-formats.md. `tools/secretpeer -rules` writes that file anew.
package secret
