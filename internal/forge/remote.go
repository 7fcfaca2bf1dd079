package forge

import (
	"net"
	"net/url"
	"strings"

	"sallyport.dev/sallyport"
)

// SSHCommand is a Remote's SSH for a private key's file and a file of host keys: no agent, no configuration of anybody, no
// question asked, and no server that is not in the file.
func SSHCommand(key, knownHosts string) string { return sshCommand(key, knownHosts) }

// SSHCertificateCommand is SSHCommand with the file of a certificate for the key.
func SSHCertificateCommand(key, certificate, knownHosts string) string {
	return sshCommand(key, knownHosts, "-o", "CertificateFile="+sshPath(certificate))
}

func sshCommand(key, knownHosts string, more ...string) string {
	words := []string{"ssh", "-F", "/dev/null", "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-o", "IdentityAgent=none",
		"-o", "StrictHostKeyChecking=yes", "-o", "UserKnownHostsFile=" + sshPath(knownHosts), "-o", "GlobalKnownHostsFile=/dev/null",
		"-o", "PreferredAuthentications=publickey", "-o", "ConnectTimeout=20", "-o", "ServerAliveInterval=15",
		"-o", "ForwardAgent=no", "-o", "ClearAllForwardings=yes", "-o", "LogLevel=ERROR", "-i", key}
	words = append(words, more...)
	for i, w := range words {
		words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(words, " ")
}

// sshPath quotes a path as ssh_config(5) reads one: several are separated by blanks, % begins a token.
func sshPath(path string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%").Replace(path) + `"`
}

// scheme is what git may speak to r, and nothing else. CodeInvalid: an address that we give to no git.
func (r Remote) scheme(op string) (string, error) {
	bad := func(message string) (string, error) {
		return "", &sallyport.Error{Op: op, Code: sallyport.CodeInvalid, Subject: r.subject(), Message: message}
	}
	u, err := url.Parse(r.URL)
	if err != nil || strings.ContainsAny(r.URL, "\r\n\x00") {
		return bad("the address is none")
	}
	_, password := u.User.Password()
	switch {
	case password || u.User != nil && u.Scheme != "ssh":
		return bad("no user and no password belongs into an address that git is given")
	case strings.HasPrefix(u.Host, "-") || strings.HasPrefix(u.User.Username(), "-"):
		return bad("the address would be an option of ssh")
	case u.Scheme == "file" && u.Host == "" && u.Path != "":
		return u.Scheme, nil
	case u.Host == "":
		return bad("the address has no host")
	case u.Scheme == "http" && !Loopback(u.Hostname()):
		return bad("expected https: a credential is sent there")
	case u.Scheme == "ssh" && r.SSH == "":
		return bad("there is no command for ssh")
	case u.Scheme != "https" && u.Scheme != "http" && u.Scheme != "ssh":
		return bad("expected https or ssh")
	}
	return u.Scheme, nil
}

// subject names r in errors, without what is nobody's business.
func (r Remote) subject() string {
	u, err := url.Parse(r.URL)
	if err != nil {
		return "a git server"
	}
	return Words((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String())
}

// secrets are what is in no error.
func (r Remote) secrets() []string {
	_, value, _ := strings.Cut(r.Header, ":")
	words := strings.Fields(value)
	if len(words) == 0 {
		return nil
	}
	return words[len(words)-1:]
}

// Loopback says that host is this machine, to which a credential may go without TLS.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
