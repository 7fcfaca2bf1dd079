package runner

// Name is argv[0] of the runner as PID 1; its only argument is the allocation id, the mark by which a
// leftover is found.
const Name = "sallyport-runner"

// Inside is where the runner's program shows itself in a sandbox, for its stubs.
const Inside = "/run/sallyport/runner"

// Stubs are the programs that mean nothing inside a sandbox: each answers with Sentence.
func Stubs() []string {
	return []string{"apt", "apt-get", "dnf", "yum", "apk", "pacman", "brew", "sudo", "su", "doas"}
}

// Sentence is what a stub says; empty for other names.
func Sentence(name string) string {
	switch name {
	case "sudo", "su", "doas":
		return name + ": nobody is root in this sandbox; ask the person who started it to install what is missing on the host"
	case "apt", "apt-get", "dnf", "yum", "apk", "pacman", "brew":
		return name + ": system packages cannot be installed in this sandbox; it shows the host's own /usr read-only (npm -g, pip and go install write to the fresh $HOME)"
	}
	return ""
}
