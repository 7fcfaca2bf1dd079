package manifest

import (
	"errors"
	"reflect"
	"testing"

	"sallyport.dev/sallyport"
)

// FuzzParseRepository: no bytes make the reader panic; a refusal is a *sallyport.Error with a place; what is
// accepted is accepted by the schema, and compiles to a Manifest that freezes and comes back equal, or is
// refused with a *sallyport.Error.
func FuzzParseRepository(f *testing.F) {
	for _, w := range wrongFiles {
		f.Add([]byte(w.file))
	}
	f.Add([]byte(exampleRepository))
	f.Add(InitFile(Detection{Deps: []string{"a b"}, Checks: []Detected{{"a", "go", "x: \"y\"", "d"}}}))
	f.Add([]byte("version: 1\nlimits: {cpus: 0.5}\nhistory: 3\nrequire: [cpu]\nenv: {A: \"\"}\ntools: [/a/b]\n"))
	schema := schemaNamed(f, "sallyport.schema.json")
	f.Fuzz(func(t *testing.T, data []byte) {
		rep, err := ParseRepository("s.yaml", data)
		if err != nil {
			var e *sallyport.Error
			if !errors.As(err, &e) || e.Subject == "" || e.Message == "" || (e.Code != sallyport.CodeInvalid && e.Code != sallyport.CodeUnsupported) {
				t.Fatalf("%#v", err)
			}
			return
		}
		if v, err := fromYAML(data); err == nil {
			if err := check(schema, v); err != nil {
				t.Fatalf("the reader takes what the schema does not: %v", err)
			}
		}
		m, err := Compile(input(&rep))
		if err != nil {
			var e *sallyport.Error
			if !errors.As(err, &e) {
				t.Fatalf("%#v", err)
			}
			return
		}
		frozen, digest, err := Freeze(m)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := Thaw(frozen, digest); err != nil || !reflect.DeepEqual(back, m) {
			t.Fatalf("%v: %+v", err, back)
		}
	})
}

// FuzzParseWorkOrder: no bytes make the reader panic; a refusal is a *sallyport.Error; what compiles freezes.
func FuzzParseWorkOrder(f *testing.F) {
	f.Add([]byte(exampleWorkOrder))
	f.Add([]byte("version: 1\ncommand: [sh, -c, x]\nenv: {A: b}\nscope: {allow: [], deny: [x]}\npublish: {to: none}\nrequire: all\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		wo, places, err := ParseWorkOrderPlaces("w.yaml", data)
		if err != nil {
			var e *sallyport.Error
			if !errors.As(err, &e) {
				t.Fatalf("%#v", err)
			}
			return
		}
		in := input(nil)
		in.WorkOrder, in.Places = wo, places
		in.Agent = sallyport.Agent{Name: wo.Agent, Command: []string{"x"}}
		if m, err := Compile(in); err == nil {
			if _, _, err := Freeze(m); err != nil {
				t.Fatal(err)
			}
		} else if c := sallyport.CodeOf(err); c == sallyport.CodeUnknown {
			t.Fatal(err)
		}
	})
}
