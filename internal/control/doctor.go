package control

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/change"
	"sallyport.dev/sallyport/internal/manifest"
)

// Doctor is what this host can enforce, as a sandbox of it would report, and what would make it better.
type Doctor struct {
	OK     bool                    `json:"ok"` // every layer that is required by default holds
	Layers []sallyport.LayerReport `json:"layers"`
	Facts  []Fact                  `json:"facts"`
	Fixes  []Fix                   `json:"fixes"`
}

// Fact is one thing about this host.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	OK    bool   `json:"ok"`
}

// Fix is a command for a person to look at and run; advice in words where there is no single one.
type Fix struct {
	Why     string `json:"why"`
	Command string `json:"command"` // empty: Why says what to do
}

// asRoot begins a layer's fix that is one shell command; any other is a sentence, and never run.
const asRoot = "as root: "

// layerFixes names each remedy once, with the layers that it is for.
func layerFixes(layers []sallyport.LayerReport) []Fix {
	var order []string
	needs := map[string][]string{}
	for _, l := range layers {
		if l.Fix == "" || l.Status == sallyport.LayerHeld {
			continue
		}
		if needs[l.Fix] == nil {
			order = append(order, l.Fix)
		}
		needs[l.Fix] = append(needs[l.Fix], fmt.Sprintf("%s is %s", l.Layer, l.Status))
	}
	var fixes []Fix
	for _, text := range order {
		why := strings.Join(needs[text], ", ")
		if command, ok := strings.CutPrefix(text, asRoot); ok {
			fixes = append(fixes, Fix{Why: why + "; as root:", Command: command})
		} else {
			fixes = append(fixes, Fix{Why: why + ": " + text})
		}
	}
	return fixes
}

// Doctor makes a sandbox, asks its probes, and removes it.
func (c *Control) Doctor(ctx context.Context) (Doctor, error) {
	d := Doctor{OK: true, Layers: []sallyport.LayerReport{}, Facts: c.facts(), Fixes: []Fix{}}
	host := thisHost()
	p, err := c.provider("local")
	if err != nil {
		return d, err
	}
	caps, err := p.Describe(ctx)
	if err != nil {
		d.OK = false
		d.Facts = append(d.Facts, Fact{"sandbox", err.Error(), false})
		d.with(host.namespaces(false))
		d.with(host.systemd())
		return d, nil
	}
	d.Layers = caps.Layers
	for _, l := range caps.Layers {
		for _, r := range sallyport.RequiredLayers() {
			if l.Layer == r && l.Status != sallyport.LayerHeld && l.Status != sallyport.LayerWatched {
				d.OK = false
			}
		}
	}
	// Root may make user namespaces whatever the host says to the user it is made ready for.
	d.with(host.namespaces(os.Geteuid() != 0))
	d.with(host.systemd())
	d.Fixes = append(d.Fixes, layerFixes(caps.Layers)...)
	for _, n := range caps.Notes {
		d.Facts = append(d.Facts, Fact{"provider", n, true})
	}
	d.Facts = append(d.Facts, Fact{"exit status reported by", caps.StatusBy, caps.StatusBy == "keeper"})
	return d, nil
}

// with adds what was found out about the host.
func (d *Doctor) with(found []condition) {
	for _, c := range found {
		d.Facts = append(d.Facts, c.Fact)
		if c.fix.Why != "" {
			d.Fixes = append(d.Fixes, c.fix)
		}
	}
}

func (c *Control) facts() []Fact {
	f := []Fact{{"state folder", c.cfg.State, true}, {"factory", string(c.factory), true}, {"separation", separation(), true}}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		f = append(f, Fact{"kernel", unix.ByteSliceToString(u.Release[:]) + " " + runtime.GOARCH, true})
	}
	if out, err := exec.Command("git", "--version").Output(); err == nil {
		f = append(f, Fact{"git", strings.TrimSpace(strings.TrimPrefix(string(out), "git version ")), true})
	} else {
		f = append(f, Fact{"git", "not found", false})
	}
	if exe, err := os.Executable(); err == nil {
		f = append(f, Fact{"sallyport", Version + " sha256:" + hashFile(exe), true})
	}
	return f
}

// Trust is what a repository asks of the host, and whether that was granted.
type Trust struct {
	Repository string           `json:"repository"`
	Asks       []manifest.Ask   `json:"asks"`
	Granted    bool             `json:"granted"`
	Digest     sallyport.Digest `json:"digest"`

	policy *manifest.Repository
}

// TrustAsks reads what the repository at dir asks for.
func (c *Control) TrustAsks(ctx context.Context, dir string) (Trust, error) {
	repo, err := change.Open(ctx, dir)
	if err != nil {
		return Trust{}, err
	}
	t := Trust{Repository: repo.Top, Asks: []manifest.Ask{}}
	ceiling, user, err := operators()
	if err != nil {
		return t, err
	}
	protected, err := repo.Protected(ctx, manifest.ProtectedRef(user, ceiling))
	if err != nil {
		return t, err
	}
	if t.policy, _, err = c.policy(ctx, repo, protected, func(string) {}); err != nil || t.policy == nil {
		return t, err
	}
	t.Asks, t.Digest = manifest.Asks(*t.policy), manifest.AsksDigest(*t.policy)
	g, err := grants()
	if err != nil {
		return t, err
	}
	t.Granted, err = g.Granted(t.Repository, t.Digest)
	return t, err
}

// Grant records a person's yes for exactly what t shows.
func (c *Control) Grant(_ context.Context, t Trust) error {
	if t.policy == nil || len(t.Asks) == 0 {
		return nil
	}
	g, err := grants()
	if err != nil {
		return err
	}
	return g.Grant(t.Repository, *t.policy, time.Now())
}
