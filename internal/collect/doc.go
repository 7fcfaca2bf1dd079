// Package collect turns what an agent left in its workspace into one plain byte stream, and reads such a
// stream back under hard bounds. It runs on both sides of the border: the writer and the walk inside the
// sandbox, the reader in Mission Control. It holds no git code and runs no program; what a stream does to a
// tree is internal/change's business, what it means is internal/inspect's.
//
// # Why not a pack, a tar or a patch
//
// Whatever leaves the sandbox is hostile. A format without compression, deltas, links between records or
// optional fields leaves nothing to exploit: one record is one length and that many bytes.
//
// # The stream, byte by byte
//
// Integers are unsigned and big-endian. A stream is
//
//	magic    19 bytes  "sallyport-change 1\n"
//	records  any number, each
//	    kind   1 byte   'F' file, 'L' link, 'D' delete, 'M' commit message, 'O' left out
//	    mode   4 bytes  0100644 or 0100755 for F, 0120000 for L, 0 for all others
//	    plen   4 bytes  length of path
//	    size   8 bytes  F, L, M: length of the body; O: how many; D: 0
//	    path   plen bytes   F, L, D: slash-separated, relative; O: the reason; M: empty
//	    body   size bytes   F: the content; L: the target; M: the text; D, O: nothing
//	trailer
//	    kind   1 byte   'E'
//	    mode   4 bytes  0
//	    plen   4 bytes  0
//	    size   8 bytes  how many records came before
//	    sum   32 bytes  SHA-256 of every byte before it
//
// and nothing after it. F, L and D come first, with strictly ascending paths (compared as bytes), none of
// them below another one; then M in the order of the commits; then O with strictly ascending reasons. So
// equal results are equal streams, and a stream that is accepted can be written in no other way.
//
// A path is not empty, has no empty, "." or ".." component, no leading or trailing slash and no NUL. A link's
// target has 1 to 4095 bytes and no NUL. A reason is 1 to 32 characters of a-z and "-".
//
// F and L say what stands at path afterwards; a folder that stood there is gone with all below it. D removes
// path, and if it was a folder all below it. What no record names is as it was.
package collect
