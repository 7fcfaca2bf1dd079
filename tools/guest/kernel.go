package guest

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// drivers are what a guest needs beyond what is built into the kernel: its disks, its serial port, and the
// file system that an unprivileged mount cannot load by itself.
var drivers = []string{"virtio_pci", "virtio_blk", "virtio_console", "overlay"}

// installKernel copies kernel and drivers out of an unpacked package and returns the kernel's release.
func installKernel(unpacked, dir string) (release string, err error) {
	images, err := filepath.Glob(filepath.Join(unpacked, "boot", "vmlinuz-*"))
	if err != nil || len(images) != 1 {
		return "", fmt.Errorf("expected one kernel in the package, found %d (%w)", len(images), err)
	}
	release = strings.TrimPrefix(filepath.Base(images[0]), "vmlinuz-")
	if err := copyFile(filepath.Join(dir, "vmlinuz"), images[0]); err != nil {
		return "", err
	}
	found, err := findModules(filepath.Join(unpacked, "lib", "modules", release))
	if err != nil {
		return "", err
	}
	order, err := loadOrder(found, drivers)
	if err != nil {
		return "", err
	}
	if err := os.Mkdir(filepath.Join(dir, "modules"), 0o755); err != nil {
		return "", err
	}
	for i, name := range order {
		if err := copyFile(filepath.Join(dir, "modules", fmt.Sprintf("%02d-%s.ko", i, name)), found[name]); err != nil {
			return "", err
		}
	}
	return release, nil
}

// findModules maps the names of all modules below dir to their files. A kernel spells them with underscores.
func findModules(dir string) (map[string]string, error) {
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if name, ok := strings.CutSuffix(filepath.Base(path), ".ko"); ok && err == nil {
			found[strings.ReplaceAll(name, "-", "_")] = path
		}
		return err
	})
	return found, err
}

// loadOrder puts what each driver depends on before it. A driver that is not there is built in, or the guest
// will say what it lacks.
func loadOrder(found map[string]string, want []string) ([]string, error) {
	var order []string
	var visit func(name string, above []string) error
	visit = func(name string, above []string) error {
		if slices.Contains(above, name) {
			return fmt.Errorf("module %s depends on itself: %v", name, above)
		}
		file, ok := found[name]
		if !ok || slices.Contains(order, name) {
			return nil
		}
		needs, err := moduleDepends(file)
		if err != nil {
			return fmt.Errorf("module %s: %w", name, err)
		}
		for _, n := range needs {
			if err := visit(n, append(slices.Clone(above), name)); err != nil {
				return err
			}
		}
		order = append(order, name)
		return nil
	}
	for _, name := range want {
		if err := visit(name, nil); err != nil {
			return nil, err
		}
	}
	return order, nil
}

// moduleDepends reads what a module itself says in its section .modinfo, a list of key=value with zero bytes
// between; the packages hold no index (depmod makes it when a kernel is installed).
func moduleDepends(file string) ([]string, error) {
	f, err := elf.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := f.Section(".modinfo")
	if s == nil {
		return nil, errors.New("no section .modinfo")
	}
	data, err := s.Data()
	if err != nil {
		return nil, err
	}
	for _, kv := range bytes.Split(data, []byte{0}) {
		if list, ok := strings.CutPrefix(string(kv), "depends="); ok {
			return strings.FieldsFunc(strings.ReplaceAll(list, "-", "_"), func(r rune) bool { return r == ',' }), nil
		}
	}
	return nil, nil
}

func copyFile(to, from string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o644)
}
