package publisher

import (
	"context"
	"path/filepath"
	"testing"

	"sallyport.dev/sallyport"
)

// What was written is what is found, or nothing is: also where a record was only hidden from those who look for it.
func TestLedgerTampered(t *testing.T) {
	scope := Scope{Target: "https://forge.example/a/b", WorkOrder: "wo_a"}
	for name, change := range map[string]string{
		"its body":         "update records set body = replace(body, 'sallyport-m', 'sallyport-x') where seq = 2",
		"its target":       "update records set target = 'https://forge.example/a/c' where seq = 2",
		"its work order":   "update records set work_order = 'wo_b' where seq = 2",
		"its nonce":        "update records set nonce = 'other' where seq = 2",
		"its type":         "update records set type = 'credential.gone' where seq = 2",
		"its chain":        "update records set chain = x'00' where seq = 2",
		"one in the midst": "delete from records where seq = 2",
	} {
		t.Run(name, func(t *testing.T) {
			l, err := OpenLedger(filepath.Join(t.TempDir(), "ledger.db"))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			for _, mark := range []string{"sallyport-l", "sallyport-m", "sallyport-n"} {
				if err := l.Append(context.Background(), nil, scope, Record{Type: CredentialIntended, Nonce: "n", Credential: &CredentialRow{Mark: mark}}); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.Check(context.Background()); err != nil {
				t.Fatal(err)
			}
			if _, err := l.db.Exec(change); err != nil {
				t.Fatal(err)
			}
			if err := l.Check(context.Background()); sallyport.CodeOf(err) != sallyport.CodeCorrupt {
				t.Errorf("changed and not seen: %v", err)
			}
		})
	}
}
