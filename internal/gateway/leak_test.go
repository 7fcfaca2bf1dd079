package gateway

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The law, against strings.Index as the other reader: whatever the pieces, all text before the secret's
// first completion passes in order except what is held, the secret never does, and only beginnings of the
// secret are ever held back.
func TestWatchLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Few letters make borders, overlaps and near misses frequent.
		secret := rapid.StringMatching(`[ab]{1,8}`).Draw(t, "secret")
		pieces := rapid.SliceOf(rapid.StringMatching(`[abc]{0,12}`)).Draw(t, "pieces")
		w, in, out := newWatch(secret), "", bytes.Buffer{}
		for _, p := range pieces {
			in += p
			got, met := w.pass([]byte(p))
			if want := strings.Contains(in, secret); met != want {
				t.Fatalf("after %q: met %v, expected %v", in, met, want)
			}
			if met {
				if strings.Contains(out.String(), secret) || !strings.HasPrefix(in, out.String()) {
					t.Fatalf("%q passed of %q", out.String(), in)
				}
				return
			}
			out.Write(got)
			if held := in[out.Len():]; out.String()+held != in || !strings.HasPrefix(secret, held) {
				t.Fatalf("of %q passed %q", in, out.String())
			}
		}
		out.Write(w.rest())
		if out.String() != in {
			t.Fatalf("%q came out as %q", in, out.String())
		}
	})
}
