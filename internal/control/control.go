// Package control is Mission Control: it owns claim, lifecycle, evidence and acceptance, and carries out
// what the pure rooms decide. All rooms meet here; it sees providers only through their contract.
//
// A command line submits and follows; a driver, in a session of its own, holds the lease and does the work.
// Any process may open the same state folder. Everything a driver does is: intent durable, effect under a
// name derived from the intent, outcome durable; so any other driver can go on from any instruction.
package control

import (
	"context"
	"os"
	"path/filepath"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/evidence"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/journal/sqlite"
	"sallyport.dev/sallyport/internal/provider"
)

// Config is what the command line knows and Mission Control needs.
type Config struct {
	// State is the state folder (0700). See StateFolder.
	State string
	// Providers makes the list of providers for a factory; only cmd/sallyport knows their kinds.
	Providers func(f sallyport.FactoryID, state string) ([]provider.Provider, error)
	// Adopt: opening also starts drivers for live Attempts whose last driver is dead. For commands of a
	// person; not for drivers themselves.
	Adopt bool
	// Driver starts a driver process for an Attempt, in a session of its own, and returns once it runs. variables
	// are those of this process's environment that the Attempt's credentials are read from.
	Driver func(id sallyport.AttemptID, log *os.File, variables []string) error
}

// StateFolder is $SALLYPORT_STATE, else $XDG_STATE_HOME/sallyport, else ~/.local/state/sallyport.
func StateFolder() (string, error) {
	if s := os.Getenv("SALLYPORT_STATE"); s != "" {
		return filepath.Abs(s)
	}
	if s := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(s) {
		return filepath.Join(s, "sallyport"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", &sallyport.Error{Op: "state folder", Code: sallyport.CodeInvalid, Message: "no home folder", Hint: "set SALLYPORT_STATE", Err: err}
	}
	return filepath.Join(home, ".local", "state", "sallyport"), nil
}

// Control is one open state folder.
type Control struct {
	cfg       Config
	factory   sallyport.FactoryID
	journal   *sqlite.DB
	providers map[string]provider.Provider
	keys      *evidence.Keyring
}

// Journal gives read access to the record.
func (c *Control) Journal() journal.Journal { return c.journal }

// Factory is this state folder's identity.
func (c *Control) Factory() sallyport.FactoryID { return c.factory }

// Attempt resolves an id or a unique prefix.
func (c *Control) Attempt(ctx context.Context, prefix string) (journal.Attempt, error) {
	return c.journal.Find(ctx, prefix)
}
