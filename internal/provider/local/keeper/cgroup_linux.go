package keeper

func (k *keeper) joinCgroup(pid int) error { return nil }

func (k *keeper) joinCgroupThread() error { return nil }

func (k *keeper) outOfMemory() bool { return false }
