package crash_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFsckFindsTampering: each is a fault, and an undamaged state folder is none.
func TestFsckFindsTampering(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := start(w, agent)
	awaitEnd(w, first)
	w.Forget()
	old := saved(w)
	second := w.Start("second", agent)
	awaitEnd(w, second)
	rep, _ := w.Wait(second)
	w.Forget()
	whole := saved(w)
	sql := func(statements ...string) func(*testing.T) {
		return func(t *testing.T) {
			db := w.Writable()
			defer db.Close()
			for _, s := range statements {
				if _, err := db.Exec(s); err != nil {
					t.Fatalf("%s: %v", s, err)
				}
			}
		}
	}
	file := func(pattern string, change func([]byte) []byte) func(*testing.T) {
		return func(t *testing.T) {
			found, err := filepath.Glob(filepath.Join(w.State, pattern))
			if err != nil || len(found) == 0 {
				t.Fatalf("no %s (%v)", pattern, err)
			}
			b, err := os.ReadFile(found[0])
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.WriteFile(found[0], b, 0o600) })
			if b := change(b); b == nil {
				err = os.Remove(found[0])
			} else {
				err = os.WriteFile(found[0], b, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func([]byte) []byte { return nil }
	edit := func(b []byte) []byte {
		c := append([]byte{}, b...)
		c[len(c)/2] ^= 1
		return c
	}
	evidence := filepath.Join("attempts", string(second), filepath.Base(rep.Evidence))
	for name, tamper := range map[string]func(*testing.T){
		"an older journal is put back":         func(*testing.T) { old() },
		"an event is edited":                   sql(`DROP TRIGGER events_no_update`, `UPDATE events SET data = replace(data, '"accepted"', '"rejected"') WHERE type = 'attempt.decided'`),
		"the last events are removed":          sql(`DROP TRIGGER events_no_delete`, `DELETE FROM events WHERE seq > (SELECT max(seq) - 2 FROM events)`),
		"a projection is edited":               sql(`UPDATE attempts SET state = replace(state, 'accepted', 'rejected')`),
		"a lease is edited":                    sql(`UPDATE leases SET fence = fence + 1`),
		"a quarantine file is removed":         file("quarantine/"+rep.Bundle.Hex(), remove),
		"a quarantine file is edited":          file("quarantine/"+rep.Bundle.Hex(), edit),
		"an evidence file is removed":          file(evidence, remove),
		"an evidence file is edited":           file(evidence, edit),
		"a manifest is removed":                file("manifests/"+rep.Manifest.Hex()+".json", remove),
		"a manifest is edited":                 file("manifests/"+rep.Manifest.Hex()+".json", edit),
		"the journal is removed and made anew": func(*testing.T) { _ = os.Remove(filepath.Join(w.State, "journal.db")) },
	} {
		t.Run(name, func(t *testing.T) {
			whole()
			if r := w.Sallyport("fsck"); r.Code != 0 || strings.Contains(r.Out, "FAULT") {
				t.Fatalf("before: exit %d\n%s%s", r.Code, r.Out, r.Err)
			}
			whole()
			tamper(t)
			r := w.Sallyport("fsck")
			t.Logf("exit %d\n%s%s", r.Code, r.Out, r.Err)
			if r.Code == 0 {
				t.Error("not found")
			}
			if !strings.Contains(r.Out+r.Err, "FAULT") && !strings.Contains(r.Err, "journal") {
				t.Error("it does not say what")
			}
		})
	}
	whole()
}
