package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sallyport.dev/sallyport/test/world"
)

// TestAnotherUsersRepository: refused, before git looks at it; under sudo it is the owner's, and git runs as that.
func TestAnotherUsersRepository(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("missing capability: only root can make a repository of another user")
	}
	w := world.New(t)
	w.Small()
	own := func(uid int) {
		w.Command("", "chown", "-R", fmt.Sprintf("%d:%d", uid, uid), w.Repo).Want(0)
	}
	own(world.Ordinary)
	refused(w, w.Run("theirs", "true"), 40, "belongs to uid 1000", "you are uid 0", "as the owner")
	// Half of it: the files are ours, the git folder is not.
	w.Must(os.Lchown(w.Repo, 0, 0))
	refused(w, w.Run("half", "true"), 40, "belongs to another user", "as its owner")
	own(world.Ordinary)
	w.Env = append(w.Env, "SUDO_UID=1000", "SUDO_GID=1000")
	rep := w.Run("sudo", "echo good > a").Want(0).Report()
	if fi, err := os.Stat(w.Path(".git/refs/heads/sallyport/sudo")); err != nil || fi.Sys().(*syscall.Stat_t).Uid != world.Ordinary {
		t.Errorf("the branch is not the owner's: %v", err)
	}
	w.Env = append(w.Env, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*")
	took(w, rep, map[string]string{"a": "good\n"})
	w.File("a", "good and dirty\n")
	own(world.Ordinary)
	dirty := w.Run("sudo-dirty", "grep -q dirty a && echo good > b", "--include-dirty").Want(0).Report()
	took(w, dirty, map[string]string{"a": "good and dirty\n", "b": "good\n"})
	w.Env = append(w.Env, "SUDO_UID=1001", "SUDO_GID=1001")
	refused(w, w.Run("other", "true"), 40, "belongs to uid 1000")
}

// TestHomeIsARepository: what is tracked of the home is there; nothing else is, whatever lies beside it. The
// agent's home is another folder then, so what it leaves there is no change.
func TestHomeIsARepository(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Must(os.Rename(filepath.Join(w.Repo, ".git"), filepath.Join(w.Home, ".git")))
	w.Repo = w.Home
	w.File(".profile", "export EDITOR=vi\n")
	w.File("notes", "one\n")
	w.File(".config/tool/settings", "on\n")
	w.File("sallyport.yaml", world.Policy("grep -q EDITOR .profile"))
	w.Commit("my home")
	const secret = "not-for-agents-4711"
	private := []string{".ssh/id_ed25519", ".netrc", ".aws/credentials", ".config/gh/hosts.yml", ".bash_history", "Documents/letter", ".git-credentials", ".claude/.credentials.json"}
	for _, f := range private {
		w.File(f, secret+"\n")
	}
	w.File(".cache/go-build/00/x", "a build\n")
	w.File("go/pkg/mod/cache/download/x", "a module\n")
	w.File(".cargo/config.toml", "[build]\n")
	before := w.Fingerprint()
	rep := w.Run("home", fmt.Sprintf(`set -e
		cd %q; [ "$PWD" = "$(git rev-parse --show-toplevel)" ]; [ "$(cat .config/tool/settings)" = on ]
		[ "$HOME" != "$PWD" ]; echo state > "$HOME/.agent"; mkdir -p "$HOME/.cache/x"; echo y > "$HOME/.cache/x/y"
		for f in %s; do [ ! -e "$f" ] || { echo "$f is visible"; exit 5; }; [ ! -e "$HOME/$f" ]; done
		! grep -rs %s . "$HOME" --exclude-dir=proc
		[ -z "$(git status --porcelain)" ]
		echo two >> notes; echo new > .config/tool/more`, w.Home, strings.Join(private, " "), "not-for-agents-[4]711")).Want(0).Report()
	took(w, rep, map[string]string{"notes": "one\ntwo\n", ".config/tool/more": "new\n"})
	noticed(w, rep, "home", "repository")
	w.Untouched(before, rep.Branch)
	if found := w.Holding(filepath.Join(w.Dir, "state"), secret); len(found) > 0 {
		t.Errorf("a private file came into the state folder: %q", found)
	}
	refused(w, w.Run("dirty", "true", "--include-dirty"), 2, "home", "--include-dirty")
}

// TestHomeInsideARepository: as with a repository of all homes.
func TestHomeInsideARepository(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Home = w.Folder("homes/una")
	w.File("homes/una/.ssh/id", "not-for-agents-4711\n")
	w.File(".gitignore", ".ssh\n")
	w.Small()
	w.Run("inside", `[ ! -e homes/una/.ssh ] && [ -z "$(find homes -type f)" ] && echo state > "$HOME/.agent" && echo good > a`).Want(0)
	refused(w, w.Run("dirty", "true", "--include-dirty"), 2, "home", "--include-dirty")
}
