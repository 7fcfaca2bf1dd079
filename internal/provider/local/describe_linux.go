package local

import (
	"context"
	"errors"
	"slices"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/id"
	"sallyport.dev/sallyport/internal/provider"
)

// Describe implements provider.Provider: it makes a small sandbox, takes its containment receipt and removes
// it, so that what it says is what a sandbox of this host would report.
func (p *Provider) Describe(ctx context.Context) (provider.Capabilities, error) {
	caps := provider.Capabilities{StatusBy: "keeper", Egress: true, Notes: []string{p.ids.note()}}
	if err := p.Redirects(ctx); err != nil {
		caps.Notes = append(caps.Notes, "way out: proxy; only programs that heed HTTP_PROXY get out, since "+why(err))
	} else {
		caps.Redirect = true
		caps.Notes = append(caps.Notes, "way out: redirect; every program is led to it, whatever its proxy settings")
	}
	spec, auth, end, err := p.trial()
	if err != nil {
		return caps, err
	}
	defer end()
	rid, err := p.Create(ctx, spec)
	defer func() {
		dctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_ = p.Destroy(dctx, p.resource(spec.Allocation))
	}()
	if err != nil {
		return caps, err
	}
	w, err := p.Connect(ctx, rid, auth)
	if err != nil {
		return caps, err
	}
	defer w.Close()
	if caps.Layers, err = w.Layers(ctx); err != nil {
		return caps, err
	}
	for i, l := range caps.Layers {
		caps.Layers[i].Required = slices.Contains(sallyport.RequiredLayers(), l.Layer)
	}
	return caps, nil
}

func why(err error) string {
	if e := new(sallyport.Error); errors.As(err, &e) {
		return e.Message
	}
	return err.Error()
}

// trial is the spec of a sandbox that does nothing; end, after its Destroy, ends the trial.
func (p *Provider) trial() (_ provider.Spec, _ provider.Auth, end func(), _ error) {
	alloc, err := id.New(sallyport.AllocationPrefix)
	if err != nil {
		return provider.Spec{}, provider.Auth{}, nil, err
	}
	attempt, err := id.New(sallyport.AttemptPrefix)
	if err != nil {
		return provider.Spec{}, provider.Auth{}, nil, err
	}
	secret, err := id.Secret()
	if err != nil {
		return provider.Spec{}, provider.Auth{}, nil, err
	}
	base, end, err := p.beginTrial(sallyport.AllocationID(alloc))
	if err != nil {
		return provider.Spec{}, provider.Auth{}, nil, err
	}
	spec := provider.Spec{Factory: p.cfg.Factory, Allocation: sallyport.AllocationID(alloc), Attempt: sallyport.AttemptID(attempt), Purpose: sallyport.PurposeShell,
		SecretSum: sallyport.Sum([]byte(secret)), Workspace: provider.Workspace{Path: "/work", Layers: []string{base}}, Home: "/home/agent",
		Command: provider.Command{Argv: []string{"true"}, Dir: "/work", Env: map[string]string{"HOME": "/home/agent", "PATH": "/usr/bin:/bin"}},
		Limits:  sallyport.Limits{Time: time.Minute, Memory: 256 << 20, PIDs: 64, Disk: 256 << 20, Output: 1 << 20, CPU: 1}, LeaseTTL: time.Minute}
	for _, m := range []string{"/usr", "/bin", "/lib", "/lib64", "/sbin"} {
		spec.Mounts = append(spec.Mounts, sallyport.Mount{Path: m, Mode: "ro", Reason: "system"})
	}
	return spec, provider.Auth{Secret: secret, Fence: 1}, end, nil
}

// note says in one line under which host ids a sandbox runs.
func (i identities) note() string {
	if i.uid == 0 {
		return "host ids: two of its own per Allocation, unprivileged"
	}
	return "host ids: the user's own (weaker: an escape would have the user's rights)"
}
