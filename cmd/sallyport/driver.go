package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"sallyport.dev/sallyport"
)

// driver starts this program once more to drive an Attempt: in a session of its own, so that neither Ctrl-C
// nor a lost terminal reaches it, and outside of the user's folder, so that it can be removed.
func driver(state string) func(sallyport.AttemptID, *os.File, []string) error {
	return func(id sallyport.AttemptID, log *os.File, variables []string) error {
		self, err := os.Executable()
		if err != nil {
			return driverError(id, err)
		}
		cmd := exec.Command(self, "drive", string(id))
		cmd.Dir = "/"
		cmd.Env = append(driverEnv(os.Environ(), variables), "SALLYPORT_STATE="+state)
		cmd.Stdout, cmd.Stderr = log, log // stdin is /dev/null
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			return driverError(id, err)
		}
		// Reaped at once: a zombie would still look like the living holder of its lease.
		go func() { _ = cmd.Wait() }()
		return nil
	}
}

func driverError(id sallyport.AttemptID, err error) error {
	return &sallyport.Error{Op: "start the driver", Code: sallyport.CodeUnavailable, Subject: string(id), Message: "the process cannot be started", Err: err}
}

// driverEnv is the part of the user's environment that a driver has a use for: where things are, how the
// model API and a Publisher are reached, and who called sudo; and the variables that credentials of its Attempt are read from.
// Everything else, other people's secrets above all, stays out.
func driverEnv(environ, variables []string) []string {
	var out []string
	for _, kv := range environ {
		if name, _, _ := strings.Cut(kv, "="); driverNeeds(name) || slices.Contains(variables, name) {
			out = append(out, kv)
		}
	}
	return out
}

func driverNeeds(name string) bool {
	switch name {
	case "HOME", "PATH", "LANG", "TZ", "TMPDIR", "USER", "LOGNAME", "SUDO_UID", "SUDO_GID",
		"SSL_CERT_FILE", "SSL_CERT_DIR", "SALLYPORT_LIBEXEC", "SALLYPORT_PUBLISHER", "SALLYPORT_PUBLISHER_KEYS",
		"CLAUDE_CONFIG_DIR", "CODEX_HOME", // where the logins of subscriptions are
		"ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL":
		return true
	}
	return strings.HasPrefix(name, "XDG_") || strings.HasPrefix(name, "LC_")
}
