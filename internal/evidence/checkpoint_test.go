package evidence

import (
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"sallyport.dev/sallyport"
)

const origin = "sallyport.dev/journal/test"

func TestCheckpoint(t *testing.T) {
	s, other := signerOf(1), signerOf(2)
	hash := sallyport.Sum([]byte("head"))
	n, err := SignCheckpoint(t.Context(), s, origin, 7, hash)
	if err != nil {
		t.Fatal(err)
	}
	h, err := VerifyCheckpoint(n, origin, []PublicKey{other.trusted(), s.trusted()})
	if err != nil {
		t.Fatal(err)
	}
	if h != (Head{origin, 7, hash}) {
		t.Errorf("got %+v", h)
	}
	swapped := strings.Replace(n, "\n7\n", "\n8\n", 1)
	for _, c := range []struct {
		name, note, origin string
		keys               []PublicKey
	}{
		{"no keys", n, origin, nil},
		{"another key", n, origin, []PublicKey{other.trusted()}},
		{"another origin", n, origin + "2", []PublicKey{s.trusted()}},
		{"another number", swapped, origin, []PublicKey{s.trusted()}},
		{"no signature", n[:strings.Index(n, "— ")], origin, []PublicKey{s.trusted()}},
		{"empty", "", origin, []PublicKey{s.trusted()}},
		{"too large", n + strings.Repeat("— x AAAAAAAA\n", 4000), origin, []PublicKey{s.trusted()}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := VerifyCheckpoint(c.note, c.origin, c.keys); err == nil {
				t.Error("accepted")
			}
		})
	}
}

// TestCheckpointForms: signed by the right key under the right name, and still not a checkpoint.
func TestCheckpointForms(t *testing.T) {
	s := signerOf(1)
	good, err := Checkpoint(origin, 7, sallyport.Sum(nil))
	if err != nil {
		t.Fatal(err)
	}
	sign := func(text string) string {
		b, err := note.Sign(&note.Note{Text: text}, noteSigner{t.Context(), origin, s})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if _, err := VerifyCheckpoint(sign(good), origin, []PublicKey{s.trusted()}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(good, "\n")
	for _, text := range []string{
		good + "extension\n",
		strings.Replace(good, "\n7\n", "\n07\n", 1),
		strings.Replace(good, "\n7\n", "\n+7\n", 1),
		strings.Replace(good, "\n7\n", "\n-7\n", 1),
		lines[0] + "\n7\n" + lines[2][:40] + "\n",
		lines[0] + "\n7\n" + strings.TrimRight(lines[2], "=") + "\n",
		"other\n" + good[len(origin)+1:],
		origin + "\n",
	} {
		if _, err := VerifyCheckpoint(sign(text), origin, []PublicKey{s.trusted()}); err == nil {
			t.Errorf("accepted %q", text)
		}
	}
}

func TestCheckpointRefusesBadInput(t *testing.T) {
	for _, c := range []struct {
		origin string
		seq    int64
		hash   sallyport.Digest
	}{
		{"", 1, sallyport.Sum(nil)}, {"a b", 1, sallyport.Sum(nil)}, {"a+b", 1, sallyport.Sum(nil)}, {"a\nb", 1, sallyport.Sum(nil)},
		{"a\u202eb", 1, sallyport.Sum(nil)}, {origin, -1, sallyport.Sum(nil)}, {origin, 1, "sha256:00"}, {origin, 1, ""},
	} {
		if _, err := Checkpoint(c.origin, c.seq, c.hash); sallyport.CodeOf(err) != sallyport.CodeInvalid {
			t.Errorf("%+v: got %v, want invalid", c, err)
		}
	}
}

// TestNoteKeyHash compares with the published key hash rule as x/mod computes it.
func TestNoteKeyHash(t *testing.T) {
	s := signerOf(1)
	vkey, err := note.NewEd25519VerifierKey(origin, s.Public())
	if err != nil {
		t.Fatal(err)
	}
	v, err := note.NewVerifier(vkey)
	if err != nil {
		t.Fatal(err)
	}
	if v.KeyHash() != noteKeyHash(origin, s.Public()) {
		t.Error("another key hash than golang.org/x/mod")
	}
	signed, err := SignCheckpoint(t.Context(), s, origin, 1, sallyport.Sum(nil))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := note.Open([]byte(signed), note.VerifierList(v)); err != nil {
		t.Errorf("the reference verifier refuses it: %v", err)
	}
}
