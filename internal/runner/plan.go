// Package runner is our first process inside a sandbox: PID 1 of its pid namespace. It builds the root file
// system from a plan, tries every layer from inside before any code of the WorkOrder runs, then only reaps.
// It executes and reports; it decides nothing, and nothing outside trusts what it says after such code ran.
//
// Who starts it and who starts the WorkOrder's command is internal/provider/local (the keeper); what a
// layer is made of is internal/contain.
package runner

import (
	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/contain"
	"sallyport.dev/sallyport/internal/provider"
)

// Source is a host folder or file that a mount shows: a descriptor of a detached mount that the privileged
// side made (FD > 0), or a path that the runner's own uid can open (FD == 0).
type Source struct {
	FD   int    `json:"fd,omitempty"`
	Path string `json:"path"`
}

// Bind shows Source at Target.
type Bind struct {
	Source   Source `json:"source"`
	Target   string `json:"target"`
	File     bool   `json:"file"` // the mount point is a file
	Writable bool   `json:"writable"`
	Device   bool   `json:"device"` // a device node: keeps its nature
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

// Plan is how the new root is made, in the order of its fields. Paths are absolute and inside the sandbox.
type Plan struct {
	Hostname string          `json:"hostname"`
	Folders  []string        `json:"folders"`
	Links    []Link          `json:"links"`
	Files    []provider.File `json:"files"` // Name is an absolute path here; root-owned, read-only
	// Binds and Overlays are applied parents first, merged by target depth.
	Binds    []Bind    `json:"binds"`
	Overlays []Overlay `json:"overlays"`
	Hide     []string  `json:"hide"` // covered by an empty file or folder

	NoOverlay bool `json:"no_overlay,omitempty"` // copy without trying

	Sources int `json:"sources"` // how many descriptors follow, from FirstSource

	UID       int  `json:"uid"` // of the command, inside
	GID       int  `json:"gid"`
	NoAttach  bool `json:"no_attach,omitempty"` // contain.Confinement
	ChangeIDs bool `json:"change_ids"`          // whether the command has ids of its own

	Writable   []string `json:"writable"` // for Landlock
	EgressPort int      `json:"egress_port"`
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

// Ready is what the runner reports once: the containment receipt, or why it could not be made. A listening
// socket for egress travels with it as a descriptor.
type Ready struct {
	// Copied are the targets of overlays that could not be mounted and were copied; Why says what answered.
	Copied []string `json:"copied,omitempty"`
	Why    string   `json:"why,omitempty"`

	Layers []sallyport.LayerReport `json:"layers"`
	Code   string                  `json:"code,omitempty"`
	Error  string                  `json:"error,omitempty"`
}
