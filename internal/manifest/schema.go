package manifest

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"sallyport.dev/sallyport"
)

// object is one JSON Schema (draft 2020-12).
type object map[string]any

const dialect = "https://json-schema.org/draft/2020-12/schema"

// Schemas returns the JSON Schema of each file and output, by file name, ready to be written. They are made
// from the Go types that read and write them.
func Schemas() map[string][]byte {
	return map[string][]byte{
		"sallyport.schema.json": render("sallyport.yaml", fileSchema(reflect.TypeFor[repositoryFile]())),
		"workorder.schema.json": render("workorder.yaml", workOrderSchema()),
		"policy.schema.json":    render("policy.yaml and config.yaml", fileSchema(reflect.TypeFor[operatorFile]())),
		"report.schema.json":    SchemaOf("the document of run --json and show --json", reflect.TypeFor[sallyport.Report]()),
		"manifest.schema.json":  FilledSchemaOf("a frozen manifest", reflect.TypeFor[sallyport.Manifest]()),
	}
}

// SchemaOf describes what encoding/json writes for t. Other rooms use it for outputs of their own. A field with
// the tag const:"…" has that value alone.
func SchemaOf(title string, t reflect.Type) []byte {
	return render(title, writer{nulls: true}.schema(t))
}

// FilledSchemaOf is SchemaOf for a document in which no list or map is ever null.
func FilledSchemaOf(title string, t reflect.Type) []byte { return render(title, writer{}.schema(t)) }

func render(title string, s object) []byte {
	s = maps.Clone(s)
	s["$schema"], s["title"] = dialect, title
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(s); err != nil {
		panic("schema: " + err.Error()) // maps of strings, numbers and lists always encode
	}
	return b.Bytes()
}

// fileSchema describes a YAML file by the types that read it.
func fileSchema(t reflect.Type) object {
	if t.Kind() == reflect.Pointer {
		return fileSchema(t.Elem())
	}
	if v, ok := reflect.New(t).Interface().(value); ok {
		s := v.schema()
		if s["description"] == nil {
			s["description"] = "Expected: " + v.want() + "."
		}
		return s
	}
	if t.Kind() == reflect.Slice {
		return object{"type": "array", "items": fileSchema(t.Elem())}
	}
	keys, props, required := structKeys(t), object{}, []string{}
	for _, name := range keys.names() {
		p := fileSchema(t.Field(keys[name].index).Type)
		p["description"] = t.Field(keys[name].index).Tag.Get("doc")
		props[name] = p
		if keys[name].required {
			required = append(required, name)
		}
	}
	return object{"type": "object", "properties": props, "required": required, "additionalProperties": false}
}

func workOrderSchema() object {
	s := fileSchema(reflect.TypeFor[workOrderFile]())
	s["oneOf"] = []object{{"required": []string{"agent"}}, {"required": []string{"command"}}}
	return s
}

// enums are the words of named string types that reflection cannot see.
var enums = map[reflect.Type][]string{
	reflect.TypeFor[sallyport.AttemptState](): words(sallyport.AttemptQueued, sallyport.AttemptPreparing, sallyport.AttemptRunning,
		sallyport.AttemptCollecting, sallyport.AttemptInspecting, sallyport.AttemptValidating, sallyport.AttemptDeciding,
		sallyport.AttemptAwaitingApproval, sallyport.AttemptAccepted, sallyport.AttemptRejected, sallyport.AttemptFailed, sallyport.AttemptCancelled),
	reflect.TypeFor[sallyport.Decision]():     words(sallyport.DecisionNone, sallyport.DecisionAccepted, sallyport.DecisionRejected, sallyport.DecisionAwaitingApproval),
	reflect.TypeFor[sallyport.Layer]():        words(sallyport.Layers()...),
	reflect.TypeFor[sallyport.LayerStatus]():  words(sallyport.LayerNotHeld, sallyport.LayerHeld, sallyport.LayerWatched, sallyport.LayerNotRequired),
	reflect.TypeFor[sallyport.Grade]():        words(sallyport.GradeClaim, sallyport.GradeProbe, sallyport.GradeObservation),
	reflect.TypeFor[sallyport.Severity]():     words(sallyport.SeverityInfo, sallyport.SeverityWarn, sallyport.SeverityBlock),
	reflect.TypeFor[sallyport.ChangeStatus](): words(sallyport.ChangeAdded, sallyport.ChangeModified, sallyport.ChangeDeleted, sallyport.ChangeMode, sallyport.ChangeType),
	reflect.TypeFor[sallyport.SetupStatus]():  words(sallyport.SetupRunning, sallyport.SetupDone, sallyport.SetupFailed),
	reflect.TypeFor[sallyport.CheckStatus]():  words(sallyport.CheckPassed, sallyport.CheckFailed, sallyport.CheckError, sallyport.CheckNotRun, sallyport.CheckFlaky),
}

func words[T ~string](list ...T) []string { return plain(list) }

// writer is how a document is written.
type writer struct {
	nulls bool // nil lists and maps are written as null
}

// kind is a JSON type that may be null where nil is written so.
func (w writer) kind(name string) any {
	if w.nulls {
		return []string{name, "null"}
	}
	return name
}

// schema describes what encoding/json writes for t.
func (w writer) schema(t reflect.Type) object {
	if w, ok := enums[t]; ok {
		return object{"type": "string", "enum": w}
	}
	switch t {
	case reflect.TypeFor[sallyport.Digest]():
		return object{"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"}
	case reflect.TypeFor[sallyport.ObjectID]():
		return object{"type": "string", "pattern": "^([0-9a-f]{40}|[0-9a-f]{64})?$"}
	case reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	}
	switch t.Kind() {
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float64, reflect.Float32:
		return object{"type": "number"}
	case reflect.Pointer:
		return w.schema(t.Elem())
	case reflect.Slice:
		return object{"type": w.kind("array"), "items": w.schema(t.Elem())}
	case reflect.Map:
		return object{"type": w.kind("object"), "additionalProperties": w.schema(t.Elem())}
	case reflect.Struct:
		return w.structure(t)
	}
	return object{"type": "integer"}
}

func (w writer) structure(t reflect.Type) object {
	props, required := object{}, []string{}
	for i := range t.NumField() {
		f := t.Field(i)
		name := jsonName(f)
		if name == "" {
			continue
		}
		props[name] = w.schema(f.Type)
		if value, ok := f.Tag.Lookup("const"); ok {
			props[name] = object{"const": value}
		}
		if !isOmitted(f) {
			required = append(required, name)
		}
	}
	return object{"type": "object", "properties": props, "required": required, "additionalProperties": false}
}

// isOmitted reports that encoding/json leaves f out where it is empty.
func isOmitted(f reflect.StructField) bool {
	_, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	return slices.Contains(strings.Split(options, ","), "omitempty")
}

// jsonName is the key under which encoding/json writes f; "" if it does not.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	switch {
	case !f.IsExported() || name == "-":
		return ""
	case name == "":
		return f.Name
	}
	return name
}
