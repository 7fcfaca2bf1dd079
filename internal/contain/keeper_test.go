package contain

import (
	"strings"
	"testing"
)

// The way a command is really started: by a thread of a process that is outside the sandbox, which the command
// can neither see nor signal, and whose child it is.
func TestStartFromOutside(t *testing.T) {
	const script = `
echo "ids $(id -u) $(id -g) groups $(g=$(sed -n 's/^Groups:[[:space:]]*//p' /proc/self/status); echo ${g:-none})"
grep -E '^(CapEff|CapPrm|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status | tr '\n\t' ' :'
echo
echo "parent $PPID"
kill -9 1 2>/dev/null && echo "pid 1 signalled"
cat /proc/1/environ 2>/dev/null && echo "pid 1 read"
echo x > /work/x && echo "work written"
echo x > /usr/x 2>/dev/null || echo "usr refused"
ls /proc/self/fd | tr '\n' ' '
grep -c : /proc/net/dev
exit 7`
	for who, user := range starters(t) {
		t.Run(who, func(t *testing.T) {
			out := play(t, scene{Keeper: true, Run: []string{"sh", "-c", script}}, user)
			wants := []string{
				"CapPrm::0000000000000000 CapEff::0000000000000000 CapBnd::0000000000000000 NoNewPrivs::1 Seccomp::2",
				"ids 1000 1000 ", "parent 0\n", "work written\n", "usr refused\n", "0 1 2 3 ", "exit 7\n",
			}
			if !user { // a user's own groups cannot be dropped
				wants = append(wants, "groups none\n")
			}
			for _, w := range wants {
				if !strings.Contains(out, w) {
					t.Errorf("want %q in:\n%s", w, out)
				}
			}
			bads := []string{"pid 1 read", "eth"}
			if !user || landlockABI() >= 6 { // else nothing can: the same uid, and Landlock cannot scope signals
				bads = append(bads, "pid 1 signalled")
			}
			for _, bad := range bads {
				if strings.Contains(out, bad) {
					t.Errorf("%s:\n%s", bad, out)
				}
			}
		})
	}
}
