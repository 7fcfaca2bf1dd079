package fake

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/provider"
)

func (p *Provider) check(s provider.Spec) error {
	invalid := func(field string) error {
		return &sallyport.Error{Op: "create", Code: sallyport.CodeInvalid, Subject: field, Message: "expected a value that the contract allows"}
	}
	if s.Redirect {
		return &sallyport.Error{Op: "create", Code: sallyport.CodeUnsupported, Subject: "redirect", Message: "a fake has no network to lead anywhere"}
	}
	l := s.Limits
	switch {
	case s.Factory != p.cfg.Factory:
		return invalid("factory")
	case sallyport.CheckID(sallyport.AllocationPrefix, string(s.Allocation)) != nil:
		return invalid("allocation")
	case s.SecretSum.Check() != nil:
		return invalid("secret_sum")
	case !path.IsAbs(s.Workspace.Path) || len(s.Workspace.Layers) == 0:
		return invalid("workspace")
	case !path.IsAbs(s.Home):
		return invalid("home")
	case len(s.Command.Argv) == 0:
		return invalid("command.argv")
	case l.Time <= 0 || l.Memory <= 0 || l.PIDs <= 0 || l.Disk <= 0 || l.Output <= 0:
		return invalid("limits")
	case s.LeaseTTL <= 0 || s.LeaseTTL > provider.MaxLease:
		return invalid("lease_ttl_ns")
	}
	for _, f := range s.Command.Files {
		if !path.IsAbs(f.Name) && !filepath.IsLocal(f.Name) {
			return invalid("command.files: " + f.Name)
		}
	}
	return p.checkLayers(s)
}

func (p *Provider) checkLayers(s provider.Spec) error {
	for _, want := range s.Require {
		i := slices.IndexFunc(p.cfg.Layers, func(r sallyport.LayerReport) bool { return r.Layer == want })
		held := i >= 0 && (p.cfg.Layers[i].Status == sallyport.LayerHeld || p.cfg.Layers[i].Status == sallyport.LayerWatched)
		if held && want == sallyport.LayerCredentials {
			held = !leaks(s.Command)
		}
		if !held {
			return &sallyport.Error{Op: "create", Code: sallyport.CodeUnsupported, Subject: string(want), Message: "a required layer does not hold"}
		}
	}
	return nil
}

// leaks looks at names only.
func leaks(c provider.Command) bool {
	for name := range c.Env {
		for _, word := range []string{"TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "_KEY"} {
			if strings.Contains(strings.ToUpper(name), word) && !slices.Contains(c.Placeholders, name) {
				return true
			}
		}
	}
	return false
}
