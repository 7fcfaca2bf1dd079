// Package fault runs the real programs, unchanged, and stops one kind of their processes at one system call: kills it
// before or after the call, or has the call answer with an error, whether it was done or not. It sees each effect that
// such a process has on anything beside itself, with the function of this module that makes it.
//
// It is a tracer (ptrace): one thread of it, for as long as the command line and all that came of it live. It needs to be
// root, since keepers cannot be looked at by anybody else, and an amd64 kernel, whose registers it knows. Agents and checks,
// git and every other program that is not ours run untouched.
//
// Not for what may be left behind, which test/crash judges.
package fault

// Party is a kind of process.
type Party string

// The parties, in the order in which one starts another.
const (
	Command   Party = "command" // the program that a person called, until it ends
	Driver    Party = "driver"  // with the gateway in it
	Publisher Party = "publisher"
	Keeper    Party = "keeper"
	Runner    Party = "runner"
)

// Parties are all.
var Parties = []Party{Command, Driver, Publisher, Keeper, Runner}

// Column is what happens at a call.
type Column string

// The columns of the matrix.
const (
	Before  Column = "before"   // killed; the call was not made
	After   Column = "after"    // killed; the call was made
	Lost    Column = "lost"     // the call was made, and answers with an error
	Refused Column = "not done" // the call was not made, and answers with an error
)

// Columns are all.
var Columns = []Column{Before, After, Lost, Refused}

// Kills reports whether the process is dead afterwards.
func (c Column) Kills() bool { return c == Before || c == After }

// Point is a place in the program at which it has an effect.
type Point struct {
	Party Party
	By    string // the functions of ours that are under way, the innermost first: "control.writeDurable < control.driver.intend"
	Call  string // the system call
	On    string // what it is done to: a path with a word in place of each id, or a kind of socket
}

func (p Point) String() string {
	return string(p.Party) + "\t" + p.Call + "\t" + p.On + "\t" + p.By
}

// Seen is how often a point was passed, and which of these times the call did what it was asked to.
type Seen struct {
	Times       int
	First, Last int // 0: never
}
