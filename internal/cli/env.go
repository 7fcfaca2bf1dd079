package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"sallyport.dev/sallyport/internal/screen"
)

// Env is everything a run of the command line touches.
type Env struct {
	Args           []string // without the program's name
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Dir            string   // where the user stands
	Environ        []string // the user's environment
	Who            string   // the user's name, for the journal
	Root           bool     // may change this machine (doctor --fix)
	Version        string   // empty: from the build
	Console        Console  // the user's terminal; nil: there is none
	Colour         bool     // whether stdout shows colours
	Raw            bool     // whether stdout is a file or pipe, where exact bytes do no harm
	Width          int      // columns of stdout; 0: not known
	Signals        <-chan os.Signal
	// Open opens Mission Control. Verbs that need no state never call it.
	Open func(context.Context) (Control, error)
	// Programs says where this program and the others are.
	Programs func() (self, libexec string, err error)
}

// app is one run of the command line.
type app struct {
	Env
	signals  *signals
	terminal *restorer
	printed  bool // the one JSON document is on stdout
}

// Main runs one command line and returns its exit code. It never panics; what went wrong is on e.Stderr.
func Main(ctx context.Context, e Env) int {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a := &app{Env: e, signals: newSignals(cancel), terminal: &restorer{}}
	defer a.terminal.restore()
	stop := a.signals.listen(e.Signals)
	defer stop()
	done := make(chan int, 1)
	go func() { done <- a.execute(ctx) }()
	select {
	case code := <-done:
		return code
	case code := <-a.signals.now: // the second signal: nothing is waited for
		return code
	}
}

func (a *app) execute(ctx context.Context) (code int) {
	defer func() {
		if p := recover(); p != nil {
			a.terminal.restore()
			// The stack would tell a person nothing and may hold what they typed.
			fmt.Fprintln(a.Stderr, "sallyport: internal error: "+screen.Line(fmt.Sprint(p)))
			fmt.Fprintln(a.Stderr, "hint: the attempt, if one was started, goes on: sallyport ps; please report this line")
			code = ExitInternal
		}
	}()
	root := a.root()
	root.SetArgs(append([]string{}, a.Args...)) // nil would mean the process's own
	verb, err := root.ExecuteContextC(ctx)
	if cause := context.Cause(ctx); err != nil && errors.Is(err, context.Canceled) && cause != nil {
		err = cause
	}
	a.terminal.restore()
	complain(a.Stderr, err)
	if err != nil && !a.printed && a.reportDue(verb) {
		a.writeReport(refusalReport(err))
	}
	return ExitCodeOf(err)
}

// jsonReport marks the verbs whose --json promises one Report, whatever happens.
const jsonReport = "report"

// reportDue also looks at the bare arguments: the flags may be what could not be read.
func (a *app) reportDue(verb *cobra.Command) bool {
	if _, ok := verb.Annotations[jsonReport]; !ok {
		return false
	}
	args := a.Args
	if dash := slices.Index(args, "--"); dash >= 0 {
		args = args[:dash]
	}
	f := verb.Flags().Lookup("json")
	return slices.Contains(args, "--json") || f != nil && f.Value.String() == "true"
}

// open is Env.Open with a check for a caller that forgot it.
func (a *app) open(ctx context.Context) (Control, error) {
	if a.Open == nil {
		return nil, errors.New("this program was built without Mission Control")
	}
	return a.Open(ctx)
}

// getenv reads the user's environment.
func (a *app) getenv(name string) string {
	v, _ := a.lookupEnv(name)
	return v
}

// lookupEnv tells empty from not set; the last of two equal names counts, as for a process.
func (a *app) lookupEnv(name string) (string, bool) {
	for _, kv := range slices.Backward(a.Environ) {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v, true
		}
	}
	return "", false
}

func (a *app) version() string {
	if a.Version != "" {
		return a.Version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(unknown)"
}
