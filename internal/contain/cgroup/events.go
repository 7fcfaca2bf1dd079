package cgroup

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// MemoryEvents opens the file that counts processes killed for want of memory, for a process that may not
// walk to it. Nil where no controller counts them.
func (g *Group) MemoryEvents() (*os.File, error) {
	p, ok := g.find(memory)
	if !ok {
		return nil, nil
	}
	name := "memory.oom_control"
	if p.v2 {
		name = "memory.events"
	}
	return os.Open(filepath.Join(p.dir, name))
}

// OOMKills reads the count from a file of MemoryEvents; 0 for nil, or for what cannot be read.
func OOMKills(f *os.File) int64 {
	if f == nil {
		return 0
	}
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 64<<10))
	if err != nil {
		return 0
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		if v, ok := strings.CutPrefix(line, "oom_kill "); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
			return n
		}
	}
	return 0
}
