// Package contain takes power away from one thread, and proves afterwards that it is gone.
//
// A command of a WorkOrder is started by a thread that was confined first: identity, capabilities,
// no_new_privs, Landlock and seccomp are per-thread in the kernel, a child inherits them at its birth, and so
// no foreign instruction ever runs before them and no helper has to be executed in between. The thread is
// thrown away afterwards. Probe runs on such a thread and tries to break each layer from inside, with
// arguments that do no harm where a layer is missing.
//
// Everything here acts on the calling thread only: raw system calls, no syscall.Setuid (all threads), no
// TSYNC. The exceptions are named at Apply.
//
// It is not for: namespaces and mounts (internal/provider/local), limits on cpu, memory and pids
// (internal/contain/cgroup), deciding what a missing layer means (Policy). It is linked into the small
// static programs that run inside a sandbox, hence only the standard library and golang.org/x/sys.
package contain
