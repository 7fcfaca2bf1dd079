package control

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/id"
	"sallyport.dev/sallyport/internal/provider"
)

// What a check on the untouched base writes into package caches serves every later sandbox of the same
// repository and toolchain: agents, validators, the next base. What an agent or a candidate wrote never does.

// maxCacheLayers bounds a stack: with one more it is forgotten and begun again, since each layer costs every
// look-up below it.
const maxCacheLayers = 5

// cacheStack is the kept layers of one repository and toolchain, topmost first; each is a folder with one
// numbered subfolder for each cache.
type cacheStack struct {
	Layers []string `json:"layers"`
}

// caches are the mounts that a base check's writes are kept of.
func (d *driver) cacheMounts() []sallyport.Mount {
	var ms []sallyport.Mount
	for _, m := range d.m.Mounts {
		if m.Mode == "cow" && strings.HasPrefix(m.Reason, "cache") {
			ms = append(ms, m)
		}
	}
	return ms
}

func (d *driver) cacheFolder() (string, error) {
	b, err := json.Marshal(struct {
		Repo   string
		Mounts []sallyport.Mount
		Path   []string
		Env    map[string]string
	}{d.m.Repository, d.m.Mounts, d.m.Path, d.m.Env})
	return filepath.Join(d.c.cfg.State, "cache-layers", sallyport.Sum(b).Hex()), err
}

func (d *driver) cacheStack() (cacheStack, error) {
	var s cacheStack
	dir, err := d.cacheFolder()
	if err != nil {
		return s, err
	}
	b, err := os.ReadFile(filepath.Join(dir, "stack.json"))
	if os.IsNotExist(err) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		return s, stateError(dir, err)
	}
	return s, nil
}

// caches are the kept layers as a Spec says them; keep, if any, is where this sandbox's writes stay.
func (d *driver) caches(keep string) ([]provider.Cache, error) {
	s, err := d.cacheStack()
	if err != nil {
		return nil, err
	}
	list := []provider.Cache{}
	for i, m := range d.cacheMounts() {
		c := provider.Cache{Path: m.Path, Layers: []string{}}
		for _, l := range s.Layers {
			upper := filepath.Join(l, strconv.Itoa(i), "upper")
			if _, err := os.Lstat(upper); err == nil {
				c.Layers = append(c.Layers, upper)
			}
		}
		if keep != "" && sameDevice(m.Path, d.c.cfg.State) {
			c.Keep = filepath.Join(keep, strconv.Itoa(i))
			if err := os.MkdirAll(c.Keep, 0o711); err != nil {
				return nil, stateError(c.Keep, err)
			}
		}
		list = append(list, c)
	}
	return list, nil
}

// sameDevice: a cache on another file system than the state folder is not kept; copies would be as dear as
// what they save.
func sameDevice(a, b string) bool {
	var x, y unix.Stat_t
	err := unix.Stat(a, &x)
	return err == unix.ENOENT || err == nil && unix.Stat(b, &y) == nil && x.Dev == y.Dev
}

// newCacheLayer is a fresh folder for one base check.
func (d *driver) newCacheLayer() (string, error) {
	if len(d.cacheMounts()) == 0 {
		return "", nil
	}
	dir, err := d.cacheFolder()
	if err != nil {
		return "", err
	}
	name, err := id.New("layer")
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, name)
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return "", stateError(dir, err)
	}
	return dir, nil
}

// keepCacheLayer puts a finished base check's layer on the stack. Losing it to a crash costs time only: an
// unnamed folder is removed by gc.
func (d *driver) keepCacheLayer(layer string) error {
	s, err := d.cacheStack()
	if err != nil {
		return err
	}
	s.Layers = append([]string{layer}, s.Layers...)
	if len(s.Layers) > maxCacheLayers {
		s.Layers = nil
	}
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return writeDurable(filepath.Join(filepath.Dir(layer), "stack.json"), b)
}

// gcCaches removes layers that no stack names. No sandbox may be left that shows one.
func (c *Control) gcCaches(dryRun bool) ([]string, error) {
	stacks, err := filepath.Glob(filepath.Join(c.cfg.State, "cache-layers", "*"))
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, dir := range stacks {
		var s cacheStack
		if b, err := os.ReadFile(filepath.Join(dir, "stack.json")); err == nil {
			if err := json.Unmarshal(b, &s); err != nil {
				return lines, stateError(dir, err)
			}
		}
		layers, err := filepath.Glob(filepath.Join(dir, "layer_*"))
		if err != nil {
			return lines, err
		}
		for _, l := range layers {
			if slices.Contains(s.Layers, l) {
				continue
			}
			lines = append(lines, "remove unnamed cache layer "+filepath.Base(l))
			if !dryRun {
				if err := removeLayer(l); err != nil {
					return lines, stateError(l, err)
				}
			}
		}
	}
	return lines, nil
}

// removeLayer removes a folder that an overlay wrote: its own work folder has no permissions.
func removeLayer(dir string) error {
	works, _ := filepath.Glob(filepath.Join(dir, "*", "work", "work"))
	for _, w := range works {
		_ = os.Chmod(w, 0o700)
	}
	// Module caches are read-only folders; only their owner (us, or root) can be here.
	_ = filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			_ = os.Chmod(p, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}
