package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/id"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/journal/sqlite"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/tools/sandbox"
)

// idleSpec is a sandbox with the default layers and a command that only sleeps.
func (l *load) idleSpec(f *sandbox.Factory) (provider.Spec, provider.Auth, error) {
	base := filepath.Join(l.dir, "base")
	if err := os.MkdirAll(base, 0o755); err != nil {
		return provider.Spec{}, provider.Auth{}, err
	}
	return f.Spec(provider.Workspace{Path: "/work", Layers: []string{base}}, sandbox.SystemMounts(), "/home/agent", provider.Command{Argv: []string{"/usr/bin/sleep", "3600"}, Dir: "/work"})
}

// idleSandboxes makes them, each with its keeper, its runner and a sleeping command, weighs them and ends them.
func (l *load) idleSandboxes(ctx context.Context) (err error) {
	state := filepath.Join(l.dir, "idle")
	p, err := sandbox.New(filepath.Join(state, "local"), l.programs)
	if err != nil {
		return err
	}
	before := availableMemory()
	began := time.Now()
	var made []sallyport.ResourceID
	end := func() error {
		g, gctx := errgroup.WithContext(context.WithoutCancel(ctx))
		g.SetLimit(2)
		for _, r := range made {
			g.Go(func() error { return p.Destroy(gctx, r) })
		}
		return g.Wait()
	}
	for range l.idle {
		spec, auth, err := l.idleSpec(p)
		if err != nil {
			return errors.Join(err, end())
		}
		r, err := p.Create(ctx, spec)
		if err != nil {
			return errors.Join(err, end())
		}
		made = append(made, r)
		w, err := p.Connect(ctx, r, auth)
		if err == nil {
			err = w.Start(ctx)
			w.Close()
		}
		if err != nil {
			return errors.Join(err, end())
		}
	}
	took := time.Since(began)
	time.Sleep(2 * time.Second) // what was begun beside the start has ended
	used := before - availableMemory()
	ids := allocations(made)
	byName := weigh(func(args []string) bool { return len(args) > 1 && slices.Contains(ids, args[1]) })
	n := float64(len(made))
	fmt.Printf("  %d sandboxes in %.1f s (%.1f ms each)\n", len(made), took.Seconds(), took.Seconds()*1000/n)
	fmt.Printf("  memory that the machine has less: %.2f MB each (aim 8 MB); of it PSS of keepers %.2f MB, of runners %.2f MB\n", float64(used)/1e6/n, float64(byName["sallyport-keeper"])/1e6/n, float64(byName["sallyport-runner"])/1e6/n)
	began = time.Now()
	if err := end(); err != nil {
		return err
	}
	fmt.Printf("  ended in %.1f s\n", time.Since(began).Seconds())
	return nothingLeft(state, p.ID)
}

func allocations(resources []sallyport.ResourceID) (all []string) {
	for _, r := range resources {
		all = append(all, string(r)[strings.LastIndexByte(string(r), ':')+1:])
	}
	return all
}

// reconcile has one sandbox that lives, and as many more that look like it in folder and journal: each an Attempt of its
// own, with a live lease. What is measured is the program's own `reconcile`, which finds nothing to do.
func (l *load) reconcile(ctx context.Context) (err error) {
	w, err := l.world(ctx, "reconcile")
	if err != nil {
		return err
	}
	if _, err := w.attempt(ctx, "first", "echo first > first"); err != nil {
		return err
	}
	factory, err := factoryOf(w.state)
	if err != nil {
		return err
	}
	p, err := sandbox.Open(factory, filepath.Join(w.state, "local"), l.programs)
	if err != nil {
		return err
	}
	spec, _, err := l.idleSpec(p)
	if err != nil {
		return err
	}
	r, err := p.Create(ctx, spec)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Destroy(context.WithoutCancel(ctx), r)) }()
	db, err := sqlite.Open(filepath.Join(w.state, "journal.db"), sqlite.Options{})
	if err != nil {
		return err
	}
	defer db.Close()
	if err := l.multiply(ctx, db, w.state, spec, r); err != nil {
		return err
	}
	var took, cpu []float64
	for range 5 {
		began := time.Now()
		cmd := w.sallyport(ctx, "reconcile")
		said, err := output(cmd)
		if err != nil {
			return err
		}
		if said != "nothing to do" {
			return fmt.Errorf("reconcile found something to do: %.500s", said)
		}
		took = append(took, time.Since(began).Seconds())
		cpu = append(cpu, (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds())
	}
	fmt.Printf("  reconcile of %d resources with live leases: %.2f s, of processors %.2f s, medians of 5 (aim 1 s)\n", l.resources, median(took), median(cpu))
	return nil
}

