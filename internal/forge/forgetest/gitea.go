package forgetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Gitea is a real one on loopback, with an administrator. It ends with the test.
type Gitea struct {
	URL        string // http://127.0.0.1:1234
	SSH        string // ssh://git@127.0.0.1:1235
	KnownHosts string // a file with its SSH host key

	program string
	dir     string
	admin   string // a token that may do all
}

// What the administrator is called; the password is as good as none, on loopback and for a minute.
const (
	admin    = "root1"
	Password = "a-password-of-a-test" // of every user
)

// Start starts one. The test is skipped, with the name of what is missing, where none was built (scripts/gitea.sh).
func Start(t testing.TB) *Gitea {
	t.Helper()
	program, static := built(t)
	// Not t.TempDir, whose parent nobody else may enter.
	dir, err := os.MkdirTemp("", "sallyport-gitea-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	g := &Gitea{program: program, dir: dir}
	var last error
	for range 3 { // somebody may take the port between our look and Gitea's
		if last = g.run(t, static); last == nil {
			g.prepare(t)
			return g
		}
	}
	t.Fatalf("start Gitea: %v", last)
	return nil
}

// built is the program and what it reads beside.
func built(t testing.TB) (program, static string) {
	t.Helper()
	mod, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(filepath.Dir(strings.TrimSpace(string(mod))), "scripts", "gitea.sh"), "--have")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	dir, err := cmd.Output()
	if err != nil {
		t.Skip("missing capability: a built Gitea: " + strings.TrimSpace(errs.String()))
	}
	for _, need := range []string{"git", "ssh", "ssh-keyscan"} {
		if _, err := exec.LookPath(need); err != nil {
			t.Skipf("missing capability: %s", need)
		}
	}
	at := strings.TrimSpace(string(dir))
	return filepath.Join(at, "gitea"), filepath.Join(at, "static")
}

func (g *Gitea) run(t testing.TB, static string) error {
	ports := freePorts(t, 2)
	g.URL, g.SSH = "http://127.0.0.1:"+ports[0], "ssh://git@127.0.0.1:"+ports[1]
	g.configure(t, static, ports)
	ended := make(chan error, 1)
	started := make(chan error, 1)
	cmd := g.command(t, "web")
	log, err := os.Create(filepath.Join(g.dir, "out.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	go func() {
		// The kernel sends the death signal when the thread ends that started it: keep this one until then.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	if err := g.healthy(ended); err != nil {
		said, _ := os.ReadFile(log.Name())
		more, _ := os.ReadFile(filepath.Join(g.dir, "log", "gitea.log"))
		_ = cmd.Process.Kill() // it may have ended
		return fmt.Errorf("%w\n%s%s", err, said, more)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
	})
	return nil
}

// command runs it as an ordinary user: as root it refuses.
func (g *Gitea) command(t testing.TB, args ...string) *exec.Cmd {
	cmd := exec.Command(g.program, append(args, "--config", filepath.Join(g.dir, "app.ini"))...)
	cmd.Dir = g.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + g.dir, "USER=" + account(t).Username, "GITEA_WORK_DIR=" + g.dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		uid, gid := ids(t)
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: gid}
	}
	return cmd
}

func account(t testing.TB) *user.User {
	t.Helper()
	if os.Geteuid() != 0 {
		u, err := user.Current()
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		t.Skip("missing capability: the user nobody, for a Gitea that does not run as root")
	}
	return u
}

func ids(t testing.TB) (uid, gid uint32) {
	u := account(t)
	a, errU := strconv.ParseUint(u.Uid, 10, 32)
	b, errG := strconv.ParseUint(u.Gid, 10, 32)
	if errU != nil || errG != nil {
		t.Fatal(errU, errG)
	}
	return uint32(a), uint32(b)
}

func (g *Gitea) configure(t testing.TB, static string, ports []string) {
	t.Helper()
	ini := strings.NewReplacer("{dir}", g.dir, "{static}", static, "{http}", ports[0], "{ssh}", ports[1], "{user}", account(t).Username).Replace(appINI)
	name := filepath.Join(g.dir, "app.ini")
	if err := os.WriteFile(name, []byte(ini), 0o600); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		uid, gid := ids(t)
		for _, p := range []string{g.dir, name} {
			if err := os.Chown(p, int(uid), int(gid)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func freePorts(t testing.TB, n int) []string {
	t.Helper()
	var out []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() // all at once, so that they differ
		out = append(out, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	}
	return out
}

func (g *Gitea) healthy(ended <-chan error) error {
	limit := time.After(time.Minute)
	tick := time.NewTicker(30 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return fmt.Errorf("it ended: %v", err)
		case <-limit:
			return fmt.Errorf("it does not answer within a minute")
		case <-tick.C:
			resp, err := http.Get(g.URL + "/api/healthz")
			if err != nil {
				continue
			}
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
	}
}

// prepare makes the administrator with a token, and learns the host key.
func (g *Gitea) prepare(t testing.TB) {
	t.Helper()
	g.manage(t, "admin", "user", "create", "--username", admin, "--password", Password, "--email", admin+"@example.test", "--admin", "--must-change-password=false")
	g.admin = g.Token(t, admin, "all")
	port := g.SSH[strings.LastIndexByte(g.SSH, ':')+1:]
	keys, err := exec.Command("ssh-keyscan", "-p", port, "127.0.0.1").Output()
	if err != nil || len(keys) == 0 {
		t.Fatalf("ask for the host key: %v", err)
	}
	g.KnownHosts = filepath.Join(t.TempDir(), "known_hosts")
	if err := os.WriteFile(g.KnownHosts, keys, 0o600); err != nil {
		t.Fatal(err)
	}
}

// manage is one of its own commands for whoever runs it.
func (g *Gitea) manage(t testing.TB, args ...string) {
	t.Helper()
	if out, err := g.command(t, args...).CombinedOutput(); err != nil {
		t.Fatalf("gitea %s: %v\n%s", args[0], err, out)
	}
}

// Ask makes a request to the REST interface as the user, "": as the administrator, and decodes the answer into into
// unless that is nil. It returns the status, whatever it is.
func (g *Gitea) Ask(t testing.TB, as, method, path string, send, into any) (int, string) {
	t.Helper()
	body, err := json.Marshal(send)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, g.URL+"/api/v1"+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if as == "" && g.admin != "" {
		req.Header.Set("Authorization", "token "+g.admin)
	} else {
		req.SetBasicAuth(as, Password)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if into != nil && resp.StatusCode < 300 {
		if err := json.Unmarshal(said, into); err != nil {
			t.Fatalf("%s %s: %v in %q", method, path, err, said)
		}
	}
	return resp.StatusCode, string(said)
}

// Do is Ask that fails the test unless it is a success.
func (g *Gitea) Do(t testing.TB, as, method, path string, send, into any) {
	t.Helper()
	if status, said := g.Ask(t, as, method, path, send, into); status < 200 || status > 299 {
		t.Fatalf("%s %s: %d %s", method, path, status, said)
	}
}
