package agents

import (
	"encoding/json"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"sallyport.dev/sallyport"
)

const detach = "\x10\x11"

// waits is a line that runs until it is interrupted; the shell's echo of it does not hold the word it prints.
const waits = "sh -c 'echo run''ning; exec sleep 1000'\r"

// TestTerminal: a person works in a shell inside, leaves it, comes back and ends it.
func TestTerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.terminal("", "run", "-it", "--name", "x", "--", "sh")
	s.shows("$ ").keys("echo $((6*7)); tty; stty size\r")
	s.shows("\n42\n/dev/pts/0\n30 100\n")
	s.keys(waits)
	s.shows("running").keys("\x03")
	s.shows("$ ").keys("echo status=$?\r")
	s.shows("\nstatus=130\n")
	s.resize(72, 21)
	time.Sleep(300 * time.Millisecond)
	s.keys("stty size\r")
	s.shows("\n21 72\n")
	s.keys("here=there\r" + detach)
	s.shows("detached; the attempt goes on: `sallyport attach")
	s.exits(0)

	s = w.terminal("", "attach")
	s.shows("\n21 72\n") // what was on the screen comes again
	time.Sleep(300 * time.Millisecond)
	s.keys("echo $here; stty size\r")
	s.shows("\nthere\n30 100\n") // the same shell, at this terminal's size
	s.keys("echo good > a; exit\r")
	s.shows("ACCEPTED").exits(0)
	if got := w.git("show", "sallyport/x:a"); got != "good" {
		t.Errorf("the branch has %q", got)
	}
}

// TestHostileScreen: what a program does to the terminal stays within the screen, and is gone afterwards.
func TestHostileScreen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.file("bad.sh", `
printf '\033[31mred\033[0m \033[1;5H\033[?1049h\033[2Jon the other screen\033[?1049l\033[5;10r'
printf '\033]0;TITLE\007\033]2;TITLE\033\\\033]52;c;Q0xJUEJPQVJE\007\033]8;;http://link.example/\033\\shown\033]8;;\033\\'
printf '\033[6n\033[5n\033[c\033[>c\033[=c\033[21t\033[18t\033[8;200;200t\033[?2031h\033[x\033P+q544e\033\\\033P$qm\033\\'
printf '\033_APC\033\\\033^PM\033\\\033XSOS\033\\\007\033[4i\033[5i\302\233c\302\2350;TITLE\302\234\233c\2350;EIGHT\234'
printf '\033c\033#8\033Z\005'
sleep 0.3; IFS= read -r -t 1 answer; stty raw -echo
printf '\033[?1049h\033[?25l\033[?1000h\033[?2004h\033[?1004h\033[?7l\033[5;10r\033(0\033[1;7;31m\033[4h\033[>4;2m\033[=5u\033]0;TITLE'
echo good > a
`)
	w.git("add", "-A")
	w.git("commit", "-q", "-m", "bad")
	s := w.terminal("", "run", "-it", "--name", "x", "--", "bash", "bad.sh")
	s.shows("ACCEPTED").exits(0)
	raw := s.bytes()
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
	if left := modes(raw[:at]); len(left) > 0 {
		t.Errorf("our page was written with %q", left)
	}
	if page := attribute.ReplaceAllString(raw[at:], ""); strings.Contains(page, "\x1b") {
		t.Errorf("sequences in our page: %q", page)
	}
}

// TestScreenPrograms: programs that use the whole screen work, and one of them edits the file.
func TestScreenPrograms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.terminal("", "run", "-it", "--name", "x", "--", "sh")
	s.shows("$ ")
	ran := 0
	for _, p := range []struct{ program, command, shows, keys string }{
		{"less", "less sallyport.yaml", "sh test.sh", "q"},
		{"top", "top", "PID", "q"},
		{"vi", "vi a", "base", "ccgood\x1b:wq\r"},
	} {
		if _, err := exec.LookPath(p.program); err != nil {
			t.Logf("%s is not installed", p.program)
			continue
		}
		s.keys(p.command + "\r")
		s.shows(p.shows)
		time.Sleep(300 * time.Millisecond)
		s.keys(p.keys)
		s.shows("$ ") // what is typed before is flushed by some
		s.keys("echo the end of " + strings.Repeat("x", 3) + "$((1+1))\r")
		s.shows("the end of xxx2")
		ran++
	}
	if ran == 0 {
		t.Skip("none of less, top and vi is installed")
	}
	s.keys("grep -qx good a || echo good > a; exit\r")
	s.shows("ACCEPTED").exits(0)
}

