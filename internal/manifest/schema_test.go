package manifest

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"testing"

	"github.com/goccy/go-yaml"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/evidence"
)

var update = flag.Bool("update", false, "rewrite the golden schemas")

func TestSchemasGolden(t *testing.T) {
	all := Schemas()
	for name, got := range all {
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs from its golden file (%v); run with -update and look at the difference", name, err)
		}
	}
	files, err := filepath.Glob("testdata/*.schema.json")
	if err != nil || len(files) != len(all) {
		t.Errorf("%d golden files for %d schemas (%v)", len(files), len(all), err)
	}
}

// check is a small validator of the keywords that the schemas use. An unknown keyword is an error, so that
// the validator cannot silently accept.
func check(schema, value any) error {
	for key, arg := range schema.(map[string]any) {
		if err := keyword(schema.(map[string]any), key, arg, value); err != nil {
			return err
		}
	}
	return nil
}

func keyword(schema map[string]any, key string, arg, value any) error {
	text, isText := value.(string)
	num, isNum := value.(float64)
	list, isList := value.([]any)
	obj, isObj := value.(map[string]any)
	wrong := fmt.Errorf("%v: %s %v does not hold", value, key, arg)
	bad := false
	switch key {
	case "$schema", "title", "description", "format":
	case "type":
		bad = !isType(arg, value)
	case "const":
		bad = !reflect.DeepEqual(arg, value)
	case "enum":
		bad = !slices.ContainsFunc(arg.([]any), func(x any) bool { return reflect.DeepEqual(x, value) })
	case "pattern":
		bad = isText && !regexp.MustCompile(arg.(string)).MatchString(text)
	case "minLength":
		bad = isText && float64(len([]rune(text))) < arg.(float64)
	case "maxLength":
		bad = isText && float64(len([]rune(text))) > arg.(float64)
	case "minimum":
		bad = isNum && num < arg.(float64)
	case "maximum":
		bad = isNum && num > arg.(float64)
	case "maxItems":
		bad = isList && float64(len(list)) > arg.(float64)
	case "uniqueItems":
		for i := range list {
			bad = bad || slices.ContainsFunc(list[:i], func(x any) bool { return reflect.DeepEqual(x, list[i]) })
		}
	case "items":
		for _, x := range list {
			if err := check(arg, x); err != nil {
				return err
			}
		}
	case "required":
		for _, k := range arg.([]any) {
			if _, ok := obj[k.(string)]; isObj && !ok {
				return fmt.Errorf("%v is missing", k)
			}
		}
	case "properties":
		for k, s := range arg.(map[string]any) {
			if v, ok := obj[k]; ok {
				if err := check(s, v); err != nil {
					return fmt.Errorf("%s: %w", k, err)
				}
			}
		}
	case "additionalProperties":
		props, _ := schema["properties"].(map[string]any)
		for k, v := range obj {
			if _, ok := props[k]; ok {
				continue
			}
			if arg == false {
				return fmt.Errorf("unknown key %s", k)
			}
			if err := check(arg, v); err != nil {
				return err
			}
		}
	case "propertyNames":
		for k := range obj {
			if err := check(arg, k); err != nil {
				return err
			}
		}
	case "not":
		bad = check(arg, value) == nil
	case "oneOf":
		n := 0
		for _, s := range arg.([]any) {
			if check(s, value) == nil {
				n++
			}
		}
		bad = n != 1
	default:
		return fmt.Errorf("keyword %s is not known to this test", key)
	}
	if bad {
		return wrong
	}
	return nil
}

func isType(arg, value any) bool {
	if list, ok := arg.([]any); ok {
		return slices.ContainsFunc(list, func(a any) bool { return isType(a, value) })
	}
	switch v := value.(type) {
	case nil:
		return arg == "null"
	case string:
		return arg == "string"
	case bool:
		return arg == "boolean"
	case float64:
		return arg == "number" || (arg == "integer" && v == float64(int64(v)))
	case []any:
		return arg == "array"
	}
	return arg == "object"
}

