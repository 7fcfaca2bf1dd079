package secret

// finder meets many words in one pass over a text, in any case of the ASCII letters (Aho and Corasick). A byte
// that is in no word is class 0.
type finder struct {
	class [256]uint16
	width int
	next  []uint16 // node*width + class
	words [][]int  // by node: which words end here
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

func newFinder(words []string) *finder {
	f := &finder{width: 1}
	for _, w := range words {
		for i := range len(w) {
			if c := lower(w[i]); f.class[c] == 0 {
				f.class[c] = uint16(f.width)
				f.width++
			}
		}
	}
	for c := byte('A'); c <= 'Z'; c++ {
		f.class[c] = f.class[lower(c)]
	}
	f.node()
	for id, w := range words {
		at := 0
		for i := range len(w) {
			edge := at*f.width + int(f.class[w[i]])
			if f.next[edge] == 0 {
				f.next[edge] = uint16(f.node())
			}
			at = int(f.next[edge])
		}
		f.words[at] = append(f.words[at], id)
	}
	f.link()
	return f
}

func (f *finder) node() int {
	f.words = append(f.words, nil)
	f.next = append(f.next, make([]uint16, f.width)...)
	return len(f.words) - 1
}

// link fills in where to go on after a word that turned out to be another, breadth first.
func (f *finder) link() {
	fail := make([]uint16, len(f.words))
	var queue []int
	for c := range f.width {
		if n := int(f.next[c]); n != 0 {
			queue = append(queue, n)
		}
	}
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		f.words[n] = append(f.words[n], f.words[fail[n]]...)
		for c := range f.width {
			edge, other := n*f.width+c, f.next[int(fail[n])*f.width+c]
			if child := f.next[edge]; child != 0 {
				fail[child] = other
				queue = append(queue, int(child))
			} else {
				f.next[edge] = other
			}
		}
	}
}

// each calls met for every place where a word ends, with the word's number, until it says no.
func (f *finder) each(text []byte, met func(word, end int) bool) {
	at := 0
	for i, c := range text {
		at = int(f.next[at*f.width+int(f.class[c])])
		for _, w := range f.words[at] {
			if !met(w, i+1) {
				return
			}
		}
	}
}
