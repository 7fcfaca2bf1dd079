// Command sallyport runs untrusted coding agents in disposable sandboxes and lets only a checked result out.
// The verbs are internal/cli's; this file only says what the program is made of.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"os/user"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/term"

	"sallyport.dev/sallyport/internal/cli"
	"sallyport.dev/sallyport/internal/contain"
	"sallyport.dev/sallyport/internal/control"
)

func main() {
	os.Exit(run())
}

func run() int {
	// net/http writes there what an upstream said out of turn, which can hold what it was sent.
	log.SetOutput(io.Discard)
	// What a shell left open must reach neither a driver nor a keeper: they outlive the terminal.
	if err := contain.SealDescriptors(); err != nil {
		fmt.Fprintln(os.Stderr, "sallyport:", err)
		return cli.ExitInternal
	}
	dir, err := os.Getwd()
	if err != nil {
		fmt.Fprintln(os.Stderr, "sallyport: the current folder cannot be found\nhint: cd to one that exists")
		return cli.ExitInvalid
	}
	e := cli.Env{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Dir: dir, Environ: os.Environ(), Who: who(), Root: os.Geteuid() == 0,
		Console: cli.OpenConsole(os.Stdin, os.Stdout), Signals: signals(), Open: open, Programs: programs,
	}
	stdout := int(os.Stdout.Fd())
	e.Raw = !term.IsTerminal(stdout)
	if e.Raw {
		e.Width = 400 // a file or a pipe: nothing is gained by cutting
	}
	e.Colour = !e.Raw && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	if cols, _, err := term.GetSize(stdout); err == nil {
		e.Width = cols
	}
	return cli.Main(context.Background(), e)
}

// open opens the user's state folder.
func open(ctx context.Context) (cli.Control, error) {
	state, err := control.StateFolder()
	if err != nil {
		return nil, err
	}
	c, err := control.Open(ctx, control.Config{State: state, Providers: providers, Driver: driver(state), Adopt: adopts(os.Args[1:])})
	if err != nil {
		return nil, err // not c: a nil *Control is not a nil interface
	}
	return c, nil
}

// adopts reports whether a command picks up what a crash left. A driver looks after one Attempt only, and what
// only looks (fsck, reconcile --dry-run) changes nothing; cancel and reconcile see to it themselves.
func adopts(args []string) bool {
	for _, a := range args {
		if !strings.HasPrefix(a, "-") {
			return slices.Contains([]string{"run", "ps", "attach", "wait", "logs", "retry"}, a)
		}
	}
	return false
}

// signals leaves SIGHUP alone where the caller had it ignored: under nohup a lost terminal stays unnoticed.
func signals() <-chan os.Signal {
	c := make(chan os.Signal, 4)
	signal.Notify(c, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(c, syscall.SIGHUP)
	}
	return c
}

// who is the name that decisions are recorded under.
func who() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return fmt.Sprintf("uid %d", os.Getuid())
}
