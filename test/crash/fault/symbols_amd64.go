package fault

import (
	"debug/dwarf"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
)

// Symbols know which functions of ours a place in a program belongs to, those that were inlined there too. They are read
// from a program's twin, which has been linked with its symbols and is the same otherwise.
type Symbols struct {
	dir string // of the twins
	mu  sync.Mutex
	of  map[string]*table
}

// servants are packages that send from goroutines of their own what ours have given them.
var servants = []string{"net/http", "github.com/hashicorp/yamux"}

func isServant(name string) bool {
	return slices.ContainsFunc(servants, func(s string) bool { return strings.HasPrefix(name, s+".") })
}

// table is of one program.
type table struct {
	size    uint64 // of its text
	once    sync.Once
	differs error  // from the program
	ranges  []span // by address, the outer before the inner
}

type span struct {
	low, high uint64
	name      string
}

// ReadSymbols takes twins from a folder.
func ReadSymbols(dir string) *Symbols { return &Symbols{dir: dir, of: map[string]*table{}} }

// program finds the table for the file that a process runs.
func (s *Symbols) program(exe string) (*table, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := filepath.Base(exe)
	if t, ok := s.of[name]; ok {
		return t, nil
	}
	t, err := read(filepath.Join(s.dir, name))
	if err != nil {
		return nil, fmt.Errorf("symbols of %s: %w", name, err)
	}
	s.of[name] = t
	return t, nil
}

// same fails unless the program and its twin have the same layout. Who takes both from one state of the sources need not fear
// that it says yes to another program of the same size.
func (t *table) same(exe string) error {
	t.once.Do(func() { t.differs = t.compare(exe) })
	return t.differs
}

func (t *table) compare(exe string) error {
	f, err := elf.Open(exe)
	if err != nil {
		return err
	}
	defer f.Close()
	if text := f.Section(".text"); text == nil || text.Size != t.size {
		return errors.New("the program and the one with symbols were not made of the same source")
	}
	return nil
}

func read(path string) (*table, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text := f.Section(".text")
	if text == nil {
		return nil, os.ErrInvalid
	}
	d, err := f.DWARF()
	if err != nil {
		return nil, err
	}
	t := &table{size: text.Size}
	names := map[dwarf.Offset]string{}
	r, at := d.Reader(), d.Reader()
	for {
		e, err := r.Next()
		if err != nil {
			return nil, err
		}
		if e == nil {
			break
		}
		switch e.Tag {
		case dwarf.TagCompileUnit:
			unit, _ := e.Val(dwarf.AttrName).(string)
			if unit != "main" && !strings.HasPrefix(unit, module) && !slices.Contains(servants, unit) {
				r.SkipChildren()
			}
		case dwarf.TagSubprogram, dwarf.TagInlinedSubroutine:
			name, _ := e.Val(dwarf.AttrName).(string)
			if origin, ok := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset); ok {
				if name, ok = names[origin]; !ok {
					at.Seek(origin)
					o, err := at.Next()
					if err != nil {
						return nil, err
					}
					name, _ = o.Val(dwarf.AttrName).(string)
					names[origin] = name
				}
			}
			if !strings.HasPrefix(name, module) && !strings.HasPrefix(name, "main.") && !isServant(name) || strings.Contains(name, ".init.OnceValue") || strings.HasSuffix(name, ".init") {
				continue
			}
			all, err := d.Ranges(e)
			if err != nil {
				return nil, err
			}
			for _, x := range all {
				t.ranges = append(t.ranges, span{x[0], x[1], name})
			}
		}
	}
	known := map[string]bool{}
	for _, x := range t.ranges {
		known[x.name] = true
	}
	shorter := map[string]string{}
	for i, x := range t.ranges {
		n, ok := shorter[x.name]
		if !ok {
			n = short(x.name, func(n string) bool { return known[n] })
			shorter[x.name] = n
		}
		t.ranges[i].name = n
	}
	sort.SliceStable(t.ranges, func(i, j int) bool {
		a, b := t.ranges[i], t.ranges[j]
		return a.low < b.low || a.low == b.low && a.high > b.high
	})
	if len(t.ranges) == 0 {
		return nil, errors.New("no function of ours is in it")
	}
	return t, nil
}

// at gives the functions of ours that hold an address, the innermost first.
func (t *table) at(pc uint64) []string {
	// The last function that begins at or before it, and those around: a function is not longer than this.
	const longest = 1 << 18
	i := sort.Search(len(t.ranges), func(i int) bool { return t.ranges[i].low > pc })
	var out []string
	for i--; i >= 0 && t.ranges[i].low+longest > pc; i-- {
		if pc < t.ranges[i].high {
			out = append(out, t.ranges[i].name)
		} else if len(out) == 0 && pc-t.ranges[i].low > longest/8 {
			break
		}
	}
	return slices.Compact(out)
}
