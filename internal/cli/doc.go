// Package cli is the command line: verbs, flags, words, exit codes and what happens on a signal.
//
// It turns flags into a WorkOrder, hands it to Mission Control (the Control interface), follows the Attempt
// and shows its end. It owns the user's terminal while a session lasts and restores it whatever happens.
//
// It is not for deciding anything (internal/control), for laying out or neutralising what a person sees
// (internal/screen), or for checking values that also occur in files (internal/manifest). Everything that
// comes from a repository, an agent or an error passes internal/screen before it is written.
package cli
