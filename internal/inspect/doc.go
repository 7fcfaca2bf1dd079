// Package inspect makes findings about a quarantined change: sentences about its paths, modes, links and
// added content, with what to do about each. It runs nothing of the change, starts no git and parses no
// patch text; it sees the tree diff and asks for blobs by id.
//
// Git's own files (.gitmodules, .gitattributes, .lfsconfig) are read by parsers that tests hold against real git;
// lock files and manifests are compared with the base's version; of archives the headers are read.
//
// A finding never repeats what it found: no secret, no raw name; names are neutralised. Whether a finding stops a change is the
// decision's business (internal/control); whether the change works is internal/validate's.
package inspect
