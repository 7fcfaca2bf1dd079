package control

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/change"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/internal/screen"
)

// standingOn does what stands on a checkout while that is still being compared with its manifest: starting a
// sandbox need not wait for it. Nothing of it counts before the comparison has ended well. Where it does not, do
// is ended through its context, and the checkout is never used again.
func (d *driver) standingOn(ctx context.Context, co change.Checkout, do func(context.Context) error) error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		if sallyport.CodeOf(co.Watch(inner)) == sallyport.CodeCorrupt {
			cancel()
		}
	}()
	err := do(inner)
	damage := co.Verified(ctx)
	if sallyport.CodeOf(damage) == sallyport.CodeCorrupt {
		return d.damaged(damage) // whatever else went wrong may come from it
	}
	if err == nil {
		err = damage
	}
	return err
}

// makeOn is make for a sandbox that stands on a checkout. Where a damaged one was in its way, it is as if it had
// never been intended.
func (d *driver) makeOn(ctx context.Context, f frozen, co change.Checkout) (sallyport.ResourceID, error) {
	rid, err := d.make(ctx, f)
	if err == nil {
		return rid, nil
	}
	damage := co.Verified(ctx)
	if sallyport.CodeOf(damage) != sallyport.CodeCorrupt {
		return "", err
	}
	al, err := d.allocation(ctx, f.Spec.Allocation)
	if err != nil {
		return "", err
	}
	if err := d.drop(ctx, al, "its checkout is damaged"); err != nil {
		return "", err
	}
	return "", d.damaged(damage)
}

const checkoutDamaged = "checkout-damaged"

func (d *driver) damaged(why error) error {
	return because(checkoutDamaged, fmt.Sprintf("`sallyport retry %s` starts again, on a new checkout; find out what writes in the state folder, or whether its disk fails", screen.Short(d.id)),
		"the cached checkout below the sandbox is not as it was built, and nothing was taken from the sandbox: %s", screen.Line(why.Error()))
}

// workspace is the base with the private gitdir, and the start tree over it where that differs. Use it by
// standingOn.
func (d *driver) workspace(ctx context.Context, tree sallyport.ObjectID) (provider.Workspace, change.Checkout, error) {
	d.warm(ctx) // a sandbox will be made of it
	co, err := d.checkout(ctx)
	if err != nil {
		return provider.Workspace{}, co, err
	}
	ws := provider.Workspace{Path: d.m.Repository, Layers: []string{co.Files}, GitDir: co.GitDir, Base: string(d.m.Base)}
	if tree == d.m.BaseTree {
		return ws, co, nil
	}
	layer, err := d.layer(ctx, tree)
	if err != nil {
		return ws, co, err
	}
	ws.Layers = []string{layer, co.Files}
	return ws, co, nil
}

// sameCheckout is the one below a workspace that an earlier driver made.
func (d *driver) sameCheckout(ws provider.Workspace) (change.Checkout, error) {
	co, err := d.store.Reopen(ws.Layers[len(ws.Layers)-1], ws.GitDir)
	if sallyport.CodeOf(err) == sallyport.CodeCorrupt {
		return co, d.damaged(err)
	}
	if err == nil {
		d.keep(co.Release)
	}
	return co, err
}

func (d *driver) checkout(ctx context.Context) (change.Checkout, error) {
	name := d.m.Agent.Name
	if name == "" {
		name = "agent"
	}
	co, err := d.store.Checkout(ctx, change.CheckoutOptions{Commit: d.m.Base, Tree: d.m.BaseTree, BaseRef: d.m.BaseRef, Branch: "sallyport/" + d.m.Name, History: d.m.History, Identity: name + " (sallyport)"})
	if err != nil {
		return co, err
	}
	// In use until this driver ends: nothing in use is evicted.
	d.keep(co.Release)
	return co, nil
}

func (d *driver) keep(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.releases = append(d.releases, f)
}

// layer is the difference of tree to the base as an overlay layer, made once per Attempt.
func (d *driver) layer(ctx context.Context, tree sallyport.ObjectID) (string, error) {
	d.layers.Lock()
	defer d.layers.Unlock()
	dir := filepath.Join(d.c.attemptFolder(d.id), "layers", string(tree))
	if _, err := os.Lstat(dir); err == nil {
		return dir, nil
	}
	tmp := fmt.Sprintf("%s-%d.tmp", dir, d.current().Fence)
	if err := os.RemoveAll(tmp); err != nil {
		return "", stateError(tmp, err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return "", stateError(dir, err)
	}
	if err := d.store.Layer(ctx, d.m.BaseTree, tree, tmp); err != nil {
		return "", err
	}
	if err := os.Rename(tmp, dir); err != nil {
		return "", stateError(dir, err)
	}
	return dir, nil
}
