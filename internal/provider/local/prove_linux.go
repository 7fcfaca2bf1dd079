package local

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/process"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/internal/runner"
)

// Resource limits are not believed for being written: once per boot, programs and cgroup layout, a trial
// sandbox of small limits is made to eat each of them up. The outcome is remembered, and is part of every
// containment receipt.

// proof is what the trials of one boot found: for each layer, how the hog ended.
type proof struct {
	Key   string                     `json:"key"`
	Ended map[sallyport.Layer]string `json:"ended"`
}

// trialLimits are small enough to be met at once.
var trialLimits = sallyport.Limits{Time: 30 * time.Second, Memory: 48 << 20, PIDs: 40, Disk: 8 << 20, Output: 64 << 10}

// hogs says for each layer what runs, up to which bound, and which ends show that the limit held.
var hogs = []struct {
	layer sallyport.Layer
	kind  string
	bound int64
	held  func(provider.Exit) bool
}{
	{sallyport.LayerMemory, runner.HogMemory, 4 * trialLimits.Memory, func(e provider.Exit) bool { return e.Cause == "memory" || e.Code == runner.HogRefused }},
	{sallyport.LayerPIDs, runner.HogPIDs, 4 * trialLimits.PIDs, func(e provider.Exit) bool { return e.Code == runner.HogRefused }},
	{sallyport.LayerDisk, runner.HogDisk, 4 * trialLimits.Disk, func(e provider.Exit) bool { return e.Cause == "disk" || e.Code == runner.HogRefused }},
}

const (
	provedHeld    = "held"
	provedNotHeld = "not held"
)

// proved returns this boot's proof, making it if need be. Trials run without one.
func (p *Provider) proved(ctx context.Context) (proof, error) {
	p.proving.Lock()
	defer p.proving.Unlock()
	key, err := p.proofKey()
	if err != nil {
		return proof{}, err
	}
	path := filepath.Join(p.cfg.Folder, "proof.json")
	var known proof
	if b, err := os.ReadFile(path); err == nil && json.Unmarshal(b, &known) == nil && known.Key == key {
		return known, nil
	}
	fresh := proof{Key: key, Ended: map[sallyport.Layer]string{}}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var first error
	for _, h := range hogs {
		wg.Go(func() {
			e, err := p.runTrial(ctx, h.kind, h.bound)
			mu.Lock()
			defer mu.Unlock()
			if err != nil && first == nil {
				first = err
			}
			switch {
			case h.held(e):
				fresh.Ended[h.layer] = provedHeld
			case e.Cause != "runtime": // too slow a machine to tell: said by nobody, and tried again next time
				fresh.Ended[h.layer] = provedNotHeld
			}
		})
	}
	wg.Wait()
	if first != nil {
		return proof{}, first
	}
	if len(fresh.Ended) < len(hogs) {
		return fresh, nil
	}
	b, err := json.Marshal(fresh)
	if err != nil {
		return proof{}, err
	}
	if err := renameio.WriteFile(path, b, 0o600, renameio.WithTempDir(p.cfg.Folder)); err != nil {
		return proof{}, stateError("prove limits", path, err)
	}
	return fresh, nil
}

// proofKey changes with the boot, the programs and what cgroups this process can use.
func (p *Provider) proofKey() (string, error) {
	boot, err := process.Boot()
	if err != nil {
		return "", err
	}
	key := fmt.Sprintf("1 %s %d %s %v", boot, os.Geteuid(), detect().Mode, detect().Controllers)
	for _, f := range []string{p.cfg.Keeper, p.cfg.Runner} {
		var st unix.Stat_t
		if err := unix.Stat(f, &st); err != nil {
			return "", err
		}
		key += fmt.Sprintf(" %d:%d:%d:%d:%d", st.Dev, st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano())
	}
	return string(sallyport.Sum([]byte(key))), nil
}

func (p *Provider) runTrial(ctx context.Context, kind string, bound int64) (provider.Exit, error) {
	spec, auth, end, err := p.trial()
	if err != nil {
		return provider.Exit{}, err
	}
	defer end()
	spec.Purpose = purposeTrial
	spec.Limits = trialLimits
	spec.Command.Argv = []string{runner.Inside, kind, strconv.FormatInt(bound, 10)}
	defer func() {
		dctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), destroyPatience)
		defer cancel()
		_ = p.Destroy(dctx, p.resource(spec.Allocation))
	}()
	rid, err := p.Create(ctx, spec)
	if err != nil {
		return provider.Exit{}, err
	}
	w, err := p.Connect(ctx, rid, auth)
	if err != nil {
		return provider.Exit{}, err
	}
	defer w.Close()
	if err := w.Start(ctx); err != nil {
		return provider.Exit{}, err
	}
	return w.Wait(ctx)
}

// purposeTrial marks a sandbox that proves limits and so cannot ask for the proof.
const purposeTrial = sallyport.Purpose("trial")

// withProof adds what the trials found to the lines about resources. A limit that is said to hold and did not
// stop a hog does not hold.
func (p proof) withProof(layers []sallyport.LayerReport) []sallyport.LayerReport {
	for i, l := range layers {
		found, ok := p.Ended[l.Layer]
		if !ok || l.Status == sallyport.LayerNotHeld {
			continue
		}
		if found == provedHeld {
			layers[i].Proof += "; a hog was stopped in a trial this boot"
			continue
		}
		layers[i].Status = sallyport.LayerNotHeld
		layers[i].Proof += "; but a hog was NOT stopped in a trial this boot"
	}
	return layers
}
