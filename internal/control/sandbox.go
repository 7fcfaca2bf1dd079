package control

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/id"
	"sallyport.dev/sallyport/internal/journal"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/internal/provider"
)

// frozen is what an Allocation is made from, durable before its intent: a later driver makes the very same
// sandbox again or connects to it.
type frozen struct {
	Spec   provider.Spec `json:"spec"`
	Secret string        `json:"secret"`
	held
}

// held is what belongs to the sandbox of an agent, for as long as it is there.
type held struct {
	Placeholder string `json:"placeholder,omitempty"` // what the agent has instead of a credential
	Authority   string `json:"authority,omitempty"`   // seed of the gateway's authority; empty: TLS is not opened
}

func (d *driver) frozenPath(a sallyport.AllocationID) string {
	return filepath.Join(d.c.attemptFolder(d.id), string(a)+".json")
}

// intend chooses an Allocation's id and makes spec and intent durable. Nothing exists yet.
func (d *driver) intend(ctx context.Context, spec provider.Spec, label string, h held) (frozen, error) {
	raw, err := id.New(sallyport.AllocationPrefix)
	if err != nil {
		return frozen{}, err
	}
	secret, err := id.Secret()
	if err != nil {
		return frozen{}, err
	}
	spec.Factory, spec.Allocation, spec.Attempt = d.c.factory, sallyport.AllocationID(raw), d.id
	spec.SecretSum = sallyport.Sum([]byte(secret))
	spec.LeaseTTL, spec.Hold, spec.Require = sandboxTTL, sandboxHold, d.m.Require
	if spec.Limits.CPU == 0 && slices.Contains(spec.Require, sallyport.LayerCPU) {
		spec.Limits.CPU = float64(runtime.NumCPU()) // a layer that must hold needs a limit: the whole machine's
	}
	f := frozen{Spec: spec, Secret: secret, held: h}
	if err := d.learn(f); err != nil {
		return f, err
	}
	b, err := json.Marshal(f)
	if err != nil {
		return frozen{}, err
	}
	if err := writeDurable(d.frozenPath(spec.Allocation), b); err != nil {
		return frozen{}, err
	}
	sum, err := json.Marshal(spec)
	if err != nil {
		return frozen{}, err
	}
	return f, d.record(ctx, journal.Record{Type: lifecycle.AllocationIntended, Allocation: spec.Allocation,
		Data: lifecycle.Intended{Purpose: spec.Purpose, Provider: d.provider.Name(), Spec: sallyport.Sum(sum), Label: label}})
}

func (d *driver) thaw(a sallyport.AllocationID) (frozen, error) {
	var f frozen
	b, err := os.ReadFile(d.frozenPath(a))
	if err == nil {
		err = json.Unmarshal(b, &f)
	}
	if err != nil {
		return f, &sallyport.Error{Op: "read allocation", Code: sallyport.CodeCorrupt, Subject: string(a), Err: err}
	}
	return f, d.learn(f)
}

// warm has the provider do meanwhile what is the same for every sandbox. Where it fails, Create does it.
func (d *driver) warm(ctx context.Context) {
	if w, ok := d.provider.(provider.Warmer); ok {
		go func() { _ = w.Warm(ctx) }()
	}
}

// make creates the sandbox of an intent and binds the provider's exact id.
func (d *driver) make(ctx context.Context, f frozen) (sallyport.ResourceID, error) {
	var rid sallyport.ResourceID
	// Half-made is made anew: equal spec, equal sandbox.
	if err := d.whileCut(ctx, func() (err error) { rid, err = d.provider.Create(ctx, f.Spec); return err }); err != nil {
		return "", err
	}
	return rid, d.record(ctx, journal.Record{Type: lifecycle.AllocationBound, Allocation: f.Spec.Allocation, Data: lifecycle.Bound{Resource: rid}})
}

// connect opens the wire and keeps its lease alive until closed.
func (d *driver) connect(ctx context.Context, f frozen, rid sallyport.ResourceID) (provider.Wire, func(), error) {
	w, err := d.provider.Connect(ctx, rid, provider.Auth{Secret: f.Secret, Fence: d.current().Fence})
	if err != nil {
		return nil, nil, err
	}
	d.mu.Lock()
	d.wires[w] = struct{}{}
	d.mu.Unlock()
	return w, func() {
		d.mu.Lock()
		delete(d.wires, w)
		d.mu.Unlock()
		w.Close()
	}, nil
}

// destroy ends an Allocation: intent, effect, proof of absence. Several tries, bounded.
func (d *driver) destroy(ctx context.Context, a sallyport.AllocationID, rid sallyport.ResourceID, why string) error {
	if err := d.record(ctx, journal.Record{Type: lifecycle.AllocationTeardown, Allocation: a, Data: sallyport.Reason{Code: "teardown", Message: why}}); err != nil {
		return err
	}
	return d.finishDestroy(ctx, a, rid)
}

// finishDestroy leaves what it could not destroy to the reconciler: the Attempt need not fail for it.
func (d *driver) finishDestroy(ctx context.Context, a sallyport.AllocationID, rid sallyport.ResourceID) error {
	proof, err := d.erase(ctx, rid)
	switch {
	case err == nil:
		return d.gone(ctx, a, proof)
	case ctx.Err() != nil:
		return err
	}
	if al, aerr := d.allocation(ctx, a); aerr != nil || al.State == sallyport.SandboxFailed || al.State == sallyport.SandboxOrphaned {
		return aerr // an earlier try has said so
	}
	return d.record(ctx, journal.Record{Type: lifecycle.AllocationFailed, Allocation: a, Data: sallyport.Reason{Code: "not-destroyed", Message: err.Error(), Hint: "`sallyport reconcile` tries again"}})
}

