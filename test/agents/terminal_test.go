package agents

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/test/world"
)

const detach = "\x10\x11"

// waits is a line that runs until it is interrupted; the shell's echo of it does not hold the word it prints.
const waits = "sh -c 'echo run''ning; exec sleep 1000'\r"

// sized is a line that prints the terminal's size as soon as it is this one: a change is on its way for a while.
func sized(size string) string {
	return "until [ \"$(stty size)\" = \"" + size + "\" ]; do sleep 0.05; done; stty size\r"
}

// TestTerminal: a person works in a shell inside, leaves it, comes back and ends it.
func TestTerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, os.Getuid())
	s := w.Terminal("", "run", "-it", "--name", "x", "--", "sh")
	s.Shows("$ ").Keys("echo $((6*7)); tty; stty size\r")
	s.Shows("\n42\n/dev/pts/0\n30 100\n")
	s.Keys(waits)
	s.Shows("running").Keys("\x03")
	s.Shows("$ ").Keys("echo status=$?\r")
	s.Shows("\nstatus=130\n")
	s.Resize(72, 21)
	s.Keys(sized("21 72"))
	s.Shows("\n21 72\n")
	s.Keys("here=there\r" + detach)
	s.Shows("detached; the attempt goes on: `sallyport attach")
	s.Exits(0)

	s = w.Terminal("", "attach")
	s.Shows("\n21 72\n") // what was on the screen comes again
	s.Keys("echo $here; " + sized("30 100"))
	s.Shows("\nthere\n30 100\n") // the same shell, at this terminal's size
	s.Keys("echo good > a; exit\r")
	s.Shows("ACCEPTED").Exits(0)
	if got := w.Git("show", "sallyport/x:a"); got != "good" {
		t.Errorf("the branch has %q", got)
	}
}

// TestHostileScreen: what a program does to the terminal stays within the screen, and is gone afterwards.
func TestHostileScreen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, os.Getuid())
	w.File("bad.sh", `
printf '\033[31mred\033[0m \033[1;5H\033[?1049h\033[2Jon the other screen\033[?1049l\033[5;10r'
printf '\033]0;TITLE\007\033]2;TITLE\033\\\033]52;c;Q0xJUEJPQVJE\007\033]8;;http://link.example/\033\\shown\033]8;;\033\\'
printf '\033[6n\033[5n\033[c\033[>c\033[=c\033[21t\033[18t\033[8;200;200t\033[?2031h\033[x\033P+q544e\033\\\033P$qm\033\\'
printf '\033_APC\033\\\033^PM\033\\\033XSOS\033\\\007\033[4i\033[5i\302\233c\302\2350;TITLE\302\234\233c\2350;EIGHT\234'
printf '\033c\033#8\033Z\005'
sleep 0.3; IFS= read -r -t 1 answer; stty raw -echo
printf '\033[?1049h\033[?25l\033[?1000h\033[?2004h\033[?1004h\033[?7l\033[5;10r\033(0\033[1;7;31m\033[4h\033[>4;2m\033[=5u\033]0;TITLE'
echo good > a
`)
	w.Git("add", "-A")
	w.Git("commit", "-q", "-m", "bad")
	s := w.Terminal("", "run", "-it", "--name", "x", "--", "bash", "bad.sh")
	s.Shows("ACCEPTED").Exits(0)
	raw := s.Bytes()
	for name, part := range map[string]string{"colour": "\x1b[31mred", "cursor": "\x1b[1;5H", "other screen": "\x1b[?1049h", "scroll region": "\x1b[5;10r", "text of a link": "shown"} {
		if !strings.Contains(raw, part) {
			t.Errorf("%s did not come through", name)
		}
	}
	for name, part := range map[string]string{
		"OSC": "\x1b]", "DCS": "\x1bP", "APC": "\x1b_", "PM": "\x1b^", "SOS": "\x1bX", "bell": "\a", "answerback": "\x05", "C1 CSI": "\u009b", "8-bit CSI": "\x9bc",
		"title": "TITLE", "clipboard": "Q0xJUEJPQVJE", "link": "link.example", "cursor report": "\x1b[6n", "status report": "\x1b[5n", "attributes": "\x1b[c", "more attributes": "\x1b[>c",
		"window": "\x1b[8;200;200t", "title report": "\x1b[21t", "colour scheme report": "2031", "print": "\x1b[5i", "full reset": "\x1bc", "alignment": "\x1b#8", "identify": "\x1bZ",
	} {
		if strings.Contains(raw, part) {
			t.Errorf("%s came through", name)
		}
	}
	// The page comes after the alternate screen was left, the cursor is back and colours are off. It has colours
	// of its own and nothing else.
	at := strings.LastIndex(raw[:strings.LastIndex(raw, "ACCEPTED")], "\n")
	if left := world.Modes(raw[:at]); len(left) > 0 {
		t.Errorf("our page was written with %q", left)
	}
	if page := sgr.ReplaceAllString(raw[at:], ""); strings.Contains(page, "\x1b") {
		t.Errorf("sequences in our page: %q", page)
	}
}

// TestScreenPrograms: programs that use the whole screen work, and one of them edits the file.
func TestScreenPrograms(t *testing.T) {
	t.Parallel()
	w := newWorld(t, os.Getuid())
	s := w.Terminal("", "run", "-it", "--name", "x", "--", "sh")
	s.Shows("$ ")
	ran := 0
	for _, p := range []struct{ program, command, shows, keys string }{
		{"less", "less sallyport.yaml", "sh t.sh", "q"},
		{"top", "top", "PID", "q"},
		{"vi", "vi a", "base", "ccgood\x1b:wq\r"},
	} {
		if _, err := exec.LookPath(p.program); err != nil {
			t.Logf("%s is not installed", p.program)
			continue
		}
		s.Keys(p.command + "\r")
		s.Shows(p.shows)
		time.Sleep(300 * time.Millisecond)
		s.Keys(p.keys)
		s.Shows("$ ") // what is typed before is flushed by some
		s.Keys("echo the end of " + strings.Repeat("x", 3) + "$((1+1))\r")
		s.Shows("the end of xxx2")
		ran++
	}
	if ran == 0 {
		t.Skip("none of less, top and vi is installed")
	}
	s.Keys("grep -qx good a || echo good > a; exit\r")
	s.Shows("ACCEPTED").Exits(0)
}

