package cli

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/evidence"
	"sallyport.dev/sallyport/internal/manifest"
)

func (a *app) schemaVerb() *cobra.Command {
	return &cobra.Command{
		Use:     "schema [NAME]",
		Short:   "Print the JSON Schema of a file or an output",
		Long:    "Print the JSON Schema of a file that Sallyport reads or of a document that it writes; without NAME list them.",
		Example: "  sallyport schema sallyport > sallyport.schema.json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			all := schemas()
			names := slices.Sorted(maps.Keys(all))
			if len(args) == 0 {
				for _, n := range names {
					a.say("%s", n)
				}
				return nil
			}
			s, ok := all[strings.TrimSuffix(args[0], schemaSuffix)]
			if !ok {
				return &sallyport.Error{Op: "schema", Code: sallyport.CodeNotFound, Subject: args[0], Message: "expected one of: " + strings.Join(names, ", ")}
			}
			_, err := a.Stdout.Write(s)
			return err
		},
	}
}

const schemaSuffix = ".schema.json"

// schemas are the files' and those of outputs, by short name. Those of signed statements are published in
// docs/schema.
func schemas() map[string][]byte {
	out := map[string][]byte{
		"ps":          manifest.SchemaOf("the document of ps --json", reflect.TypeFor[Attempts]()),
		"doctor":      manifest.SchemaOf("the document of doctor --json", reflect.TypeFor[Doctor]()),
		"selftest":    manifest.SchemaOf("the document of selftest --json", reflect.TypeFor[Selftest]()),
		"evidence":    manifest.FilledSchemaOf("the signed statement in evidence: an in-toto Statement v1, predicate "+evidence.PredicateType, reflect.TypeFor[evidence.Statement]()),
		"acceptance":  manifest.FilledSchemaOf("the signed word of Mission Control to a Publisher: an in-toto Statement v1, predicate "+evidence.AcceptanceType, reflect.TypeFor[evidence.Acceptance]()),
		"publication": manifest.FilledSchemaOf("the signed receipt of a Publisher: an in-toto Statement v1, predicate "+evidence.PublicationType, reflect.TypeFor[evidence.Publication]()),
		"summary":     manifest.FilledSchemaOf("the signed statement beside evidence: an in-toto Statement v1, predicate "+evidence.VSAType, reflect.TypeFor[evidence.VSA]()),
	}
	for name, s := range manifest.Schemas() {
		out[strings.TrimSuffix(name, schemaSuffix)] = s
	}
	return out
}
