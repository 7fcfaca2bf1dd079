package collect

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"sallyport.dev/sallyport"
)

// GitEnv is the whole environment for the git that GitIgnore runs: no configuration but ours.
func GitEnv() []string {
	return []string{"HOME=/nonexistent", "PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0",
		"GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL="}
}

// GitIgnore is Options.Ignored by the .gitignore files of the base checkout at baseDir, which no agent could
// write. It asks `git check-ignore` with an empty git folder of ours (made in the temporary folder, removed
// after each call). run starts argv with GitEnv as its whole environment and stdin as its input, and returns
// its output; an error with an ExitCode method that says 1 means "none is ignored".
func GitIgnore(gitPath, baseDir string, run func(argv []string, stdin []byte) ([]byte, error)) func([]string) (map[string]bool, error) {
	return func(paths []string) (map[string]bool, error) {
		gitDir, err := EmptyGitDir()
		if gitDir != "" {
			defer os.RemoveAll(gitDir)
		}
		if err != nil {
			return nil, &sallyport.Error{Op: "read ignore rules", Code: sallyport.CodeUnavailable, Message: "cannot make a git folder", Err: err}
		}
		argv := []string{gitPath, "--git-dir=" + gitDir, "--work-tree=" + baseDir, "-C", baseDir,
			"-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.excludesFile=/dev/null",
			"check-ignore", "--no-index", "-z", "--stdin"}
		out, err := run(argv, questions(paths))
		if err != nil && !saysNone(err) {
			return nil, &sallyport.Error{Op: "read ignore rules", Code: sallyport.CodeUnavailable, Message: "git check-ignore failed", Err: err}
		}
		return answers(out), nil
	}
}

// questions prefixes each path with "./": a name like ":(top)x" would else be read as a pathspec.
func questions(paths []string) []byte {
	var b bytes.Buffer
	for _, p := range paths {
		b.WriteString("./")
		b.WriteString(p)
		b.WriteByte(0)
	}
	return b.Bytes()
}

func answers(out []byte) map[string]bool {
	ignored := map[string]bool{}
	for p := range strings.SplitSeq(string(out), "\x00") {
		if p, ok := strings.CutPrefix(p, "./"); ok {
			ignored[p] = true
		}
	}
	return ignored
}

func saysNone(err error) bool {
	var e interface{ ExitCode() int }
	return errors.As(err, &e) && e.ExitCode() == 1
}

// EmptyGitDir is the least that git takes for a repository, with no configuration but ours: in the temporary
// folder, readable by every user, for the caller to remove (also after an error, unless the path is empty).
func EmptyGitDir() (string, error) {
	dir, err := os.MkdirTemp("", "sallyport-git-")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return dir, err
	}
	for _, d := range []string{"objects", "refs"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			return dir, err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "config"), []byte("[core]\n\trepositoryformatversion = 0\n\tbare = false\n"), 0o644); err != nil {
		return dir, err
	}
	return dir, os.WriteFile(filepath.Join(dir, "HEAD"), []byte("ref: refs/heads/none\n"), 0o644)
}
