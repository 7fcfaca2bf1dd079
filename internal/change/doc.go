// Package change is the room with git in it, and the only one: the user's repository as a source, our own
// object store beside it, checkouts of a tree, the import of what an agent left, the difference of two
// trees, and the one commit that is published.
//
// It is for turning bytes into trees and trees into files, by rules that no repository can bend: blobs are
// written raw (no filters, no attributes), objects from a sandbox are hashed and written by us, trees are
// read and written by our own code. It judges nothing beyond the floor of CheckPath; findings are
// internal/inspect's. The stream that comes out of a sandbox is internal/collect's.
//
// git runs with a complete environment and configuration of ours, never in or on a folder that a sandbox
// could write, and in the user's repository as its owner.
package change
