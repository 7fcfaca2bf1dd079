package local

import (
	"context"
	"os"
	"sync"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/contain/cgroup"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/internal/provider/local/keeper"
)

// group is an Allocation's cgroup as far as this host has one.
type group struct {
	setup  keeper.CgroupSetup
	files  []*os.File
	layers []sallyport.LayerReport
}

func (g group) close() {
	for _, f := range g.files {
		f.Close()
	}
}

// detect is asked once per process: it tries things out, and under systemd moves this process into the user's
// scope first. Where that fails the host is used as it is: the receipt then says what does not hold, and why.
var detect = sync.OnceValue(func() cgroup.Host {
	h := cgroup.Detect()
	if !h.WantsScope() {
		return h
	}
	if err := enterScope(); err != nil {
		for c := range h.Problems {
			h.Problems[c] += "; " + err.Error()
		}
		return h
	}
	return cgroup.Detect()
})

// group makes the Allocation's cgroup, with its limits, and opens the doors to it.
func (p *Provider) group(spec provider.Spec) (group, error) {
	made, layers, err := detect().Create(string(p.cfg.Factory), string(spec.Allocation), spec.Limits)
	if err != nil {
		return group{}, err
	}
	g := group{layers: watchMemory(layers)}
	if made == nil {
		return g, nil
	}
	entry, err := made.Entry()
	if err != nil {
		return g, err
	}
	g.files = entry.Files()
	events, err := made.MemoryEvents()
	if err != nil {
		g.close()
		return g, err
	}
	if events != nil {
		g.files = append(g.files, events)
	}
	g.setup = keeper.CgroupSetup{Files: len(g.files), Events: events != nil}
	for _, l := range layers {
		if l.Layer == sallyport.LayerMemory {
			g.setup.MemoryHeld = l.Status == sallyport.LayerHeld
		}
	}
	return g, nil
}

// watchMemory: where no cgroup holds memory, the keeper polls it.
func watchMemory(layers []sallyport.LayerReport) []sallyport.LayerReport {
	for i, l := range layers {
		if l.Layer == sallyport.LayerMemory && l.Status == sallyport.LayerNotHeld {
			layers[i].Status, layers[i].Proof = sallyport.LayerWatched, "polled by the keeper; no cgroup: "+l.Proof
		}
	}
	return layers
}

// dropGroup removes the Allocation's cgroup and what a Create that was ended left on the way to it; none: nil.
func (p *Provider) dropGroup(ctx context.Context, a sallyport.AllocationID) error {
	host := cgroup.Look()
	g, err := host.Open(string(p.cfg.Factory), string(a))
	if err == nil {
		err = g.Destroy(ctx)
	}
	if err != nil && sallyport.CodeOf(err) != sallyport.CodeNotFound {
		return err
	}
	return host.Prune(string(p.cfg.Factory))
}
