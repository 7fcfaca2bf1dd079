package publish

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"sallyport.dev/sallyport/internal/forge/forgetest"
)

// between stands before a forge: it sees each token that is made, and calls look before each request is passed on.
type between struct {
	sync.Mutex
	tokens []string
	look   func(r *http.Request, tokens []string)
}

func (b *between) serve(t *testing.T, forge string) string {
	to, err := url.Parse(forge)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.ModifyResponse = func(r *http.Response) error {
		if r.Request.Method != http.MethodPost || !strings.HasSuffix(r.Request.URL.Path, "/tokens") {
			return nil
		}
		body, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		var made struct {
			Token string `json:"sha1"`
		}
		if err == nil {
			err = json.Unmarshal(body, &made)
		}
		b.Lock()
		defer b.Unlock()
		b.tokens = append(b.tokens, made.Token)
		return err
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.Lock()
		if b.look != nil {
			b.look(r, b.tokens)
		}
		b.Unlock()
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestMissionControlHoldsNothing: at every request of a publication neither the token nor what mints it is in the memory, the
// open files, the environment or the state folder of Mission Control; in the Publisher's own state the token is sealed.
func TestMissionControlHoldsNothing(t *testing.T) {
	g := start(t)
	s := open(t, g, "holds")
	b := &between{}
	address := b.serve(t, g.URL) + "/" + s.repo
	s.Git("remote", "set-url", "origin", address+".git")
	s.secret("bot.password", forgetest.Password)
	s.File(s.config, fmt.Sprintf("version: 1\nmission-control: [mission-control.pub]\ntargets:\n  - repository: %s\n    kind: gitea\n    bases: [main]\n    credential: {user: bot, password-file: bot.password}\n", address))
	looked, publishers := 0, 0
	b.look = func(r *http.Request, tokens []string) {
		pid := s.Driver()
		if pid == 0 {
			t.Errorf("%s %s: nobody drives", r.Method, r.URL.Path)
			return
		}
		looked++
		secrets := append([]string{forgetest.Password, base64.StdEncoding.EncodeToString([]byte("bot:" + forgetest.Password))}, tokens...)
		for where, text := range everything(t, pid) {
			for i, secret := range secrets {
				if bytes.Contains(text, []byte(secret)) {
					t.Errorf("%s %s: secret %d is in %s of Mission Control", r.Method, r.URL.Path, i, where)
				}
			}
		}
		if found := s.Holding(s.State, secrets...); len(found) > 0 {
			t.Errorf("%s %s: %q hold a secret", r.Method, r.URL.Path, found)
		}
		if len(tokens) > 0 {
			publishers += len(s.Holding(filepath.Join(filepath.Dir(s.config), "publisher"), tokens...))
		}
	}
	r := s.Run("fix", "echo good > a", "--publish", "pr").Want(0).Report()
	b.Lock()
	defer b.Unlock()
	if list := s.pulls(); len(list) != 1 || list[0].Head.SHA != string(r.Commit) {
		t.Errorf("%+v", list)
	}
	if len(b.tokens) != 1 || looked < 8 || publishers > 0 {
		t.Errorf("%d tokens, looked %d times, %d files of the Publisher hold one", len(b.tokens), looked, publishers)
	}
}

// TestSearchFinds: the search finds what is there, in this very process.
func TestSearchFinds(t *testing.T) {
	secret := "search-" + strings.Repeat("finds-", 3) + fmt.Sprint(os.Getpid())
	t.Setenv("SEARCH_ME", secret)
	if !bytes.Contains(everything(t, os.Getpid())["the memory"], []byte(secret)) {
		t.Error("not found")
	}
}

// everything is all of a process that can be read: its memory, its environment, and the files that it has open.
func everything(t *testing.T, pid int) map[string][]byte {
	t.Helper()
	proc := fmt.Sprintf("/proc/%d/", pid)
	all := map[string][]byte{}
	var err error
	if all["the environment"], err = os.ReadFile(proc + "environ"); err != nil {
		t.Error(err)
	}
	all["the memory"] = memory(t, proc)
	files, err := os.ReadDir(proc + "fd")
	if err != nil {
		t.Error(err)
	}
	for _, f := range files {
		link := proc + "fd/" + f.Name()
		// Handles of processes and files of the kernel's say that they are regular too.
		to, _ := os.Readlink(link)
		if fi, err := os.Stat(link); err != nil || !fi.Mode().IsRegular() || !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "/sys/") {
			continue
		}
		b, err := os.ReadFile(link)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
		all["the open file "+f.Name()] = b
	}
	return all
}

func memory(t *testing.T, proc string) []byte {
	t.Helper()
	maps, err := os.ReadFile(proc + "maps")
	if err != nil {
		t.Fatal(err)
	}
	mem, err := os.Open(proc + "mem")
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	var all bytes.Buffer
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		var rights string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &rights); err != nil || !strings.HasPrefix(rights, "rw") {
			continue
		}
		_, _ = io.Copy(&all, io.NewSectionReader(mem, from, to-from)) // what is reserved and not there cannot be read
	}
	if all.Len() < 1<<20 {
		t.Errorf("only %d bytes of memory could be read", all.Len())
	}
	return all.Bytes()
}
