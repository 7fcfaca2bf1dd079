package manifest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport.dev/sallyport"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func TestAsks(t *testing.T) {
	rep := repository(t, "tools: [/opt/x]\ncaches: [go]\ndeps: [web/node_modules]\nenv: {B: \"a\\tb\", A: \"1\"}\n")
	var what []string
	for _, a := range Asks(*rep) {
		what = append(what, a.What)
		if a.Why == "" || rep.Places.at(a.field) == a.field {
			t.Errorf("%q has no reason or no place", a.What)
		}
	}
	if want := []string{"tools /opt/x", "caches go", "deps web/node_modules", `env A="1"`, `env B="a\tb"`}; !reflect.DeepEqual(what, want) {
		t.Errorf("got %q", what)
	}
	if asks := Asks(*repository(t, "tools: auto\ncaches: auto\nlimits: {time: 1h}\n")); len(asks) != 0 {
		t.Errorf("the defaults ask for %v", asks)
	}
}

// The digest follows what is asked of the host and nothing else.
func TestAsksDigest(t *testing.T) {
	base := AsksDigest(*repository(t, "deps: [a, b]\nenv: {A: \"1\"}\n"))
	for _, same := range []string{"env: {A: '1'}\ndeps:\n- a\n- b\nchecks:\n- {name: t, run: x}\n", "deps: [a, b] # comment\nenv: {A: \"1\"}\nlimits: {time: 1h}\n"} {
		if AsksDigest(*repository(t, same)) != base {
			t.Errorf("%q has another digest", same)
		}
	}
	for _, other := range []string{"deps: [a, b]\nenv: {A: \"2\"}\n", "deps: [a]\nenv: {A: \"1\"}\n", "deps: [a, b]\nenv: {A: \"1\"}\ntools: [/opt/x]\n", "deps: [a b]\nenv: {A: \"1\"}\n", ""} {
		if AsksDigest(*repository(t, other)) == base {
			t.Errorf("%q has the same digest", other)
		}
	}
}

func TestGrantAndRevoke(t *testing.T) {
	path := GrantsPath(t.TempDir())
	g := OpenGrants(path)
	rep, other := *repository(t, "deps: [a]\n"), *repository(t, "deps: [b]\n")
	granted := func(repo string, r Repository) bool {
		t.Helper()
		ok, err := OpenGrants(path).Granted(repo, AsksDigest(r))
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	if granted("/r", rep) {
		t.Error("granted before anything was")
	}
	for range 2 { // a repeat changes nothing
		if err := g.Grant("/r", rep, noon); err != nil {
			t.Fatal(err)
		}
	}
	if !granted("/r", rep) || granted("/r", other) || granted("/r2", rep) || granted("/r/", rep) {
		t.Error("the wrong things are granted")
	}
	list, err := g.List()
	if err != nil || len(list) != 1 || list[0].Repository != "/r" || !list[0].At.Equal(noon) || list[0].Asks[0].What != "deps a" {
		t.Errorf("list: %+v %v", list, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	for range 2 {
		if err := g.Revoke("/r", AsksDigest(rep)); err != nil {
			t.Fatal(err)
		}
	}
	if granted("/r", rep) {
		t.Error("still granted")
	}
	if err := g.Grant("relative", rep, noon); sallyport.CodeOf(err) != sallyport.CodeInvalid {
		t.Errorf("relative path: %v", err)
	}
}

// A store that cannot be understood or trusted is an error in every call and stays as it is.
func TestDamagedGrants(t *testing.T) {
	good := fmt.Sprintf(`{"version":1,"grants":[{"repository":"/r","digest":%q,"asks":[],"at":"2026-11-29T12:00:00Z"}]}`, sallyport.Sum(nil))
	for name, w := range map[string]struct {
		data string
		mode os.FileMode
		code sallyport.Code
	}{
		"empty":       {"", 0o600, sallyport.CodeCorrupt},
		"cut":         {good[:len(good)-9], 0o600, sallyport.CodeCorrupt},
		"two":         {good + good, 0o600, sallyport.CodeCorrupt},
		"null":        {"null", 0o600, sallyport.CodeCorrupt},
		"no grants":   {`{"version":1}`, 0o600, sallyport.CodeCorrupt},
		"unknown key": {strings.Replace(good, `"asks"`, `"also"`, 1), 0o600, sallyport.CodeCorrupt},
		"no digest":   {strings.Replace(good, "sha256:", "", 1), 0o600, sallyport.CodeCorrupt},
		"newer":       {strings.Replace(good, `"version":1`, `"version":2`, 1), 0o600, sallyport.CodeUnsupported},
		"writable":    {good, 0o620, sallyport.CodeDenied},
	} {
		path := filepath.Join(t.TempDir(), "grants.json")
		if err := os.WriteFile(path, []byte(w.data), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, w.mode); err != nil {
			t.Fatal(err)
		}
		g := OpenGrants(path)
		_, err1 := g.Granted("/r", sallyport.Sum(nil))
		_, err2 := g.List()
		err3 := g.Grant("/r", Repository{}, noon)
		for _, err := range []error{err1, err2, err3, g.Revoke("/r", sallyport.Sum(nil))} {
			if sallyport.CodeOf(err) != w.code {
				t.Errorf("%s: %v", name, err)
			}
		}
		if after, err := os.ReadFile(path); err != nil || string(after) != w.data {
			t.Errorf("%s: the file was changed: %v", name, err)
		}
	}
	link := filepath.Join(t.TempDir(), "grants.json")
	if err := os.Symlink("/dev/null", link); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenGrants(link).List(); sallyport.CodeOf(err) == sallyport.CodeUnknown {
		t.Errorf("link: %v", err)
	}
}

// Grants given at the same time by several processes are all kept.
func TestGrantsAtOnce(t *testing.T) {
	if path := os.Getenv("GRANTS_TEST_PATH"); path != "" {
		for i := range 5 {
			rep := *repository(t, fmt.Sprintf("deps: [d%s-%d]\n", os.Getenv("GRANTS_TEST_ID"), i))
			if err := OpenGrants(path).Grant("/r", rep, noon); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	path := GrantsPath(t.TempDir())
	var wg sync.WaitGroup
	for id := range 4 {
		wg.Go(func() {
			cmd := exec.Command(os.Args[0], "-test.run=^TestGrantsAtOnce$")
			cmd.Env = append(os.Environ(), "GRANTS_TEST_PATH="+path, fmt.Sprintf("GRANTS_TEST_ID=%d", id))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	wg.Wait()
	if list, err := OpenGrants(path).List(); err != nil || len(list) != 20 {
		t.Errorf("%d grants, %v", len(list), err)
	}
}
