package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/change"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/internal/toolchain"
)

// What is tested. The module has many packages, no dependencies, and tests that also pass as root.
const (
	goModule    = "github.com/goccy/go-yaml"
	npmSemver   = "semver@7.6.3"
	npmLodash   = "lodash@4.17.21"
	npmFixtures = "npm-v2"
)

// tools: what the sandbox costs while real work is done in it.
func (b *bench) tools(ctx context.Context) error {
	heading("3. Warm checks inside the sandbox against outside (the command alone: exec to exit)")
	f, err := b.factory("tools")
	if err != nil {
		return err
	}
	module, err := b.goRepository(ctx)
	if err != nil {
		return err
	}
	npm, err := b.npmRepository(ctx)
	if err != nil {
		return err
	}
	for _, k := range []struct {
		name, repo string
		argv       []string
		deps       []string
	}{
		{"go test -count=1 ./... (" + goModule + ")", module, []string{"go", "test", "-count=1", "./..."}, nil},
		{"npm test (node --test over semver and lodash)", npm, []string{"npm", "test"}, []string{"node_modules"}},
	} {
		if err := b.insideOutside(ctx, f, k.name, k.repo, k.argv, k.deps); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) insideOutside(ctx context.Context, f *factory, name, repo string, argv, deps []string) error {
	home, err := os.UserHomeDir()
	if err != nil {
		return err
	}
	env := map[string]string{}
	for _, kv := range os.Environ() {
		k, v, _ := strings.Cut(kv, "=")
		env[k] = v
	}
	t, err := toolchain.Resolve(toolchain.Request{Home: home, Repo: repo, PathEnv: env["PATH"], Env: env, Commands: []string{"sh", "git", argv[0]},
		Deps: deps, Tools: toolchain.Choice{Auto: true}, Caches: toolchain.Choice{Auto: true}, Never: []string{b.dir}})
	if err != nil {
		return err
	}
	base, release, err := b.checkout(ctx, repo)
	if err != nil {
		return err
	}
	defer release()
	inEnv := map[string]string{"HOME": home, "TMPDIR": "/tmp", "LANG": "C.UTF-8"}
	for k, v := range t.Env {
		inEnv[k] = v
	}
	inEnv["PATH"] = provider.StubFolder + ":" + strings.Join(t.Path, ":")
	mounts := t.Mounts
	have := map[string]bool{}
	for _, m := range mounts {
		have[m.Path] = true
	}
	for _, l := range t.Links {
		if !have[l.Path] {
			mounts = append(mounts, sallyport.Mount{Path: l.Path, Mode: "ro", Reason: "link"})
		}
	}
	var started times
	inside := contender{name: "inside", once: func(ctx context.Context) (time.Duration, error) {
		spec, auth, err := f.Spec(provider.Workspace{Path: repo, Layers: []string{base.Files}, GitDir: base.GitDir, Collect: true}, mounts, home, provider.Command{Argv: argv, Dir: repo, Env: inEnv})
		if err != nil {
			return 0, err
		}
		l, err := f.use(ctx, spec, auth)
		started = append(started, l.whole)
		return l.command, err
	}}
	outside := contender{name: "outside", once: func(ctx context.Context) (time.Duration, error) {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Dir = repo
		cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=mod", "npm_config_offline=true", "npm_config_update_notifier=false")
		for k, v := range t.Env {
			if k != "HOME" && k != "PATH" {
				cmd.Env = append(cmd.Env, k+"="+v) // the same switches as inside
			}
		}
		return whole(cmd)
	}}
	all, err := race(ctx, min(b.rounds, 9), 30*time.Second, inside, outside)
	if err != nil {
		return err
	}
	fmt.Printf("  %s\n", name)
	all["inside, with making the sandbox"] = started[1:]
	show(all, inside, contender{name: "inside, with making the sandbox"}, outside)
	ratio(argv[0]+" test: inside / outside", all["inside"], all["outside"], 1.1)
	return nil
}

// checkout is a base of its own store.
func (b *bench) checkout(ctx context.Context, repo string) (change.Checkout, func(), error) {
	r, err := change.Open(ctx, repo)
	if err != nil {
		return change.Checkout{}, nil, err
	}
	store, err := b.store(ctx, r)
	if err != nil {
		return change.Checkout{}, nil, err
	}
	base, err := r.Resolve(ctx, "")
	if err != nil {
		return change.Checkout{}, nil, err
	}
	co, err := store.Checkout(ctx, change.CheckoutOptions{Commit: base.Commit, Tree: base.Tree, BaseRef: base.Ref, Branch: "sallyport/bench", Identity: "bench"})
	if err != nil {
		return co, nil, err
	}
	return co, co.Release, co.Verified(ctx)
}

// goRepository is a real module from the module cache, under git.
func (b *bench) goRepository(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", goModule).Output()
	if err != nil {
		return "", fmt.Errorf("find %s in the module cache (`go mod download` fetches it): %w", goModule, err)
	}
	dir := filepath.Join(b.dir, "module")
	if err := os.CopyFS(dir, os.DirFS(strings.TrimSpace(string(out)))); err != nil {
		return "", err
	}
	if err := makeWritable(dir); err != nil {
		return "", err
	}
	return dir, b.commitAll(ctx, dir)
}

// makeWritable undoes the module cache's read-only modes.
func makeWritable(dir string) error {
	return filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := os.FileMode(0o644)
		if d.IsDir() {
			mode = 0o755
		}
		return os.Chmod(path, mode)
	})
}

const npmTest = `const test = require('node:test');
const assert = require('node:assert');
const semver = require('semver');
const _ = require('lodash');
for (let i = 0; i < 200; i++) {
  test('range ' + i, () => {
    assert.ok(semver.satisfies('1.' + i + '.0', '^1.' + i));
    assert.deepStrictEqual(_.sortBy([3, 1, i + 4, 2]), [1, 2, 3, i + 4]);
  });
}
`

// npmRepository is a package with real dependencies, installed once and kept in the cache.
func (b *bench) npmRepository(ctx context.Context) (string, error) {
	final := filepath.Join(b.cache, "repos", npmFixtures)
	if _, err := os.Stat(filepath.Join(final, ".git")); err == nil {
		return final, nil
	}
	tmp, err := os.MkdirTemp(filepath.Dir(final), "making-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	files := map[string]string{"package.json": `{"name":"bench","version":"1.0.0","private":true,"scripts":{"test":"node --test"}}`, ".gitignore": "node_modules\n"}
	for i := range 2 {
		files[fmt.Sprintf("test/part%d.test.js", i)] = npmTest
	}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(tmp, name)), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(tmp, name), []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	cmd := exec.CommandContext(ctx, "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", npmSemver, npmLodash)
	cmd.Dir = tmp
	if _, err := whole(cmd); err != nil {
		return "", err
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return "", err
	}
	if err := b.commitAll(ctx, tmp); err != nil {
		return "", err
	}
	return final, os.Rename(tmp, final)
}