// multiply makes l.resources Attempts with an Allocation each; the first is r's, the others are copies of it.
func (l *load) multiply(ctx context.Context, db *sqlite.DB, state string, spec provider.Spec, r sallyport.ResourceID) error {
	folder := filepath.Join(state, "local", "allocations")
	files, err := os.ReadDir(filepath.Join(folder, string(spec.Allocation)))
	if err != nil {
		return err
	}
	holder, err := journal.SelfHolder()
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(64)
	for i := range l.resources {
		g.Go(func() error {
			rec, err := created(fmt.Sprintf("wo_%d", i))
			if err != nil {
				return err
			}
			alloc := spec.Allocation
			if i == 0 {
				rec.Attempt = spec.Attempt
			} else if alloc, err = copied(folder, files, spec, rec.Attempt); err != nil {
				return err
			}
			if _, err := db.Append(ctx, nil, rec); err != nil {
				return err
			}
			lease, err := db.Acquire(ctx, rec.Attempt, holder, time.Hour, nil)
			if err != nil {
				return err
			}
			_, err = db.Append(ctx, &lease,
				journal.Record{Type: lifecycle.AttemptStage, Attempt: rec.Attempt, Data: lifecycle.Stage{State: sallyport.AttemptPreparing}},
				journal.Record{Type: lifecycle.AllocationIntended, Attempt: rec.Attempt, Allocation: alloc, Data: lifecycle.Intended{Purpose: sallyport.PurposeExecute, Provider: "local", Spec: sallyport.Sum([]byte("spec"))}},
				journal.Record{Type: lifecycle.AllocationBound, Attempt: rec.Attempt, Allocation: alloc,
					Data: lifecycle.Bound{Resource: sallyport.ResourceID(strings.Replace(string(r), string(spec.Allocation), string(alloc), 1))}})
			return err
		})
	}
	return g.Wait()
}

// copied makes the folder of another Allocation out of spec's, with ids of its own.
func copied(folder string, files []os.DirEntry, spec provider.Spec, attempt sallyport.AttemptID) (sallyport.AllocationID, error) {
	raw, err := id.New(sallyport.AllocationPrefix)
	if err != nil {
		return "", err
	}
	to := filepath.Join(folder, raw)
	if err := os.Mkdir(to, 0o700); err != nil {
		return "", err
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".json") {
			continue
		}
		b, err := os.ReadFile(filepath.Join(folder, string(spec.Allocation), f.Name()))
		if err != nil {
			return "", err
		}
		b = bytes.ReplaceAll(b, []byte(spec.Allocation), []byte(raw))
		b = bytes.ReplaceAll(b, []byte(spec.Attempt), []byte(attempt))
		if err := os.WriteFile(filepath.Join(to, f.Name()), b, 0o600); err != nil {
			return "", err
		}
	}
	return sallyport.AllocationID(raw), nil
}

func factoryOf(state string) (f sallyport.FactoryID, err error) {
	b, err := os.ReadFile(filepath.Join(state, "factory.json"))
	if err != nil {
		return "", err
	}
	var file struct {
		Factory sallyport.FactoryID `json:"factory"`
	}
	err = json.Unmarshal(b, &file)
	return file.Factory, err
}
