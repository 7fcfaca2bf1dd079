package local

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/id"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/internal/testkit"
)

func TestSmoke(t *testing.T) {
	bin := testkit.Programs(t)
	f, _ := id.New("fac")
	a, _ := id.New("alc")
	at, _ := id.New("att")
	dir := t.TempDir()
	p, err := Open(Config{Factory: sallyport.FactoryID(f), Folder: dir + "/local", Keeper: bin + "/sallyport-keeper", Runner: bin + "/sallyport-runner"})
	if err != nil {
		t.Fatal(err)
	}
	base := filepath.Join(dir, "base")
	os.MkdirAll(base+"/.git", 0o755)
	os.WriteFile(base+"/hello.txt", []byte("hi\n"), 0o644)
	script := "id; ls -la / /work/repo; pwd; echo new > new.txt; echo more >> hello.txt; cat /proc/self/status | grep -i -E 'cap|seccomp|nonew'; ls /proc; env; mount; exit 7"
	if s := os.Getenv("SMOKE"); s != "" {
		script = s
	}
	spec := provider.Spec{Factory: sallyport.FactoryID(f), Allocation: sallyport.AllocationID(a), Attempt: sallyport.AttemptID(at), Purpose: "execute", SecretSum: sallyport.Sum([]byte("s")),
		Workspace: provider.Workspace{Path: "/work/repo", Layers: []string{base}, Collect: true}, Home: "/home/agent",
		Command: provider.Command{Argv: []string{"sh", "-c", script}, Dir: "/work/repo", Env: map[string]string{"PATH": "/run/sallyport/bin:/usr/bin:/bin", "HOME": "/home/agent"}},
		Limits:  sallyport.Limits{Time: time.Minute, Memory: 1 << 30, PIDs: 500, Disk: 1 << 30, Output: 1 << 20},
		Require: sallyport.RequiredLayers(), LeaseTTL: time.Minute, Hold: time.Minute}
	for _, m := range []string{"/usr", "/bin", "/lib", "/lib64", "/sbin", "/etc/ld.so.cache", "/etc/alternatives"} {
		spec.Mounts = append(spec.Mounts, sallyport.Mount{Path: m, Mode: "ro", Reason: "system"})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	t0 := time.Now()
	rid, err := p.Create(ctx, spec)
	if err != nil {
		b, _ := os.ReadFile(p.folder(spec.Allocation) + "/keeper.log")
		t.Fatalf("%v\n%s", err, b)
	}
	t.Log("create", time.Since(t0))
	defer func() {
		t0 := time.Now()
		if err := p.Destroy(ctx, rid); err != nil {
			t.Fatal(err)
		}
		t.Log("destroy", time.Since(t0))
		if _, err := p.Lookup(ctx, rid); sallyport.CodeOf(err) != sallyport.CodeNotFound {
			t.Fatal(err)
		}
	}()
	w, err := p.Connect(ctx, rid, provider.Auth{Secret: "s", Fence: 1})
	if err != nil {
		t.Fatal(err)
	}
	ls, err := w.Layers(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range ls {
		t.Logf("%-12s %-10s %s %s", l.Layer, l.Status, l.Proof, l.Weaker)
	}
	if err := w.Start(ctx); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := w.Output(ctx, 0, &out); err != nil {
		t.Fatal(err)
	}
	e, err := w.Wait(ctx)
	t.Logf("%+v %v\n%s", e, err, out.String())
	t.Log("all", time.Since(t0))
	var change bytes.Buffer
	t0 = time.Now()
	if err := w.Collect(ctx, &change); err != nil {
		b, _ := os.ReadFile(p.folder(spec.Allocation) + "/keeper.log")
		t.Fatalf("%v\n%s", err, b)
	}
	t.Logf("collect %v %q", time.Since(t0), change.String())
}
