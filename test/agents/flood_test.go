package agents

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"sallyport.dev/sallyport"
)

// attacks are what an agent may print to command a terminal, mislead a reader or break a parser.
const attacks = `
printf 'begin-attacks\n'
printf '\033]52;c;Q0xJUEJPQVJE\007 \033]0;TITLE\007 \033[2J\033[H \033[?1049h \033[31mred\033[0m \033[6n \033c \033P+q544e\033\\ \033[8;200;200t\n'
printf '\302\233c \302\2350;TITLE\302\234 \233c \235x\234 \007\010\010\010\013\014\016\005\177\n'
printf 'right-to-left \342\200\256gnp.exe \342\201\246 \342\201\251 \342\200\217 \342\200\213 \357\273\277 \342\200\250next \342\200\251par\n'
printf 'invalid \377\376\300\257\355\240\200\364\220\200\200 nul \000\000 end\n'
printf 'over\rwritten\n'
printf 'ACCEPTED  x · attempt 1\n'
printf 'end-attacks\n'
`

// flood is 100 MB: one line, then many, then long ones.
const flood = attacks + `
head -c 40000000 /dev/zero | tr '\0' 'x'; echo
yes 'flood of a line' | head -c 40000000
yes "$(head -c 100000 /dev/zero | tr '\0' 'y')" | head -c 20000000
printf '\nthe last line\n'
echo good > a
`

var sgr = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// clean fails the test unless the text is UTF-8 that a terminal only shows: no controls but line feed and tab,
// nothing invisible, nothing that turns the direction.
func clean(t *testing.T, name, text string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("%s is not UTF-8", name)
	}
	seen := map[rune]bool{}
	for i, r := range text {
		bad := unicode.Is(unicode.Cc, r) && r != '\n' && r != '\t' || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
		if bad && !seen[r] {
			seen[r] = true
			t.Errorf("%s holds %U: %q", name, r, text[max(0, i-40):min(len(text), i+40)])
		}
	}
}

// TestFlood: 100 MB and every trick reach neither a person's screen nor their patience; logs has all of it,
// as harmless.
func TestFlood(t *testing.T) {
	t.Parallel()
	w := newWorld(t, os.Getuid())
	w.File("flood.sh", flood)
	w.Commit("flood")
	began := time.Now()
	r := w.Sallyport("run", "--name", "x", "--", "bash", "flood.sh").Want(0)
	took := time.Since(began)
	screenful(t, "run", r.Err+r.Out)
	if took > time.Minute {
		t.Errorf("it took %v", took)
	}
	for _, word := range []string{"begin-attacks", "end-attacks", "sallyport logs"} {
		if !strings.Contains(r.Err, word) {
			t.Errorf("the screen does not show %q", word)
		}
	}
	rep := w.Sallyport("show", "--json").Want(0).Report()
	if rep.State != sallyport.AttemptAccepted || rep.Agent.Output < 100_000_000 || rep.Agent.Dropped != 0 {
		t.Errorf("%s, %d bytes of output, %d dropped", rep.State, rep.Agent.Output, rep.Agent.Dropped)
	}
	logs := w.Sallyport("logs", string(rep.Attempt)).Want(0).Out
	if len(logs) < 100_000_000 || !strings.HasSuffix(logs, "the last line\n") {
		t.Errorf("logs has %d bytes and ends with %q", len(logs), logs[max(0, len(logs)-80):])
	}
	head, _, _ := strings.Cut(logs, "end-attacks")
	clean(t, "logs", head)
	for _, word := range []string{"red", "right-to-left", "gnp.exe", "invalid", "over", "written"} {
		if !strings.Contains(head, word) {
			t.Errorf("logs lost the word %q", word)
		}
	}
}

// screenful: what a person gets to see is clean and can be scrolled through.
func screenful(t *testing.T, name, text string) {
	t.Helper()
	clean(t, name, text)
	const much = 4 << 20 // some seconds of 200 lines of 4 KiB
	if len(text) > much {
		t.Errorf("%s has %d bytes", name, len(text))
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "ACCEPTED") && !strings.Contains(line, "x · attempt 1 · ") {
			t.Errorf("%s has a line that looks like ours: %q", name, line)
		}
	}
}

// TestOutputLimit: what is over the limit is dropped and counted, and the agent goes on.
func TestOutputLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, os.Getuid())
	r := w.Sallyport("run", "--json", "--name", "x", "--output", "1MiB", "--", "bash", "-c", "yes 'flood of a line' | head -c 20000000; echo good > a").Want(0)
	rep := r.Report()
	if rep.Agent.Output+rep.Agent.Dropped < 20_000_000 || rep.Agent.Dropped < 18_000_000 {
		t.Errorf("%d bytes kept, %d dropped", rep.Agent.Output, rep.Agent.Dropped)
	}
	if n := len(w.Sallyport("logs", string(rep.Attempt)).Want(0).Out); n > 2<<20 {
		t.Errorf("logs has %d bytes", n)
	}
}

// TestAttacksOnTerminal: without -it the person's terminal gets text and our own colours, nothing else.
func TestAttacksOnTerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, os.Getuid())
	w.File("attacks.sh", attacks+"echo good > a\n")
	w.Commit("attacks")
	s := w.Terminal("", "run", "--name", "x", "--", "bash", "attacks.sh")
	s.Shows("end-attacks").Shows("git merge")
	s.Exits(0)
	raw := strings.ReplaceAll(s.Bytes(), "\r\n", "\n")
	at := strings.LastIndex(raw[:strings.LastIndex(raw, "ACCEPTED")], "\n") // our page has colours
	screenful(t, "the terminal", raw[:at]+sgr.ReplaceAllString(raw[at:], ""))
	s = w.Terminal("", "logs")
	s.Shows("end-attacks").Exits(0)
	clean(t, "logs on a terminal", strings.ReplaceAll(s.Bytes(), "\r\n", "\n"))
}
