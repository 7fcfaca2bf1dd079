package contain

import "golang.org/x/sys/unix"

const (
	nativeArch = unix.AUDIT_ARCH_AARCH64
	x32Bit     = 0 // no second ABI shares this architecture's id
)

// arm64 has none of the old calls.
var (
	archAllowed     [][]uint32
	archDenied      [][]uint32
	archConditional []rule
)
