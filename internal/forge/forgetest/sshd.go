package forgetest

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// SSHServer is a real OpenSSH server on loopback that takes certificates of one authority, for one principal, and nothing else.
type SSHServer struct {
	URL        string // ssh://user@127.0.0.1:port; the path of a repository follows
	KnownHosts string // a file
	log        *lockedBuffer
}

// NewKey makes a key, as a file's content too.
func NewKey(t testing.TB) (ssh.Signer, []byte) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	return signer, pem.EncodeToMemory(block)
}

// ServeSSH starts one. The test skips where there is no sshd.
func ServeSSH(t testing.TB, authority ssh.PublicKey, principal string) *SSHServer {
	t.Helper()
	program := findSSHD(t)
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	host, hostFile := NewKey(t)
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	port := freePorts(t, 1)[0]
	s := &SSHServer{URL: fmt.Sprintf("ssh://%s@127.0.0.1:%s", me.Username, port), log: &lockedBuffer{}}
	s.KnownHosts = write("known_hosts", fmt.Appendf(nil, "[127.0.0.1]:%s %s", port, ssh.MarshalAuthorizedKey(host.PublicKey())))
	config := write("sshd_config", []byte(strings.Join([]string{
		"Port " + port, "ListenAddress 127.0.0.1", "HostKey " + write("host", hostFile), "PidFile none",
		"TrustedUserCAKeys " + write("authority.pub", ssh.MarshalAuthorizedKey(authority)),
		"AuthorizedPrincipalsFile " + write("principals", []byte(principal+"\n")), "AuthorizedKeysFile none",
		"PermitRootLogin yes", "StrictModes no", "UsePAM no", "PasswordAuthentication no", "KbdInteractiveAuthentication no", "LogLevel VERBOSE", "KexAlgorithms curve25519-sha256", "UseDNS no", "",
	}, "\n")))
	cmd := exec.Command(program, "-D", "-e", "-f", config)
	cmd.Stderr = s.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("sshd said:\n%s", s.log)
		}
	})
	s.await(t, ended, port)
	return s
}

// await returns when the server answers.
func (s *SSHServer) await(t testing.TB, ended <-chan struct{}, port string) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		select {
		case <-ended:
			t.Fatalf("sshd ended:\n%s", s.log)
		default:
		}
		if conn, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			conn.Close()
			return
		}
	}
	t.Fatal("sshd does not answer")
}

// Log is what the server has said until now.
func (s *SSHServer) Log() string { return s.log.String() }

// Says fails unless the server says the words, after the first skip bytes of its log.
func (s *SSHServer) Says(t testing.TB, skip int, words string) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !strings.Contains(s.Log()[skip:], words); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("sshd does not say %q:\n%s", words, s.Log()[skip:])
			return
		}
	}
}

// findSSHD also makes the folder that Debian makes when the service starts.
func findSSHD(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"/usr/sbin/sshd", "/usr/local/sbin/sshd", "/usr/bin/sshd"} {
		if _, err := os.Stat(name); err != nil {
			continue
		}
		if os.Geteuid() == 0 {
			if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
				t.Fatal(err)
			}
		}
		return name
	}
	t.Skip("missing capability: sshd (openssh-server)")
	return ""
}

// lockedBuffer is written by a program while a test reads it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