// gone records the proof of a sandbox's absence.
func (d *driver) gone(ctx context.Context, a sallyport.AllocationID, proof string) error {
	_ = os.Remove(d.frozenPath(a))
	return d.record(ctx, journal.Record{Type: lifecycle.AllocationTerminated, Allocation: a, Data: sallyport.Reason{Code: "gone", Message: proof}})
}

// erase destroys a resource and returns the provider's word that it is gone.
func (d *driver) erase(ctx context.Context, rid sallyport.ResourceID) (proof string, err error) {
	for try := range 5 {
		if try > 0 {
			select {
			case <-ctx.Done():
				return "", ctx.Err()
			case <-time.After(time.Duration(try) * 200 * time.Millisecond):
			}
		}
		if err = d.provider.Destroy(ctx, rid); err != nil {
			continue
		}
		if _, err = d.provider.Lookup(ctx, rid); sallyport.CodeOf(err) == sallyport.CodeNotFound {
			return err.Error(), nil
		}
		if err == nil {
			err = &sallyport.Error{Op: "destroy", Code: sallyport.CodeUnavailable, Subject: string(rid), Message: "the provider still shows it"}
		}
	}
	return "", err
}

// resource is an Allocation's exact id, also where a crash came before it was bound: it is derived from the
// allocation id, which was durable before.
func (d *driver) resource(ctx context.Context, al journal.Allocation) (sallyport.ResourceID, error) {
	if al.Resource != "" {
		return al.Resource, nil
	}
	list, err := d.provider.List(ctx)
	if err != nil {
		return "", err
	}
	for _, s := range list {
		if s.Allocation == al.ID {
			return s.ID, nil
		}
	}
	return "", nil
}

// tidy removes what an earlier driver left of sandboxes that can be made again, and finishes teardowns. The
// one that executes is not touched.
func (d *driver) tidy(ctx context.Context) error {
	allocations, err := d.c.journal.Allocations(ctx, d.id)
	if err != nil {
		return err
	}
	for _, al := range allocations {
		if ofToken(al) || al.State == sallyport.SandboxTerminated || (al.Purpose == sallyport.PurposeExecute && al.State != sallyport.SandboxTeardown) {
			continue
		}
		if err := d.drop(ctx, al, "left by an earlier driver"); err != nil {
			return err
		}
	}
	return nil
}

// destroyAll ends every sandbox of the Attempt.
func (d *driver) destroyAll(ctx context.Context) error {
	allocations, err := d.c.journal.Allocations(ctx, d.id)
	if err != nil {
		return err
	}
	for _, al := range allocations {
		if ofToken(al) || al.State == sallyport.SandboxTerminated {
			continue
		}
		if err := d.drop(ctx, al, "the attempt has ended"); err != nil {
			return err
		}
	}
	return nil
}

func (d *driver) drop(ctx context.Context, al journal.Allocation, why string) error {
	rid, err := d.resource(ctx, al)
	if err != nil {
		return err
	}
	if rid == "" {
		// Never made: the provider shows nothing of it, and this driver is the only one who could.
		return d.record(ctx, journal.Record{Type: lifecycle.AllocationTerminated, Allocation: al.ID, Data: sallyport.Reason{Code: "never-made", Message: "the provider shows nothing that bears this id"}})
	}
	if al.State == sallyport.SandboxTeardown || al.State == sallyport.SandboxFailed {
		return d.finishDestroy(ctx, al.ID, rid)
	}
	return d.destroy(ctx, al.ID, rid, why)
}

// environment is what a command of this Attempt sees, complete.
func (d *driver) environment(extra map[string]string) map[string]string {
	env := map[string]string{"HOME": d.m.Home, "TMPDIR": "/tmp", "LANG": "C.UTF-8"}
	for k, v := range d.m.Env {
		env[k] = v
	}
	for k, v := range extra {
		env[k] = v
	}
	env["USER"], env["LOGNAME"] = "agent", "agent" // as id(1) says inside, not as outside
	env["PATH"] = provider.StubFolder + ":" + strings.Join(d.m.Path, ":")
	env["SALLYPORT_ATTEMPT"] = string(d.id)
	return env
}

// usedSeconds is what earlier Attempts of this WorkOrder's manifest have spent of its runtime.
func (d *driver) usedSeconds(ctx context.Context) (float64, error) {
	all, err := d.c.journal.OfWorkOrder(ctx, d.m.WorkOrder)
	if err != nil {
		return 0, err
	}
	var used float64
	for _, a := range all {
		if a.Report.Attempt != d.id && a.Report.Manifest == d.digest {
			used += a.Report.Timings[string(sallyport.AttemptRunning)]
		}
	}
	return used, nil
}

// remaining is the runtime that is left for this Attempt.
func (d *driver) remaining(ctx context.Context) (time.Duration, error) {
	used, err := d.usedSeconds(ctx)
	if err != nil {
		return 0, err
	}
	left := d.m.Limits.Time - time.Duration(used*float64(time.Second))
	if left <= 0 {
		return 0, because("limit", "raise limits.time", "earlier attempts of this WorkOrder have used up its time limit of %v", d.m.Limits.Time)
	}
	return left, nil
}

func (d *driver) logPath(name string) string { return d.c.logPath(d.id, name) }

func (c *Control) logPath(id sallyport.AttemptID, name string) string {
	return filepath.Join(c.attemptFolder(id), name+".log")
}
