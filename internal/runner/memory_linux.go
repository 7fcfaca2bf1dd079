package runner

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// MemoryFile is v as JSON in anonymous memory, read from its start by whoever gets the descriptor. The
// caller closes it.
func MemoryFile(v any) (*os.File, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return memory(b)
}

// PlanFile is p, and after a newline the content of its Files, for ReadPlan.
func PlanFile(p Plan) (*os.File, error) {
	p.Files = slices.Clone(p.Files)
	for i, f := range p.Files {
		p.Files[i].Size = len(f.Data)
	}
	b, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	b = append(b, '\n')
	for _, f := range p.Files {
		b = append(b, f.Data...)
	}
	return memory(b)
}

// ReadPlan reads what PlanFile wrote; f stays the caller's and may be read again.
func ReadPlan(f *os.File) (*Plan, error) {
	b, err := ReadMemory(f)
	if err != nil {
		return nil, fmt.Errorf("read plan: %w", err)
	}
	head, content, _ := bytes.Cut(b, []byte("\n"))
	var p Plan
	if err := json.Unmarshal(head, &p); err != nil {
		return nil, fmt.Errorf("read plan: %w", err)
	}
	for i, f := range p.Files {
		if f.Size < 0 || f.Size > len(content) {
			return nil, fmt.Errorf("read plan: the content of %s is cut off", f.Name)
		}
		p.Files[i].Data, content = content[:f.Size:f.Size], content[f.Size:]
	}
	return &p, nil
}

// maxMemory bounds what ReadMemory takes.
const maxMemory = 64 << 20

// ReadMemory reads the whole of a file of the trusted side's, in one piece. f stays the caller's and may be read again.
func ReadMemory(f *os.File) ([]byte, error) {
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if fi.Size() > maxMemory {
		return nil, fmt.Errorf("expected at most %d bytes, got %d", maxMemory, fi.Size())
	}
	b := make([]byte, fi.Size())
	_, err = f.ReadAt(b, 0)
	return b, err
}

func memory(b []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("sallyport", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("anonymous memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), "memory")
	if _, err := f.Write(b); err != nil {
		f.Close()
		return nil, err
	}
	_, err = f.Seek(0, io.SeekStart)
	return f, err
}
