package contain

// foreignCalls: entering 32-bit mode on arm64 takes an exec; the filter's first instruction is what stands
// against it, and the test of the compiled program is its proof.
func foreignCalls(p *trials) {
	p.weak("calls of 32-bit programs were not tried on this architecture")
}
