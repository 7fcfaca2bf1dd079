package evidence

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sallyport.dev/sallyport"
)

// site is one place in a decoded document, and how to put something else there.
type site struct {
	path string
	old  any
	put  func(any)
}

func sites(path string, v any, put func(any)) []site {
	out := []site{{path, v, put}}
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			out = append(out, sites(path+"."+k, v[k], func(x any) { v[k] = x })...)
		}
	case []any:
		for i := range v {
			out = append(out, sites(fmt.Sprintf("%s[%d]", path, i), v[i], func(x any) { v[i] = x })...)
		}
	}
	return out
}

// edit changes one value of a payload: swapped with another place, replaced, or removed from a list.
func edit(t *rapid.T, payload []byte) (changed []byte, what string) {
	var root any
	if err := json.Unmarshal(payload, &root); err != nil {
		t.Fatal(err)
	}
	all := sites("", root, func(x any) { root = x })[1:]
	slices.SortFunc(all, func(a, b site) int { return bytes.Compare([]byte(a.path), []byte(b.path)) })
	a := all[rapid.IntRange(0, len(all)-1).Draw(t, "site")]
	how := rapid.SampledFrom([]string{"swap", "nothing", "number", "text", "flip", "list"}).Draw(t, "how")
	switch how {
	case "swap":
		b := all[rapid.IntRange(0, len(all)-1).Draw(t, "other")]
		a.put(b.old)
		b.put(a.old)
		how += " with " + b.path
	case "nothing":
		a.put(nil)
	case "number":
		a.put(rapid.Int64().Draw(t, "number"))
	case "text":
		a.put(rapid.StringMatching(`[a-f0-9]{0,64}`).Draw(t, "text"))
	case "flip":
		b, ok := a.old.(bool)
		a.put(ok && !b)
	case "list":
		list, _ := a.old.([]any)
		a.put(append(slices.Clone(list), map[string]any{"name": "x", "digest": map[string]any{}}))
	}
	out, err := json.Marshal(root)
	if err != nil {
		return payload, how // it now contains itself
	}
	return out, a.path + ": " + how
}

// Law: a statement in which anything was changed is evidence of nothing: not under the old signature, not when a
// stranger signs it anew, not when the stranger takes the place of the key that was given. Only the key that was
// given could sign another statement, and then the digests that the verifier holds must match.
func TestNoMutationVerifies(t *testing.T) {
	s, stranger := signerOf(7), signerOf(9)
	original := sealed(t, s, func(p *Predicate) { *p = full(t, s) })
	keys, want := []PublicKey{s.trusted()}, all(full(t, s))
	if _, err := Verify(original, keys, want); err != nil {
		t.Fatal(err)
	}
	e, err := parseEnvelope(original, PayloadType)
	if err != nil {
		t.Fatal(err)
	}
	reject := func(t *rapid.T, what string, m envelope) {
		b, err := m.encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Verify(b, keys, Expect{}); err == nil {
			t.Fatalf("accepted: %s", what)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		payload, what := edit(t, e.payload)
		if bytes.Equal(payload, e.payload) {
			return
		}
		reject(t, what+", old signature", envelope{PayloadType, payload, e.signatures})
		sig := ed25519.Sign(stranger.key, pae(PayloadType, payload))
		reject(t, what+", a stranger's signature", envelope{PayloadType, payload, []signature{{stranger.KeyID(), sig}}})
		reject(t, what+", a stranger's signature in the key's name", envelope{PayloadType, payload, []signature{{s.KeyID(), sig}}})
		reject(t, what+", both", envelope{PayloadType, payload, append(slices.Clone(e.signatures), signature{stranger.KeyID(), sig})})
		// Re-signed by the key itself: what still verifies says the same about all that the verifier holds.
		b, err := envelope{PayloadType, payload, []signature{{s.KeyID(), ed25519.Sign(s.key, pae(PayloadType, payload))}}}.encode()
		if err != nil {
			t.Fatal(err)
		}
		v, err := Verify(b, keys, want)
		if err == nil && (v.Statement.Predicate.Result.Tree != want.Tree || v.Statement.Predicate.Decision.Decision != sallyport.DecisionAwaitingApproval) {
			t.Fatalf("accepted about something else: %s", what)
		}
	})
}

// Law: no single bit of an envelope can be turned.
func TestNoBitTurns(t *testing.T) {
	s := signerOf(7)
	v := accepted(t, s)
	vsa := sealedVSA(t, s, v, sallyport.DecisionAccepted)
	for i := range vsa {
		for bit := range 8 {
			m := bytes.Clone(vsa)
			m[i] ^= 1 << bit
			if _, _, err := VerifyVSA(m, []PublicKey{s.trusted()}, ExpectVSA{}); err == nil {
				t.Fatalf("byte %d, bit %d: accepted", i, bit)
			}
		}
	}
}