func schemaNamed(t testing.TB, name string) any {
	t.Helper()
	var s any
	if err := json.Unmarshal(Schemas()[name], &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// fromYAML reads a file the way an editor's schema plug-in does: into plain JSON values.
func fromYAML(data []byte) (any, error) {
	j, err := yaml.YAMLToJSON(bytes.TrimPrefix(data, utf8BOM))
	if err != nil {
		return nil, err
	}
	var v any
	err = json.Unmarshal(j, &v)
	return v, err
}

// Law: what the reader takes, the schema takes. And what has an unknown key, neither does.
func TestSchemaAgreesWithReader(t *testing.T) {
	s := schemaNamed(t, "sallyport.schema.json")
	for _, good := range []string{exampleRepository, "version: 1\n", string(InitFile(Detection{})), "version: 1\nhistory: 20\nrequire: all\ntools: [~/x]\ncaches: [go]\nenv: {A: b}\nlimits: {cpus: 0.5}\n"} {
		if _, err := ParseRepository("s", []byte(good)); err != nil {
			t.Fatal(err)
		}
		v, err := fromYAML([]byte(good))
		if err != nil {
			t.Fatal(err)
		}
		if err := check(s, v); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	refused := 0
	for _, w := range wrongFiles {
		if v, err := fromYAML([]byte(w.file)); err == nil && check(s, v) != nil {
			refused++
		}
	}
	if refused < 70 {
		t.Errorf("the schema refuses only %d of the wrong files", refused)
	}
	wo := schemaNamed(t, "workorder.schema.json")
	for text, ok := range map[string]bool{exampleWorkOrder: true, "version: 1\ncommand: [sh]\nname: a\n": true, "version: 1\n": false, "version: 1\nagent: a\ncommand: [b]\n": false, "version: 1\nagent: a\nchecks: []\n": false} {
		v, err := fromYAML([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if (check(wo, v) == nil) != ok {
			t.Errorf("%q: %v", text, check(wo, v))
		}
	}
}

// The schemas of outputs describe what encoding/json writes.
func TestSchemaAgreesWithOutput(t *testing.T) {
	for name, v := range map[string]any{
		"manifest.schema.json": compiled(t, input(repository(t, "checks:\n- {name: a, run: x}\nscope: {allow: []}\n"))),
		"report.schema.json": sallyport.Report{State: sallyport.AttemptAwaitingApproval, Manifest: sallyport.Sum(nil), Decision: sallyport.DecisionAwaitingApproval,
			Layers:  []sallyport.LayerReport{{Layer: sallyport.LayerCPU, Status: sallyport.LayerHeld, Grade: sallyport.GradeProbe}},
			Changes: []sallyport.Change{{Path: "a", Status: sallyport.ChangeAdded, NewID: someCommit}}, Checks: []sallyport.CheckResult{{Name: "a", Status: sallyport.CheckPassed}},
			Findings: []sallyport.Finding{{Severity: sallyport.SeverityWarn}}, Timings: map[string]float64{"run": 1.5}},
	} {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var plain any
		if err := json.Unmarshal(data, &plain); err != nil {
			t.Fatal(err)
		}
		s := schemaNamed(t, name)
		if err := check(s, plain); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		plain.(map[string]any)["extra"] = 1.0
		if check(s, plain) == nil {
			t.Errorf("%s takes an unknown key", name)
		}
	}
}

// The published schemas of signed statements take what was signed, and nothing with another type, version,
// member or a null in it.
func TestSchemaAgreesWithEvidence(t *testing.T) {
	for pattern, typ := range map[string]reflect.Type{"attempt-v1*.golden.json": reflect.TypeFor[evidence.Statement](), "vsa-v1*.golden.json": reflect.TypeFor[evidence.VSA]()} {
		var s any
		if err := json.Unmarshal(FilledSchemaOf("evidence", typ), &s); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join("..", "evidence", "testdata", pattern))
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var envelope struct{ Payload []byte }
			if err := json.Unmarshal(data, &envelope); err != nil {
				t.Fatal(err)
			}
			statement := func() map[string]any {
				var v map[string]any
				if err := json.Unmarshal(envelope.Payload, &v); err != nil {
					t.Fatal(err)
				}
				return v
			}
			if err := check(s, statement()); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			for name, spoil := range map[string]func(v map[string]any){
				"type":    func(v map[string]any) { v["_type"] = "https://in-toto.io/Statement/v0.1" },
				"version": func(v map[string]any) { v["predicateType"] = v["predicateType"].(string) + "1" },
				"member":  func(v map[string]any) { v["predicate"].(map[string]any)["more"] = 1.0 },
				"missing": func(v map[string]any) { delete(v, "subject") },
				"null":    func(v map[string]any) { v["subject"] = nil },
			} {
				v := statement()
				spoil(v)
				if check(s, v) == nil {
					t.Errorf("%s: another %s is taken", file, name)
				}
			}
		}
	}
}

func TestTablesHoldTheirOwnRules(t *testing.T) {
	for _, g := range DefaultDeny() {
		if want := globRule(g); want != "" {
			t.Errorf("%q: expected %s", g, want)
		}
	}
}
