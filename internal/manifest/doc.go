// Package manifest is the road from what people write (sallyport.yaml, workorder.yaml, policy.yaml, flags)
// to a frozen Manifest: a strict reader with exact positions, Compile, which lets a WorkOrder only narrow
// Policy, and Freeze, which gives the result its name.
//
// It also holds what belongs to those files: the grants an operator gave to a repository's asks, the
// detection behind `sallyport init`, and the JSON Schemas, which are made from the same Go types as the
// reader.
//
// It is not for finding programs on the host, running git or talking to a provider: such facts are given
// in (Input). Compile and the Parse functions do no I/O, read no clock and use no randomness.
package manifest
