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
		"manifest.schema.json":  SchemaOf("a frozen manifest", reflect.TypeFor[sallyport.Manifest]()),
	}
}

// SchemaOf describes what encoding/json writes for t. Other rooms use it for outputs of their own.
func SchemaOf(title string, t reflect.Type) []byte { return render(title, jsonSchema(t)) }

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
	reflect.TypeFor[sallyport.CheckStatus]():  words(sallyport.CheckPassed, sallyport.CheckFailed, sallyport.CheckError, sallyport.CheckNotRun, sallyport.CheckFlaky),
}

func words[T ~string](list ...T) []string { return plain(list) }

// jsonSchema describes what encoding/json writes for t. A field that may be null says so.
func jsonSchema(t reflect.Type) object {
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
		return jsonSchema(t.Elem())
	case reflect.Slice:
		return object{"type": []string{"array", "null"}, "items": jsonSchema(t.Elem())}
	case reflect.Map:
		return object{"type": []string{"object", "null"}, "additionalProperties": jsonSchema(t.Elem())}
	case reflect.Struct:
		return jsonStruct(t)
	}
	return object{"type": "integer"}
}

func jsonStruct(t reflect.Type) object {
	props, required := object{}, []string{}
	for i := range t.NumField() {
		f := t.Field(i)
		name := jsonName(f)
		if name == "" {
			continue
		}
		props[name] = jsonSchema(f.Type)
		_, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !slices.Contains(strings.Split(options, ","), "omitempty") {
			required = append(required, name)
		}
	}
	return object{"type": "object", "properties": props, "required": required, "additionalProperties": false}
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
