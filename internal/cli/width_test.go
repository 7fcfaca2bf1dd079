package cli

import (
	"strings"
	"testing"
	"unicode/utf8"

	"sallyport.dev/sallyport"
)

// TestDoctorFitsTheTerminal: a proof may be long; on a terminal it is cut to a line, with --json it is whole.
func TestDoctorFitsTheTerminal(t *testing.T) {
	proof := "65 trials: " + strings.Repeat("a_call_with_a_name, ", 40) + "the last one"
	doctor := func() Doctor {
		return Doctor{OK: true, Layers: []sallyport.LayerReport{{Layer: sallyport.LayerSyscalls, Status: sallyport.LayerHeld, Required: true, Proof: proof}}}
	}
	w := newWorld(t)
	w.control.doctor, w.env.Width = doctor, 100
	w.want(ExitOK, "doctor")
	for line := range strings.Lines(w.out.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if !strings.Contains(w.out.String(), "65 trials") {
		t.Errorf("no proof at all: %s", w.out)
	}
	w = newWorld(t)
	w.control.doctor, w.env.Width = doctor, 100
	w.want(ExitOK, "doctor", "--json")
	if doc := document[Doctor](t, w.out.String()); len(doc.Layers) != 1 || doc.Layers[0].Proof != proof {
		t.Errorf("the document has %+v", doc.Layers)
	}
}
