// Package toolchain decides, on the trusted side, what of the host a sandbox may see: the system's
// programs, the user's toolchains, their caches, and the environment that goes with them. Its answer is a
// list of sallyport.Mount, a PATH and a complete environment.
//
// It reads folders, links and a few small files; it runs nothing, not even "go env", since what lies on PATH
// may be a shim that reads the repository. It grants nothing that the tables in this folder do not name:
// what the repository asks for beyond them needs the operator's word first (internal/manifest). Mounting is
// the provider's (internal/provider).
package toolchain
