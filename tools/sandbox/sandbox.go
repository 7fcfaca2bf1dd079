// Package sandbox makes local sandboxes without a Mission Control, for tools that measure them.
package sandbox

import (
	"path/filepath"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/id"
	"sallyport.dev/sallyport/internal/provider"
	"sallyport.dev/sallyport/internal/provider/local"
)

// Factory is a local provider.
type Factory struct {
	*local.Provider
	ID sallyport.FactoryID
}

// New is a factory of its own in a folder, with the keeper and the runner of the folder programs.
func New(folder, programs string) (*Factory, error) {
	raw, err := id.New(sallyport.FactoryPrefix)
	if err != nil {
		return nil, err
	}
	return Open(sallyport.FactoryID(raw), folder, programs)
}

// Open is a factory that exists.
func Open(f sallyport.FactoryID, folder, programs string) (*Factory, error) {
	p, err := local.Open(local.Config{Factory: f, Folder: folder, Keeper: filepath.Join(programs, "sallyport-keeper"), Runner: filepath.Join(programs, "sallyport-runner")})
	return &Factory{p, f}, err
}

// SystemMounts are what bare system programs need.
func SystemMounts() (ms []sallyport.Mount) {
	for _, m := range []string{"/usr", "/bin", "/lib", "/lib64", "/sbin", "/etc/ld.so.cache", "/etc/alternatives"} {
		ms = append(ms, sallyport.Mount{Path: m, Mode: "ro", Reason: "system"})
	}
	return ms
}

// Spec is of a new Allocation of a new Attempt. It requires every layer that is required by default.
func (f *Factory) Spec(ws provider.Workspace, mounts []sallyport.Mount, home string, cmd provider.Command) (provider.Spec, provider.Auth, error) {
	var ids [2]string
	for i, prefix := range []string{sallyport.AllocationPrefix, sallyport.AttemptPrefix} {
		var err error
		if ids[i], err = id.New(prefix); err != nil {
			return provider.Spec{}, provider.Auth{}, err
		}
	}
	secret, err := id.Secret()
	if err != nil {
		return provider.Spec{}, provider.Auth{}, err
	}
	return provider.Spec{Factory: f.ID, Allocation: sallyport.AllocationID(ids[0]), Attempt: sallyport.AttemptID(ids[1]), Purpose: sallyport.PurposeExecute,
		SecretSum: sallyport.Sum([]byte(secret)), Workspace: ws, Mounts: mounts, Home: home, Command: cmd,
		Limits:  sallyport.Limits{Time: time.Hour, Memory: 4 << 30, PIDs: 4096, Disk: 10 << 30, Output: 64 << 20},
		Require: sallyport.RequiredLayers(), LeaseTTL: time.Hour, Hold: time.Hour}, provider.Auth{Secret: secret, Fence: 1}, nil
}
