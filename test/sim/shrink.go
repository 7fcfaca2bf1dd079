package sim

// Shrink makes a failing list of choices shorter while the same law fails: pieces are dropped or made harmless, the largest
// first.
func Shrink(choices []byte, opt Options, law string) []byte {
	fails := func(c []byte) bool { return Run(&chooser{made: c}, opt).Law == law }
	for again := true; again; {
		again = false
		for size := max(len(choices)/2, 1); size > 0; size /= 2 {
			for at := 0; at < len(choices); {
				end := min(at+size, len(choices))
				dropped := append(append([]byte{}, choices[:at]...), choices[end:]...)
				if fails(dropped) {
					choices, again = dropped, true
					continue
				}
				if tame := zeroed(choices, at, end); tame != nil && fails(tame) {
					choices, again = tame, true
				}
				at = end
			}
		}
	}
	for len(choices) > 0 && choices[len(choices)-1] == 0 {
		choices = choices[:len(choices)-1] // beyond the end it is 0 anyway
	}
	return choices
}

// zeroed is a copy with a piece made harmless; nil where it is already.
func zeroed(choices []byte, from, to int) []byte {
	c := append([]byte{}, choices...)
	changed := false
	for i := from; i < to; i++ {
		changed = changed || c[i] != 0
		c[i] = 0
	}
	if !changed {
		return nil
	}
	return c
}
