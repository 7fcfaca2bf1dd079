package fake

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"slices"
	"strings"
	"sync"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/internal/wire"
)

// Config says what a fake can do.
type Config struct {
	Factory sallyport.FactoryID
	// Programs are the commands that exist, by Argv[0]. Any other one is "not found".
	Programs map[string]Program
	// Layers is what Describe and every receipt say. Nil: DefaultLayers.
	Layers []sallyport.LayerReport
}

// Provider implements provider.Provider. The zero value cannot be used; see New.
type Provider struct {
	cfg Config

	mu        sync.Mutex
	sandboxes map[sallyport.AllocationID]*sandbox
	faults    []*Fault
	late      []func()
	calls     []Call
	unlisted  map[sallyport.AllocationID]bool
	ghosts    []provider.Status
}

// New is a provider without sandboxes and without faults.
func New(cfg Config) *Provider {
	if cfg.Layers == nil {
		cfg.Layers = DefaultLayers()
	}
	return &Provider{cfg: cfg, sandboxes: map[sallyport.AllocationID]*sandbox{}, unlisted: map[sallyport.AllocationID]bool{}}
}

// DefaultLayers holds what a fake does enforce (runtime, output, credentials by name, worktree) and says of all
// else that it does not.
func DefaultLayers() []sallyport.LayerReport {
	held := []sallyport.Layer{sallyport.LayerWorktree, sallyport.LayerCredentials, sallyport.LayerRuntime, sallyport.LayerOutput}
	return layers(func(l sallyport.Layer) bool { return slices.Contains(held, l) })
}

// AllLayers claims everything: for tests of callers that require layers.
func AllLayers() []sallyport.LayerReport {
	return layers(func(sallyport.Layer) bool { return true })
}

func layers(held func(sallyport.Layer) bool) (all []sallyport.LayerReport) {
	for _, l := range sallyport.Layers() {
		r := sallyport.LayerReport{Layer: l, Status: sallyport.LayerNotHeld, Proof: "a fake: nothing was tried", Grade: sallyport.GradeObservation}
		if held(l) {
			r.Status = sallyport.LayerHeld
		}
		all = append(all, r)
	}
	return all
}

// Name implements provider.Provider.
func (p *Provider) Name() string { return "fake" }

// Describe implements provider.Provider.
func (p *Provider) Describe(ctx context.Context) (c provider.Capabilities, err error) {
	err = p.call(ctx, "Describe", "", func() error {
		c = provider.Capabilities{Layers: slices.Clone(p.cfg.Layers), StatusBy: "keeper"}
		return nil
	})
	return c, err
}

func (p *Provider) resource(a sallyport.AllocationID) sallyport.ResourceID {
	return sallyport.ResourceID("fake:" + string(p.cfg.Factory) + ":" + string(a))
}

func (p *Provider) allocation(op string, id sallyport.ResourceID) (sallyport.AllocationID, error) {
	parts := strings.Split(string(id), ":")
	if len(parts) != 3 || parts[0] != "fake" || sallyport.CheckID(sallyport.AllocationPrefix, parts[2]) != nil {
		return "", &sallyport.Error{Op: op, Code: sallyport.CodeInvalid, Subject: string(id), Message: "expected fake:FACTORY:ALLOCATION"}
	}
	if parts[1] != string(p.cfg.Factory) {
		return "", &sallyport.Error{Op: op, Code: sallyport.CodeUnavailable, Subject: string(id), Message: "a sandbox of another factory"}
	}
	return sallyport.AllocationID(parts[2]), nil
}

func notFound(op string, a sallyport.AllocationID) error {
	return &sallyport.Error{Op: op, Code: sallyport.CodeNotFound, Subject: string(a), Message: "no such sandbox"}
}

// Create implements provider.Provider.
func (p *Provider) Create(ctx context.Context, spec provider.Spec) (id sallyport.ResourceID, err error) {
	if err := p.check(spec); err != nil {
		return "", err
	}
	err = p.call(ctx, "Create", spec.Allocation, func() error {
		id, err = p.make(spec)
		return err
	})
	if err != nil {
		return "", err
	}
	return id, nil
}

// make is under mu.
func (p *Provider) make(spec provider.Spec) (sallyport.ResourceID, error) {
	if old, ok := p.sandboxes[spec.Allocation]; ok {
		a, _ := json.Marshal(old.spec)
		b, _ := json.Marshal(spec)
		if !bytes.Equal(a, b) {
			return "", &sallyport.Error{Op: "create", Code: sallyport.CodeConflict, Subject: string(spec.Allocation), Message: "made before from another spec"}
		}
		old.halfMade = false
		return p.resource(spec.Allocation), nil
	}
	p.sandboxes[spec.Allocation] = newSandbox(spec, p.cfg)
	return p.resource(spec.Allocation), nil
}

// Lookup implements provider.Provider.
func (p *Provider) Lookup(ctx context.Context, id sallyport.ResourceID) (st provider.Status, err error) {
	a, err := p.allocation("lookup", id)
	if err != nil {
		return st, err
	}
	err = p.call(ctx, "Lookup", a, func() error {
		s, ok := p.sandboxes[a]
		if !ok {
			return notFound("lookup", a)
		}
		st = p.status(s)
		return nil
	})
	return st, err
}

func (p *Provider) status(s *sandbox) provider.Status {
	return provider.Status{ID: p.resource(s.spec.Allocation), Allocation: s.spec.Allocation, Attempt: s.spec.Attempt, Alive: true, HalfMade: s.halfMade, Detail: "in memory"}
}

// List implements provider.Provider.
func (p *Provider) List(ctx context.Context) (all []provider.Status, err error) {
	err = p.call(ctx, "List", "", func() error {
		for a, s := range p.sandboxes {
			if !p.unlisted[a] {
				all = append(all, p.status(s))
			}
		}
		all = append(all, p.ghosts...)
		slices.SortFunc(all, func(x, y provider.Status) int { return strings.Compare(string(x.ID), string(y.ID)) })
		return nil
	})
	return all, err
}

// Connect implements provider.Provider.
func (p *Provider) Connect(ctx context.Context, id sallyport.ResourceID, auth provider.Auth) (provider.Wire, error) {
	a, err := p.allocation("connect", id)
	if err != nil {
		return nil, err
	}
	var s *sandbox
	err = p.call(ctx, "Connect", a, func() error {
		var ok bool
		if s, ok = p.sandboxes[a]; !ok {
			return notFound("connect", a)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	ours, theirs := net.Pipe()
	if !s.accept(theirs) {
		return nil, notFound("connect", a)
	}
	return wire.Dial(ctx, ours, a, auth)
}

// Destroy implements provider.Provider.
func (p *Provider) Destroy(ctx context.Context, id sallyport.ResourceID) error {
	a, err := p.allocation("destroy", id)
	if err != nil {
		return err
	}
	return p.call(ctx, "Destroy", a, func() error {
		p.drop(a)
		return nil
	})
}

// drop is under mu.
func (p *Provider) drop(a sallyport.AllocationID) {
	if s, ok := p.sandboxes[a]; ok {
		delete(p.sandboxes, a)
		delete(p.unlisted, a)
		go s.vanish()
	}
}
