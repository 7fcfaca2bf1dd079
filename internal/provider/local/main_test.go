package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/id"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/internal/provider/providertest"
	"sallyport.dev/sallyport/internal/testkit"
)

// childEnv makes this binary call Create once, as another Mission Control would, and end.
const childEnv = "SALLYPORT_TEST_CREATE"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		createInChild()
	}
	os.Exit(m.Run())
}

// childJob is what a child is to make.
type childJob struct {
	Config Config
	Spec   provider.Spec
	Warm   bool // with a spare that is ready
}

func createInChild() {
	var job childJob
	b, err := io.ReadAll(os.Stdin)
	if err == nil {
		err = json.Unmarshal(b, &job)
	}
	var p *Provider
	if err == nil {
		p, err = Open(job.Config)
	}
	if err == nil && job.Warm {
		err = p.Warm(context.Background())
	}
	if err == nil {
		_, err = p.Create(context.Background(), job.Spec)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// userID is an ordinary user for the tests that run as root; it needs no account.
const userID = 1000

// TestAsUser runs every test of this package again as an ordinary user.
func TestAsUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("missing capability: only root can become an ordinary user; this run is one already")
	}
	if testing.Short() {
		t.Skip("short: the suite runs as root only")
	}
	dir, err := os.MkdirTemp("", "sallyport-user-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	binary := filepath.Join(dir, "local.test")
	tmp := filepath.Join(dir, "tmp")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	copyFile(t, self, binary)
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(tmp, 0o700), os.Chown(tmp, userID, userID)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.v", "-test.count=1", "-test.skip=^TestAsUser$", "-test.timeout=9m")
	cmd.Dir = "/"
	cmd.Env = []string{"TMPDIR=" + tmp, "HOME=" + tmp, "PATH=" + os.Getenv("PATH"), "SALLYPORT_TEST_PROGRAMS=" + testkit.Programs(t), askerEnv + "=" + askerFolder(t)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: userID, Gid: userID}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("as an ordinary user: %v\n%s", err, failures(string(out)))
	}
	if !strings.Contains(string(out), "--- PASS: TestContract") {
		t.Fatalf("the suite did not run:\n%s", out)
	}
	testkit.Skips(t, string(out), "TestIDSlots", "TestSpareWhoseIDsAreTaken", // an ordinary user has one id
		"TestManagerOfAnotherUser",       // and cannot listen as another
		"TestNamespaceThatIsStillEnding", // nor put a process into a sandbox from outside
		"TestStopBeforeStartLeavesNoThread",
		// Without a delegated cgroup, as here; the emulated guest has one.
		"TestDestroyPrunesTheFactorysCgroups", "TestContract/the_memory_limit_ends_the_command", "TestContract/the_pids_limit_bounds_the_processes")
}

// failures leaves out what passed.
func failures(out string) string {
	var keep []string
	for _, l := range strings.Split(out, "\n") {
		if !strings.Contains(l, "--- PASS") && !strings.HasPrefix(strings.TrimSpace(l), "=== ") {
			keep = append(keep, l)
		}
	}
	return strings.Join(keep, "\n")
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// bench is a provider with a factory of its own and a base tree.
type bench struct {
	*Provider
	t    testing.TB
	base string
}

func newBench(t testing.TB) *bench {
	t.Helper()
	bin := testkit.Programs(t)
	f, err := id.New(sallyport.FactoryPrefix)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cfg := Config{Factory: sallyport.FactoryID(f), Folder: filepath.Join(dir, "local"), Keeper: filepath.Join(bin, "sallyport-keeper"), Runner: filepath.Join(bin, "sallyport-runner")}
	p, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{Provider: p, t: t, base: filepath.Join(dir, "base")}
	if err := os.Mkdir(b.base, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := providertest.WriteBase(b.base); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.sweep)
	return b
}

// sweep removes what a failed test left, and fails a test that left something without noticing.
func (b *bench) sweep() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	all, err := b.List(ctx)
	if err != nil {
		b.t.Errorf("List: %v", err)
	}
	for _, s := range all {
		if !b.t.Failed() {
			b.t.Errorf("the test left %+v", s)
		}
		if err := b.Destroy(ctx, s.ID); err != nil {
			b.t.Errorf("Destroy: %v", err)
		}
	}
	if left := b.groups(); len(left) > 0 {
		b.t.Errorf("cgroups left: %v", left)
	}
	if ids, err := os.ReadDir(filepath.Join(b.cfg.Folder, "ids")); err != nil || len(ids) > 0 {
		b.t.Errorf("id slots left: %v, %v", ids, err)
	}
}

// groups are the folders of this factory below the host's cgroups.
func (b *bench) groups() (found []string) {
	_ = filepath.WalkDir("/sys/fs/cgroup", func(p string, d os.DirEntry, err error) error {
		if err == nil && d.Name() == string(b.cfg.Factory) {
			found = append(found, p)
		}
		return nil
	})
	return found
}

// systemMounts are what a shell and the usual tools need.
func systemMounts() (ms []sallyport.Mount) {
	for _, m := range []string{"/usr", "/bin", "/lib", "/lib64", "/sbin", "/etc/ld.so.cache", "/etc/alternatives"} {
		ms = append(ms, sallyport.Mount{Path: m, Mode: "ro", Reason: "system"})
	}
	return ms
}

func (b *bench) spec(argv ...string) (provider.Spec, provider.Auth) {
	b.t.Helper()
	ids := map[string]string{}
	for _, prefix := range []string{sallyport.AllocationPrefix, sallyport.AttemptPrefix} {
		s, err := id.New(prefix)
		if err != nil {
			b.t.Fatal(err)
		}
		ids[prefix] = s
	}
	secret, err := id.Secret()
	if err != nil {
		b.t.Fatal(err)
	}
	return provider.Spec{
		Factory: b.cfg.Factory, Allocation: sallyport.AllocationID(ids[sallyport.AllocationPrefix]), Attempt: sallyport.AttemptID(ids[sallyport.AttemptPrefix]),
		Purpose: sallyport.PurposeExecute, SecretSum: sallyport.Sum([]byte(secret)),
		Workspace: provider.Workspace{Path: "/work/repo", Layers: []string{b.base}, Collect: true},
		Mounts:    systemMounts(), Home: "/home/agent",
		Command: provider.Command{Argv: argv, Dir: "/work/repo", Env: map[string]string{"PATH": provider.StubFolder + ":/usr/bin:/bin", "HOME": "/home/agent"}},
		Limits:  sallyport.Limits{Time: time.Minute, Memory: 512 << 20, PIDs: 200, Disk: 512 << 20, Output: 16 << 20},
		Require: sallyport.RequiredLayers(), LeaseTTL: time.Minute, Hold: time.Minute,
	}, provider.Auth{Secret: secret, Fence: 1}
}

func TestContract(t *testing.T) {
	providertest.Run(t, func(t *testing.T) (provider.Provider, providertest.NewSpec) {
		b := newBench(t)
		return b, func(act ...string) (provider.Spec, provider.Auth) { return b.spec(providertest.Shell(act...)...) }
	})
}
