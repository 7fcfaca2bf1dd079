// Package guest boots a small Debian system in an emulator, for tests that need a kernel other than the one
// they run on: pure cgroup v2, an older Landlock, an ordinary user with a delegated subtree or, under systemd as
// process 1, with a login session. It needs no rights of its own: the emulator translates (TCG), images are made
// from folders, packages are unpacked, not installed.
//
// What is slow is made once and kept in the user's cache folder under a name that changes with the versions of
// the packages. A guest writes to none of it and has no network card.
//
// It is not for: sandboxes (internal/provider), or anything outside of tests. The program that runs inside as
// process 1 is tools/guest/init; what the two say to each other is tools/guest/talk.
package guest
