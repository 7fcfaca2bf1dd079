package change

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Real overlays are mounted by this test binary again, in a mount namespace that dies with it.
const mountEnv = "SALLYPORT_CHANGE_TEST_MOUNT"

type mountJob struct {
	Lower  []string // topmost first
	Dir    string   // upper, work and merged are made below it
	GitDir string   // lower of an overlay at merged/.git; "": none
	Script string   // run by sh in merged
}

func TestMain(m *testing.M) {
	if raw := os.Getenv(mountEnv); raw != "" {
		if err := mountHelper(raw); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func mountHelper(raw string) error {
	var j mountJob
	if err := json.Unmarshal([]byte(raw), &j); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	merged := filepath.Join(j.Dir, "merged")
	if err := overlay(j.Lower, filepath.Join(j.Dir, "files"), merged); err != nil {
		return err
	}
	if j.GitDir != "" {
		if err := overlay([]string{j.GitDir}, filepath.Join(j.Dir, "git"), filepath.Join(merged, ".git")); err != nil {
			return err
		}
	}
	cmd := exec.Command("sh", "-euc", j.Script)
	cmd.Dir, cmd.Stdout, cmd.Stderr = merged, os.Stdout, os.Stderr
	return cmd.Run()
}

func overlay(lower []string, scratch, at string) error {
	upper, work := scratch+"-upper", scratch+"-work"
	for _, d := range []string{upper, work, at} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	options := "lowerdir=" + strings.Join(lower, ":") + ",upperdir=" + upper + ",workdir=" + work + ",userxattr"
	if err := unix.Mount("overlay", at, "overlay", 0, options); err != nil {
		return fmt.Errorf("overlay %s: %w", options, err)
	}
	return nil
}

// inOverlay runs script in an overlay over lower and returns its output and the upper folder.
func inOverlay(t testing.TB, j mountJob) (string, string) {
	t.Helper()
	j.Dir = t.TempDir()
	raw, _ := json.Marshal(j)
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C", mountEnv + "=" + string(raw)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}}
	out, err := cmd.Output()
	if err != nil {
		stderr := ""
		if e, ok := err.(*exec.ExitError); ok {
			stderr = string(e.Stderr)
		}
		t.Fatalf("in overlay: %v: %s%s", err, out, stderr)
	}
	for _, w := range []string{"files-work/work", "git-work/work"} {
		os.Chmod(filepath.Join(j.Dir, w), 0o700) // overlayfs leaves it without permissions
	}
	return string(out), filepath.Join(j.Dir, "files-upper")
}
