package fake

import (
	"bytes"
	"maps"
	"slices"
	"sync"

	"sallyport.dev/sallyport/internal/collect"
)

// Tree is a workspace in memory, as the changes made to it.
type Tree struct {
	mu      sync.Mutex
	frozen  bool
	changes map[string]change
}

type change struct {
	kind   collect.Kind
	mode   collect.Mode
	body   []byte
	target string
}

func newTree() *Tree { return &Tree{changes: map[string]change{}} }

func (t *Tree) set(path string, c change) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.frozen {
		t.changes[path] = c
	}
}

// File writes a file whole.
func (t *Tree) File(path string, exec bool, body string) {
	mode := collect.ModeFile
	if exec {
		mode = collect.ModeExec
	}
	t.set(path, change{kind: collect.KindFile, mode: mode, body: []byte(body)})
}

// Append adds to a file that this sandbox wrote, and returns its content.
func (t *Tree) Append(path, more string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.changes[path]
	if !t.frozen {
		c = change{kind: collect.KindFile, mode: collect.ModeFile, body: append(bytes.Clone(c.body), more...)}
		t.changes[path] = c
	}
	return string(c.body)
}

// Link makes a symbolic link.
func (t *Tree) Link(path, target string) {
	t.set(path, change{kind: collect.KindLink, target: target})
}

// Delete removes a file of the base.
func (t *Tree) Delete(path string) { t.set(path, change{kind: collect.KindDelete}) }

// freeze: the command is dead.
func (t *Tree) freeze() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.frozen = true
}

func (t *Tree) stream() ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b bytes.Buffer
	w := collect.NewWriter(&b)
	for _, path := range slices.Sorted(maps.Keys(t.changes)) {
		c := t.changes[path]
		var err error
		switch c.kind {
		case collect.KindFile:
			err = w.File(path, c.mode, int64(len(c.body)), bytes.NewReader(c.body))
		case collect.KindLink:
			err = w.Link(path, c.target)
		default:
			err = w.Delete(path)
		}
		if err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}
