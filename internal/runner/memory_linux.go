package runner

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// MemoryFile is v as JSON in anonymous memory, read from its start by whoever gets the descriptor. The
// caller closes it.
func MemoryFile(v any) (*os.File, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
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
