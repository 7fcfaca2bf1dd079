package providertest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The suite's commands are acts: a word and its arguments. What a substrate starts for one is its own matter:
// one that runs programs uses Shell, one that runs functions plays them itself.
const (
	ActExit     = "exit"     // N: ends with status N
	ActSignal   = "signal"   // NAME: ends itself by SIGNAME
	ActPrint    = "print"    // N: Numbers(N) at once
	ActDrip     = "drip"     // N: Numbers(N), one line in about 10 ms
	ActWait     = "wait"     // "ready", then nothing until it is ended; ignores SIGTERM
	ActSleep    = "sleep"    // N: becomes a program with the argument N that does nothing
	ActMark     = "mark"     // appends "ran" to ran.txt and prints that file
	ActEdit     = "edit"     // makes Edited of Base
	ActLinger   = "linger"   // starts what does not want to end (new sessions, orphans, SIGTERM ignored), "ready", waits
	ActOrphans  = "orphans"  // the same, but ends with status 0 after "ready"
	ActMissing  = "missing"  // a program that is not there
	ActMemory   = "memory"   // takes memory without end
	ActPIDs     = "pids"     // N: tries to have N processes at once, printing the count reached
	ActDisk     = "disk"     // writes 256 MiB, "written", then waits
	ActTerminal = "terminal" // "ready", answers each line with "got LINE", after "end" prints "rows cols"
	ActDial     = "dial"     // PORT: sends "ping" to 127.0.0.1:PORT and prints the line that comes back
	ActEnv      = "env"      // prints its environment, sorted, NAME=VALUE a line
)

// MissingProgram is what ActMissing names.
const MissingProgram = "no-such-program-anywhere"

// Numbers is the decimal numbers from 1 to n, one a line.
func Numbers(n int) []byte {
	var b []byte
	for i := 1; i <= n; i++ {
		b = append(strconv.AppendInt(b, int64(i), 10), '\n')
	}
	return b
}

const lingerers = `
( setsid sh -c 'trap "" TERM HUP INT; while :; do echo tick >> ticks; sleep 0.05; done' & )
( ( trap "" TERM HUP INT; while :; do echo alive; sleep 0.05; done ) & )
setsid sh -c 'trap "" TERM; exec sleep 1000' &
echo ready
`

var scripts = map[string]string{
	ActExit:     `exit "$1"`,
	ActSignal:   `kill -"$1" $$; sleep 10`,
	ActPrint:    `seq 1 "$1"`,
	ActDrip:     `i=1; while [ $i -le "$1" ]; do echo $i; i=$((i+1)); sleep 0.01; done`,
	ActWait:     `trap "" TERM; echo ready; while :; do sleep 1; done`,
	ActSleep:    `exec sleep "$1"`,
	ActMark:     `echo ran >> ran.txt; cat ran.txt`,
	ActEdit:     `mkdir added && echo new > added/new.txt && echo edited > edit.txt && rm gone.txt && chmod 755 mode.sh && ln -sfn added/new.txt link`,
	ActLinger:   lingerers + `trap "" TERM; while :; do sleep 1; done`,
	ActOrphans:  lingerers,
	ActMemory:   `x=xxxxxxxxxxxxxxxx; while :; do x=$x$x; done`,
	ActPIDs:     `i=0; while [ $i -lt "$1" ]; do sleep 100 & i=$((i+1)); echo $i; done 2>/dev/null`,
	ActDisk:     `dd if=/dev/zero of=big bs=1M count=256 2>/dev/null; echo written; while :; do sleep 1; done`,
	ActTerminal: `echo ready; while read -r l; do [ "$l" = end ] && break; echo "got $l"; done; stty size`,
	ActDial:     `exec bash -c 'exec 3<>/dev/tcp/127.0.0.1/$1; echo ping >&3; read -r l <&3; echo "$l"' dial "$1"`,
	ActEnv:      `env | sort`,
}

// Shell is an act as a program's arguments, for substrates that run programs: it takes sh, the usual small
// tools and, for ActDial, bash. It panics for a word that is no act.
func Shell(act ...string) []string {
	if act[0] == ActMissing {
		return []string{MissingProgram}
	}
	s, ok := scripts[act[0]]
	if !ok {
		panic(fmt.Sprintf("%q is no act", act[0]))
	}
	return append([]string{"sh", "-c", s}, act...)
}

// Base is the tree that every sandbox of the suite starts from. A name with "-> " in its content is a link.
func Base() map[string]string {
	return map[string]string{"keep.txt": "kept\n", "edit.txt": "before\n", "gone.txt": "to go\n", "mode.sh": "#!/bin/sh\n", "link": "-> keep.txt"}
}

// Edited is what ActEdit changes, as Read shows it.
func Edited() []string {
	return []string{`file added/new.txt 100644 "new\n"`, `file edit.txt 100644 "edited\n"`, `delete gone.txt`, `link link added/new.txt`, `file mode.sh 100755 "#!/bin/sh\n"`}
}

// WriteBase writes Base to dir.
func WriteBase(dir string) error {
	for name, content := range Base() {
		path := filepath.Join(dir, name)
		var err error
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			err = os.Symlink(target, path)
		} else {
			err = os.WriteFile(path, []byte(content), 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
