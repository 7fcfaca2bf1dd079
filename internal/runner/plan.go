// Package runner is our first process inside a sandbox: PID 1 of its pid namespace. It builds the root file
// system from a plan, tries every layer from inside before any code of the WorkOrder runs, then only reaps.
// It executes and reports; it decides nothing, and nothing outside trusts what it says after such code ran.
//
// Who starts it and who starts the WorkOrder's command is internal/provider/local (the keeper); what a
// layer is made of is internal/contain.
package runner

import (
	"os"

	"golang.org/x/sys/unix"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/contain"
)

// Source is a host folder or file that a mount shows: a detached mount that the privileged side made and hands
// over (Number, from 1, among Handed.Sources), or a path that the runner's own uid can open (Number 0).
type Source struct {
	Number int    `json:"number,omitempty"`
	Path   string `json:"path"`
}

// from is the descriptor that s is to be opened from, and how it is called there.
func (s Source) from(sources []*os.File) (dir int, path string) {
	if s.Number > 0 {
		return int(sources[s.Number-1].Fd()), ""
	}
	return unix.AT_FDCWD, s.Path
}

// Bind shows Source at Target.
type Bind struct {
	Source   Source `json:"source"`
	Target   string `json:"target"`
	File     bool   `json:"file"` // the mount point is a file
	Writable bool   `json:"writable"`
	Exec     bool   `json:"exec"`
}

// Overlay shows Lowers (topmost first) copy-on-write at Target. Upper holds the folders "upper" and "work".
type Overlay struct {
	Lowers []Source `json:"lowers"`
	Upper  Source   `json:"upper"`
	Target string   `json:"target"`
	// Cache: where no overlay can be mounted it is shown read-only; anything else is then a plain copy.
	Cache bool `json:"cache,omitempty"`
	// Copied: the upper folder holds a plain copy already.
	Copied bool `json:"copied,omitempty"`
}

// Link is a symbolic link of the new root.
type Link struct {
	Path   string `json:"path"`
	Target string `json:"target"`
}

// File is a small file of the new root. Its content follows the plan: as part of it, it would have to be encoded.
type File struct {
	Name string `json:"name"` // absolute
	Size int    `json:"size"`
	Data []byte `json:"-"`
}

// Plan is how the new root is made, in the order of its fields. Paths are absolute and inside the sandbox.
type Plan struct {
	Hostname string   `json:"hostname"`
	Folders  []string `json:"folders"`
	Links    []Link   `json:"links"`
	Files    []File   `json:"files"` // root-owned, read-only
	// Binds and Overlays are applied parents first, merged by target depth.
	Binds    []Bind    `json:"binds"`
	Overlays []Overlay `json:"overlays"`
	Hide     []string  `json:"hide"` // covered by an empty file or folder

	NoOverlay bool `json:"no_overlay,omitempty"` // copy without trying

	UID       int  `json:"uid"` // of the command, inside
	GID       int  `json:"gid"`
	NoAttach  bool `json:"no_attach,omitempty"` // contain.Confinement
	ChangeIDs bool `json:"change_ids"`          // whether the command has ids of its own

	Writable   []string `json:"writable"` // for Landlock
	EgressPort int      `json:"egress_port"`
	Redirect   bool     `json:"redirect,omitempty"` // everything sent is led to EgressPort
	ShmBytes   int64    `json:"shm_bytes"`

	Probe   contain.Targets `json:"probe"`
	Collect *CollectPlan    `json:"collect,omitempty"` // instead of serving a command: collect and end
}

// CollectPlan says what to compare.
type CollectPlan struct {
	Upper     Source   `json:"upper"` // the overlay's upper folder, raw
	Lowers    []Source `json:"lowers"`
	Whole     bool     `json:"whole,omitempty"` // Upper is the whole tree, not an overlay's difference
	Workspace string   `json:"workspace"`
	GitDir    string   `json:"gitdir"` // inside; "": none
	Base      string   `json:"base"`   // commit the agent started from, for its own messages
}

// Ready is what the runner reports once: the containment receipt, or why it could not be made. The
// sockets of the way out travel with it as descriptors: a listener, and after it, with Plan.Redirect, the one that
// names are asked on.
type Ready struct {
	// Copied are the targets of overlays that could not be mounted and were copied; Why says what answered.
	Copied []string `json:"copied,omitempty"`
	Why    string   `json:"why,omitempty"`

	Layers []sallyport.LayerReport `json:"layers"`
	Code   string                  `json:"code,omitempty"`
	Error  string                  `json:"error,omitempty"`
}
