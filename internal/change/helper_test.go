package change

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/collect"
)

// fixture is a real repository of a user and our store beside it.
type fixture struct {
	t     testing.TB
	top   string
	state string
	repo  *Repo
	store *Store
}

// runGit is git as the tests use it: a plain environment, errors are fatal.
func runGit(t testing.TB, dir string, args ...string) string {
	t.Helper()
	out, err := tryGit(dir, args...)
	if err != nil {
		t.Fatalf("git %q: %v: %s", args, err, out)
	}
	return strings.TrimSuffix(out, "\n")
}

func tryGit(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "LC_ALL=C",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@x", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@x",
		"GIT_AUTHOR_DATE=1700000000 +0000", "GIT_COMMITTER_DATE=1700000000 +0000"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// write lays files into dir: "-> x" is a link, a leading "#!" makes it executable.
func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for p, content := range files {
		full := filepath.Join(dir, p)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		os.Remove(full)
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			if err := os.Symlink(target, full); err != nil {
				t.Fatal(err)
			}
			continue
		}
		mode := os.FileMode(0o644)
		if strings.HasPrefix(content, "#!") {
			mode = 0o755
		}
		if err := os.WriteFile(full, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
}

var sampleFiles = map[string]string{
	"README": "hello\n", "run.sh": "#!/bin/sh\necho hi\n", "src/a.c": "int a;\n", "src/deep/b.c": "int b;\n", "link": "-> src/a.c",
	"dirlink": "-> src", "src-x": "sorts between\n", "src.y": "too\n", "crlf.txt": "a\r\nb\r\n", "empty": "", "tests/t.sh": "#!/bin/sh\nexit 0\n",
	".gitignore": "node_modules/\n*.log\n", ".gitattributes": "*.txt text eol=lf\n*.c ident filter=evil\n*.md export-ignore\n", "doc.md": "$Id$\n",
	"ünï\tcode\"x": "odd name\n",
}

func initRepo(t testing.TB, format Format, files map[string]string) string {
	t.Helper()
	top := filepath.Join(t.TempDir(), "user repo")
	if err := os.Mkdir(top, 0o755); err != nil {
		t.Fatal(err)
	}
	runGit(t, top, "init", "-q", "-b", "main", "--object-format="+string(format))
	write(t, top, files)
	runGit(t, top, "-c", "core.attributesFile=/dev/null", "add", "-A")
	runGit(t, top, "commit", "-q", "-m", "first")
	return top
}

func newFixture(t testing.TB, format Format, files map[string]string) *fixture {
	t.Helper()
	f := &fixture{t: t, top: initRepo(t, format, files), state: filepath.Join(t.TempDir(), "state")}
	f.open()
	return f
}

func (f *fixture) open() {
	f.t.Helper()
	var err error
	if f.repo, err = Open(f.t.Context(), f.top); err != nil {
		f.t.Fatal(err)
	}
	if f.store, err = OpenStore(f.t.Context(), f.state, f.repo); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) git(args ...string) string {
	f.t.Helper()
	return runGit(f.t, f.top, args...)
}

// storeGit is the tests' git on our store.
func (f *fixture) storeGit(args ...string) string {
	f.t.Helper()
	return runGit(f.t, "/", append([]string{"--git-dir=" + filepath.Join(f.store.dir, "git")}, args...)...)
}

func (f *fixture) head() Rev {
	f.t.Helper()
	r, err := f.repo.Resolve(f.t.Context(), "")
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

// formats runs f for both kinds of repository.
func formats(t *testing.T, f func(t *testing.T, format Format)) {
	for _, format := range []Format{SHA1, SHA256} {
		t.Run(string(format), func(t *testing.T) { f(t, format) })
	}
}

// stream is a change stream of the given records, in any order: "" deletes, "-> x" links, "#!" is executable.
func stream(t testing.TB, changes map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := collect.NewWriter(&b)
	paths := make([]string, 0, len(changes))
	for p := range changes {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	for _, p := range paths {
		var err error
		content := changes[p]
		switch {
		case content == "":
			err = w.Delete(p)
		case strings.HasPrefix(content, "-> "):
			err = w.Link(p, content[3:])
		case strings.HasPrefix(content, "#!"):
			err = w.File(p, collect.ModeExec, int64(len(content)), strings.NewReader(content))
		default:
			err = w.File(p, collect.ModeFile, int64(len(content)), strings.NewReader(content))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func (f *fixture) importTree(start sallyport.ObjectID, changes map[string]string) sallyport.ObjectID {
	f.t.Helper()
	in, err := f.store.Import(f.t.Context(), start, bytes.NewReader(stream(f.t, changes)), collect.DefaultLimits())
	if err != nil {
		f.t.Fatal(err)
	}
	return in.Tree
}

// gitTree is what git itself makes of a folder: the oracle for trees we build.
func gitTree(t testing.TB, format Format, dir string) sallyport.ObjectID {
	t.Helper()
	g := t.TempDir()
	runGit(t, g, "init", "-q", "--bare", "--object-format="+string(format))
	os.WriteFile(filepath.Join(g, "info", "attributes"), []byte("* -text -filter -ident -eol -working-tree-encoding\n"), 0o644)
	runGit(t, dir, "--git-dir="+g, "--work-tree="+dir, "-c", "core.excludesFile=/dev/null", "add", "-A", "-f", "--", ".")
	return sallyport.ObjectID(runGit(t, dir, "--git-dir="+g, "--work-tree="+dir, "write-tree"))
}

// listing describes a folder by names, kinds, modes and content; skip leaves a top-level name out.
func listing(t testing.TB, root, skip string) string {
	t.Helper()
	var lines []string
	err := filepath.Walk(root, func(p string, fi os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		if rel == skip {
			return filepath.SkipDir
		}
		what := ""
		switch {
		case fi.Mode()&os.ModeSymlink != 0:
			what, _ = os.Readlink(p)
			what = "-> " + what
		case fi.Mode().IsRegular():
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			what = fmt.Sprintf("%x", b)
		}
		if rel != "." {
			lines = append(lines, fmt.Sprintf("%q %v %s", rel, fi.Mode(), what))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

func wantCode(t testing.TB, what string, err error, code sallyport.Code) {
	t.Helper()
	if err == nil || sallyport.CodeOf(err) != code {
		t.Errorf("%s: %v (code %v), want code %v", what, err, sallyport.CodeOf(err), code)
	}
}

var bg = context.Background()
