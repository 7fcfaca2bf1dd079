// Package cgroup bounds cpu, memory and processes of one sandbox, counts what it used, kills what is left and
// proves that nothing is. It is the trusted side's: root, or a user with a delegated subtree. A process
// without either receives an Entry, descriptors through which it can put a command into the group and do
// nothing else.
//
// It works on cgroup v2, on v1, and on the mixture (hybrid), controller by controller: what decides is what
// can be written here, not a version. Each controller's directory is <parent>/sallyport/<factory>/<allocation>,
// so that leftovers are found by name after everybody has lost their memory.
//
// It is not for: disk, runtime and output limits (the keeper), confinement of threads (internal/contain),
// deciding whether a sandbox may start without a limit (Policy).
package cgroup