// TestTerminalInterrupted: a terminated follower leaves the terminal as it was; a lost terminal ends nothing.
func TestTerminalInterrupted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, os.Getuid())
	s := w.Terminal("", "run", "-it", "--name", "term", "--", "sh")
	s.Shows("$ ").Keys("printf '\\033[?1049h\\033[?25l\\033[33m'; echo x$((1+1))\r")
	s.Shows("x2")
	s.Signal(syscall.SIGTERM)
	s.Shows("CANCELLED").Exits(143)

	s = w.Terminal("", "run", "-it", "--name", "hup", "--", "sh", "-c", "echo there; sleep 2; echo good > a")
	s.Shows("there")
	s.HangUp()
	rep := w.Sallyport("wait", "--json").Want(0).Report()
	if rep.State != sallyport.AttemptAccepted || rep.Name != "hup" {
		t.Errorf("after the terminal was lost: %s of %s", rep.State, rep.Name)
	}
}

// TestShell: a shell on a result; what happens there stays there.
func TestShell(t *testing.T) {
	t.Parallel()
	w := newWorld(t, os.Getuid())
	rep := w.Sallyport("run", "--json", "--name", "x", "--", "sh", "-c", "echo good > a").Want(0).Report()
	s := w.Terminal("", "shell", string(rep.Attempt))
	s.Shows("(sandbox) $ ").Keys("cat a; stty size\r")
	s.Shows("\ngood\n30 100\n")
	s.Keys(waits)
	s.Shows("running").Keys("\x03")
	s.Shows("(sandbox) $ ").Keys("echo status=$?; echo bad > a; printf '\\033]0;%s\\007' TI''TLE\r")
	s.Shows("\nstatus=130\n")
	s.Resize(72, 21)
	s.Keys(sized("21 72"))
	s.Shows("\n21 72\n")
	s.Keys("printf '\\033[?1049h\\033[?25l'; exit 3\r")
	s.Exits(3)
	if strings.Contains(s.Bytes(), "\x1b]") || strings.Contains(s.Bytes(), "TITLE") {
		t.Error("a title came through")
	}
	if got := w.Git("show", "sallyport/x:a"); got != "good" {
		t.Errorf("the branch has %q", got)
	}
}

// TestDriverKilledInSession: the person's terminal comes back to the same shell when the next driver is there.
func TestDriverKilledInSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t, os.Getuid())
	s := w.Terminal("", "run", "-it", "--name", "x", "--", "sh")
	s.Shows("$ ").Keys("here=there; echo x$((1+1))\r")
	s.Shows("x2")
	w.Kill(w.Driver())
	deadline := time.Now().Add(30 * time.Second)
	for err := error(nil); ; {
		s.Keys("echo $here\r")
		if err = s.Look("\nthere\n", time.Second); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	s.Keys("echo good > a; exit\r")
	s.Shows("ACCEPTED").Exits(0)
}

// TestDriverReplacedInSession: the next driver is at work before the session hears of the last one's end.
func TestDriverReplacedInSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t, os.Getuid())
	s := w.Terminal("", "run", "-it", "--name", "x", "--", "sh")
	s.Shows("$ ").Keys("here=there; echo x$((1+1))\r")
	s.Shows("x2")
	s.Signal(syscall.SIGSTOP)
	w.Kill(w.Driver())
	other := w.Terminal("", "attach")
	other.Shows("x2")
	s.Signal(syscall.SIGCONT)
	s.Shows("x2").Keys("echo $here\r")
	s.Shows("\nthere\n").Keys("echo good > a; exit\r")
	s.Shows("ACCEPTED").Exits(0)
	other.Exits(0)
}

// TestPipedShell: commands from a pipe end with it, also where a program of theirs has read the end itself.
func TestPipedShell(t *testing.T) {
	t.Parallel()
	w := newWorld(t, os.Getuid())
	rep := w.Sallyport("run", "--json", "--name", "x", "--", "sh", "-c", "echo good > a").Want(0).Report()
	for _, script := range []string{`cat a\n`, `cat a`, `cat a; cat`} {
		r := w.Command("", "sh", "-c", `printf "$1" | timeout 60 "$0" shell "$2"`, w.Program(), script, string(rep.Attempt)).Want(0)
		if !strings.Contains(r.Out, "good\n") {
			t.Errorf("%q: %q", script, r.Out)
		}
	}
	w.Command("", "sh", "-c", `echo 'exit 4' | "$0" shell "$1"`, w.Program(), string(rep.Attempt)).Want(4)
}

// TestRetryAtTerminal: the retry of a session is one.
func TestRetryAtTerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, os.Getuid())
	s := w.Terminal("", "run", "-it", "--name", "x", "--", "sh")
	s.Shows("$ ").Keys("echo bad > a; exit\r")
	s.Shows("REJECTED").Exits(20)
	rep := w.Sallyport("show", "--json").Want(0).Report()
	s = w.Terminal("", "retry", string(rep.Attempt))
	s.Shows("$ ").Keys("cat a; echo good > a; exit\r")
	s.Shows("\nbad\n").Shows("ACCEPTED").Exits(0)
}
