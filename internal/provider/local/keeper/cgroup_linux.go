package keeper

import (
	"os"

	"sallyport.dev/sallyport/internal/contain/cgroup"
)

// takeCgroup makes the descriptors that Create handed over usable: the group's doors and, last, the file that
// counts out-of-memory kills.
func (k *keeper) takeCgroup(files []*os.File) error {
	if k.setup.Cgroup.Events && len(files) > 0 {
		k.oom, files = files[len(files)-1], files[:len(files)-1]
	}
	var err error
	k.cgroup, err = cgroup.EntryFromFiles(files)
	return err
}

func (k *keeper) outOfMemory() bool { return cgroup.OOMKills(k.oom) > 0 }
