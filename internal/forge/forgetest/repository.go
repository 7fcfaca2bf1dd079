package forgetest

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
)

// Git runs git in a folder, for what a test's other people do, and returns what it prints.
func Git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.test", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.test"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// Bare makes an empty bare repository.
func Bare(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "repository.git")
	Git(t, "/", "init", "-q", "--bare", "--initial-branch=main", dir)
	return dir
}

// CommitIn makes a commit of nothing new in a bare repository, on no branch; parents may be none.
func CommitIn(t testing.TB, dir, message string, parents ...sallyport.ObjectID) sallyport.ObjectID {
	t.Helper()
	tree := Git(t, dir, "hash-object", "-t", "tree", "-w", "/dev/null")
	args := []string{"commit-tree", "-m", message, tree}
	for _, p := range parents {
		args = append(args, "-p", string(p))
	}
	return sallyport.ObjectID(Git(t, dir, args...))
}

// ServeGit serves the bare repository dir over HTTP to whoever says user and password, and gives its address.
// between is called before each request that is let in; it may answer itself and say so.
func ServeGit(t testing.TB, dir, user, password string, between func(http.ResponseWriter, *http.Request) bool) string {
	t.Helper()
	server := httptest.NewServer(gitHandler(t, dir, user, password, between))
	t.Cleanup(server.Close)
	return server.URL + "/" + filepath.Base(dir)
}

// ServeGitTLS serves it over HTTPS, and gives the certificate of its authority, which no system knows, in PEM.
func ServeGitTLS(t testing.TB, dir, user, password string) (address string, authority []byte) {
	t.Helper()
	server := httptest.NewUnstartedServer(gitHandler(t, dir, user, password, nil))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // those who do not trust it
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL + "/" + filepath.Base(dir), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

func gitHandler(t testing.TB, dir, user, password string, between func(http.ResponseWriter, *http.Request) bool) http.Handler {
	t.Helper()
	Git(t, dir, "config", "http.receivepack", "true")
	programs := Git(t, dir, "--exec-path")
	backend := &cgi.Handler{
		Path: filepath.Join(programs, "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + filepath.Dir(dir), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "HOME=/nonexistent"},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, p, ok := r.BasicAuth(); !ok || u != user || p != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if between == nil || !between(w, r) {
			backend.ServeHTTP(w, r)
		}
	})
}
