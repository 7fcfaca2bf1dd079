package egress

import (
	"embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"

	"sallyport.dev/sallyport"
)

//go:embed presets/*.yaml
var presetFiles embed.FS

// PresetList is a list of rules that has a name.
type PresetList struct {
	Name  string `json:"name"`
	About string `json:"about"` // one sentence
	Rules []Rule `json:"egress"`
}

// presetFile is one data file: what a user could write, in mappings only.
type presetFile struct {
	Name   string           `yaml:"name"`
	About  string           `yaml:"about"`
	Egress []map[string]any `yaml:"egress"`
}

// presets reads the embedded files once. They are part of the program: a wrong one is a fault of the build, and the
// tests read them all.
var presets = sync.OnceValues(func() (map[string]PresetList, error) {
	entries, err := presetFiles.ReadDir("presets")
	if err != nil {
		return nil, err
	}
	all := map[string]PresetList{}
	for _, e := range entries {
		p, err := readPreset("presets/" + e.Name())
		if err != nil {
			return nil, &sallyport.Error{Op: "read the egress presets", Code: sallyport.CodeCorrupt, Subject: e.Name(), Message: "not a preset", Err: err}
		}
		all[p.Name] = p
	}
	return all, nil
})

func readPreset(name string) (PresetList, error) {
	b, err := presetFiles.ReadFile(name)
	if err != nil {
		return PresetList{}, err
	}
	var f presetFile
	if err := yaml.UnmarshalWithOptions(b, &f, yaml.Strict()); err != nil {
		return PresetList{}, err
	}
	p := PresetList{Name: f.Name, About: f.About, Rules: []Rule{}}
	for i, m := range f.Egress {
		r, err := parseMapping(m)
		if err != nil {
			return PresetList{}, inEntry(i, err)
		}
		p.Rules = append(p.Rules, r)
	}
	return p, nil
}

// Presets lists the presets, sorted by name. The result is the caller's own.
func Presets() []PresetList {
	all, _ := presets()
	out := []PresetList{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, all[name].clone())
	}
	return out
}

// Preset is the preset of that name, the caller's own copy. Unknown: CodeNotFound with the list.
func Preset(name string) (PresetList, error) {
	all, err := presets()
	if err != nil {
		return PresetList{}, err
	}
	p, ok := all[name]
	if !ok {
		return PresetList{}, &sallyport.Error{Op: opRule, Code: sallyport.CodeNotFound,
			Message: fmt.Sprintf("%.40q is no preset; expected one of: ", name) + strings.Join(slices.Sorted(maps.Keys(all)), ", "), Hint: "a host of one label is written {host: NAME}"}
	}
	return p.clone(), nil
}

func (p PresetList) clone() PresetList {
	p.Rules = slices.Clone(p.Rules)
	for i, r := range p.Rules {
		p.Rules[i].Methods, p.Rules[i].Paths = slices.Clone(r.Methods), slices.Clone(r.Paths)
	}
	return p
}