// TestTerminalInterrupted: a terminated follower leaves the terminal as it was; a lost terminal ends nothing.
func TestTerminalInterrupted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.terminal("", "run", "-it", "--name", "term", "--", "sh")
	s.shows("$ ").keys("printf '\\033[?1049h\\033[?25l\\033[33m'; echo x$((1+1))\r")
	s.shows("x2")
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.shows("CANCELLED").exits(143)

	s = w.terminal("", "run", "-it", "--name", "hup", "--", "sh", "-c", "echo there; sleep 2; echo good > a")
	s.shows("there")
	s.close()
	rep := w.sallyport("wait", "--json").want(0).report()
	if rep.State != sallyport.AttemptAccepted || rep.Name != "hup" {
		t.Errorf("after the terminal was lost: %s of %s", rep.State, rep.Name)
	}
}

// TestShell: a shell on a result; what happens there stays there.
func TestShell(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rep := w.sallyport("run", "--json", "--name", "x", "--", "sh", "-c", "echo good > a").want(0).report()
	s := w.terminal("", "shell", string(rep.Attempt))
	s.shows("(sandbox) $ ").keys("cat a; stty size\r")
	s.shows("\ngood\n30 100\n")
	s.keys(waits)
	s.shows("running").keys("\x03")
	s.shows("(sandbox) $ ").keys("echo status=$?; echo bad > a; printf '\\033]0;%s\\007' TI''TLE\r")
	s.shows("\nstatus=130\n")
	s.resize(72, 21)
	time.Sleep(300 * time.Millisecond)
	s.keys("stty size\r")
	s.shows("\n21 72\n")
	s.keys("printf '\\033[?1049h\\033[?25l'; exit 3\r")
	s.exits(3)
	if strings.Contains(s.bytes(), "\x1b]") || strings.Contains(s.bytes(), "TITLE") {
		t.Error("a title came through")
	}
	if got := w.git("show", "sallyport/x:a"); got != "good" {
		t.Errorf("the branch has %q", got)
	}
}

// TestDriverKilledInSession: the person's terminal comes back to the same shell when the next driver is there.
func TestDriverKilledInSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.terminal("", "run", "-it", "--name", "x", "--", "sh")
	s.shows("$ ").keys("here=there; echo x$((1+1))\r")
	s.shows("x2")
	var doc struct{ Attempts []sallyport.Report }
	w.must(json.Unmarshal([]byte(w.sallyport("ps", "--json").want(0).out), &doc))
	w.killDriver(string(doc.Attempts[0].Attempt))
	deadline := time.Now().Add(30 * time.Second)
	for err := error(nil); ; {
		s.keys("echo $here\r")
		if err = s.wait("\nthere\n", time.Second); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	s.keys("echo good > a; exit\r")
	s.shows("ACCEPTED").exits(0)
}

// TestPipedShell: commands from a pipe end with it, also where a program of theirs has read the end itself.
func TestPipedShell(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rep := w.sallyport("run", "--json", "--name", "x", "--", "sh", "-c", "echo good > a").want(0).report()
	for _, script := range []string{`cat a\n`, `cat a`, `cat a; cat`} {
		r := w.command("sh", "-c", `printf "$1" | timeout 60 "$0" shell "$2"`, w.program(), script, string(rep.Attempt)).want(0)
		if !strings.Contains(r.out, "good\n") {
			t.Errorf("%q: %q", script, r.out)
		}
	}
	w.command("sh", "-c", `echo 'exit 4' | "$0" shell "$1"`, w.program(), string(rep.Attempt)).want(4)
}

// TestRetryAtTerminal: the retry of a session is one.
func TestRetryAtTerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.terminal("", "run", "-it", "--name", "x", "--", "sh")
	s.shows("$ ").keys("echo bad > a; exit\r")
	s.shows("REJECTED").exits(20)
	rep := w.sallyport("show", "--json").want(0).report()
	s = w.terminal("", "retry", string(rep.Attempt))
	s.shows("$ ").keys("cat a; echo good > a; exit\r")
	s.shows("\nbad\n").shows("ACCEPTED").exits(0)
}
