package cli

import (
	"os"
	"path/filepath"
	"testing"
)

// The schemas of what is signed are published, and that of selftest, which is kept too: a document in somebody else's hands outlives this program.
func TestPublishedSchemas(t *testing.T) {
	for name, file := range map[string]string{"selftest": "selftest-v1.schema.json", "evidence": "attempt-v1.schema.json", "summary": "summary-v1.schema.json", "acceptance": "acceptance-v1.schema.json", "publication": "publication-v1.schema.json"} {
		w := newWorld(t).stateless()
		w.want(ExitOK, "schema", name)
		path := filepath.Join("..", "..", "docs", "schema", file)
		if *update {
			if err := os.WriteFile(path, []byte(w.out.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(path); err != nil || string(want) != w.out.String() {
			t.Errorf("%s differs from what is published (%v); run with -update and look at the difference", file, err)
		}
	}
}
