package world

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/lifecycle"
	"sallyport.dev/sallyport/internal/process"
)

// Process is one that bears a world's mark. It is ended by its exact pid only.
type Process struct {
	PID  int
	Args []string
}

// Drives reports whether it is a driver.
func (p Process) Drives() bool { return len(p.Args) == 3 && p.Args[1] == "drive" }

// part reports whether it is a keeper or first process of one of these allocations or factories.
func (p Process) part(marks map[string]bool) bool {
	return strings.HasPrefix(p.Args[0], "sallyport-") && slices.ContainsFunc(p.Args[1:min(3, len(p.Args))], func(s string) bool { return marks[s] })
}

// Processes are all that bear this world's mark: those with its folder in their arguments or its state folder in
// their environment, keepers and first processes of sandboxes by an allocation or factory of its.
func (w *World) Processes() []Process {
	w.T.Helper()
	marks := w.marks()
	return w.processes(func(p Process) bool {
		return p.part(marks) || strings.Contains(strings.Join(p.Args, "\x00"), w.Dir+"/") || w.serves(p)
	})
}

func (w *World) processes(match func(Process) bool) (all []Process) {
	w.T.Helper()
	entries, err := os.ReadDir("/proc")
	w.Must(err)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		argv, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if err != nil || len(argv) == 0 {
			continue
		}
		if p := (Process{pid, strings.Split(strings.TrimSuffix(string(argv), "\x00"), "\x00")}); match(p) {
			all = append(all, p)
		}
	}
	return all
}

// serves reports whether the process has this world's state folder.
func (w *World) serves(p Process) bool {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.PID))
	return err == nil && bytes.Contains(env, []byte("SALLYPORT_STATE="+w.State+"\x00"))
}

// Factory is the state folder's; empty while it has none.
func (w *World) Factory() string { return factoryIn(filepath.Join(w.State, "factory.json")) }

func factoryIn(file string) string {
	var f struct {
		Factory string `json:"factory"`
	}
	b, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(b, &f) != nil {
		return ""
	}
	return f.Factory
}

func (w *World) marks() map[string]bool {
	m := map[string]bool{}
	if f := w.Factory(); f != "" {
		m[f] = true
	}
	entries, _ := os.ReadDir(filepath.Join(w.State, "local", "allocations"))
	for _, e := range entries {
		m[e.Name()] = true
	}
	for _, e := range w.Events() {
		if e.Allocation != "" {
			m[string(e.Allocation)] = true
		}
	}
	return m
}

// Driver is the pid of this world's driver; 0: none.
func (w *World) Driver() int {
	w.T.Helper()
	if all := w.processes(func(p Process) bool { return p.Drives() && w.serves(p) }); len(all) > 0 {
		return all[0].PID
	}
	return 0
}

// Sandbox finds the keeper and the first process of the youngest Allocation with this purpose; 0: none.
func (w *World) Sandbox(purpose sallyport.Purpose) (allocation sallyport.AllocationID, keeper, first int) {
	w.T.Helper()
	for _, e := range slices.Backward(w.Events()) {
		if e.Type == lifecycle.AllocationIntended && strings.Contains(e.Data, fmt.Sprintf("%q", purpose)) {
			allocation = e.Allocation
			break
		}
	}
	for _, p := range w.Processes() {
		if len(p.Args) < 2 || p.Args[1] != string(allocation) {
			continue
		}
		switch p.Args[0] {
		case "sallyport-keeper":
			keeper = p.PID
		case "sallyport-runner":
			first = p.PID
		}
	}
	return allocation, keeper, first
}

// Kill ends exactly this process and returns once it is dead.
func (w *World) Kill(pid int) {
	w.T.Helper()
	if pid <= 0 {
		w.T.Fatalf("no such process\n%s", w.Story())
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		w.T.Fatal(err)
	}
	w.Await(fmt.Sprintf("the death of %d", pid), func() bool { return Dead(pid) })
}

// Dead: gone, or a zombie as a whole that its parent has not yet reaped; only then others take it for dead.
func Dead(pid int) bool {
	_, err := process.Of(pid)
	return errors.Is(err, fs.ErrNotExist)
}

// Over: nothing runs any more in the namespace of a sandbox's first process, whoever has yet to take note of it.
func Over(first int) bool {
	id, err := process.Of(first)
	return err != nil || !id.NamespaceRuns()
}

// StateOf is the kernel's letter for what pid does; empty: it is gone.
func StateOf(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) == 0 {
		return ""
	}
	return f[0]
}
