package spend

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkBound is for bodies of the size that agents send.
func BenchmarkBound(b *testing.B) {
	for _, size := range []int{100_000, 10_000_000} {
		body := []byte(set(b, claude, "messages", said(`{"type":"text","text":"`+strings.Repeat("some text, and more; ", size/21)+`"}`)))
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, no := Embedded().Bound("anthropic-messages", body); no != nil {
					b.Fatal(no)
				}
			}
		})
	}
}
