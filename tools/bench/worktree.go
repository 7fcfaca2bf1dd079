package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/change"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/tools/sandbox"
)

// worktree: how long until a command can read a file of a large base, its checkout cached. The checkout is
// compared with what it was beside that, and before anything counts that rests on it: how long it takes until
// then, with the sandbox being started meanwhile, is a row of its own.
func (b *bench) worktree(ctx context.Context) error {
	heading("2. A worktree of the base, ready in a sandbox (warm cache; first byte of a file read inside)")
	f, err := b.factory("worktree")
	if err != nil {
		return err
	}
	var cs []contender
	compared := map[int]*times{}
	for _, n := range []int{5000, 50000} {
		repo, err := b.repository(ctx, n)
		if err != nil {
			return err
		}
		compared[n] = new(times)
		ours, err := b.ownWorktree(ctx, f, repo, n, compared[n])
		if err != nil {
			return err
		}
		cs = append(cs, ours, b.gitWorktree(repo, n))
	}
	all, err := race(ctx, b.rounds, 60*time.Second, cs...)
	if err != nil {
		return err
	}
	show(all, cs...)
	for _, n := range []int{5000, 50000} {
		c := contender{name: fmt.Sprintf("%d files: until its checkout has been compared", n)}
		all[c.name] = (*compared[n])[1:]
		show(all, c)
	}
	ratio("50,000 files: sandbox / git worktree add", all[cs[2].name], all[cs[3].name], 0.02)
	ratio("5,000 files: sandbox / git worktree add", all[cs[0].name], all[cs[1].name], 0.2)
	ratio("flat: 50,000 files / 5,000 files", all[cs[2].name], all[cs[0].name], 1.2)
	return nil
}

func (b *bench) ownWorktree(ctx context.Context, f *factory, repo string, n int, compared *times) (contender, error) {
	r, err := change.Open(ctx, repo)
	if err != nil {
		return contender{}, err
	}
	store, err := b.store(ctx, r)
	if err != nil {
		return contender{}, err
	}
	base, err := r.Resolve(ctx, "")
	if err != nil {
		return contender{}, err
	}
	o := change.CheckoutOptions{Commit: base.Commit, Tree: base.Tree, BaseRef: base.Ref, Branch: "sallyport/bench", Identity: "bench"}
	began := time.Now()
	cold, err := store.Checkout(ctx, o)
	if err != nil {
		return contender{}, err
	}
	cold.Release()
	fmt.Printf("  %-58s %8s %8s\n", fmt.Sprintf("%d files: filling the cache, once per base", n), "", ms(time.Since(began)))
	once := func(ctx context.Context) (time.Duration, error) {
		t := time.Now()
		co, err := store.Checkout(ctx, o)
		if err != nil {
			return 0, err
		}
		defer co.Release()
		found := time.Since(t)
		verified := make(chan error, 1)
		go func() {
			err := co.Watch(ctx)
			*compared = append(*compared, time.Since(t))
			verified <- err
		}()
		if !co.Reused {
			return 0, fmt.Errorf("the cache was not used")
		}
		spec, auth, err := f.Spec(provider.Workspace{Path: repo, Layers: []string{co.Files}, GitDir: co.GitDir, Base: string(base.Commit), Collect: true}, sandbox.SystemMounts(), "/home/agent",
			provider.Command{Argv: []string{"head", "-c1", fmt.Sprintf("part%02d/dir%03d/file99.txt", (n-1)/10000, (n-1)/100%100)}, Dir: repo, Env: map[string]string{"PATH": "/usr/bin:/bin", "HOME": "/home/agent"}})
		if err != nil {
			return 0, err
		}
		l, err := f.use(ctx, spec, auth)
		return found + l.first, errors.Join(err, <-verified)
	}
	return contender{name: fmt.Sprintf("%d files: sandbox with the worktree", n), once: once}, nil
}

// store is the one that `sallyport run` has for the repository in this run's state folder, so that the cache
// is filled once. Should Mission Control name it otherwise one day, this costs time and is no error.
func (b *bench) store(ctx context.Context, r *change.Repo) (*change.Store, error) {
	return change.OpenStore(ctx, filepath.Join(b.dir, "state", "repos", sallyport.Sum([]byte(r.CommonDir)).Hex()[:32]), r)
}

// gitWorktree adds and removes a linked worktree; only the adding counts.
func (b *bench) gitWorktree(repo string, n int) contender {
	dir := filepath.Join(b.dir, fmt.Sprintf("worktree-%d", n))
	return contender{name: fmt.Sprintf("%d files: git worktree add", n), rounds: map[bool]int{true: 2, false: 5}[n > 10000], once: func(ctx context.Context) (time.Duration, error) {
		began := time.Now()
		if err := git(ctx, repo, "worktree", "add", "-q", "--detach", dir); err != nil {
			return 0, err
		}
		took := time.Since(began)
		if err := os.RemoveAll(dir); err != nil {
			return 0, err
		}
		return took, git(ctx, repo, "worktree", "prune")
	}}
}
