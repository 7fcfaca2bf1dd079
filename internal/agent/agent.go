// Package agent knows how to start the coding agents that have a preset: which command, which environment,
// and which model API they may reach. The presets are data files: under presets/, and NAME.yaml below a person's own
// ~/.config/sallyport/agents.
//
// Not for: forwarding to the API (internal/gateway), running anything (internal/provider), or commands that
// a user gives in full, which need no preset.
package agent

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
var files embed.FS

// preset is one data file.
type preset struct {
	Name         string             `yaml:"name"`
	Command      []string           `yaml:"command"`
	Env          map[string]string  `yaml:"env"`
	Endpoint     sallyport.Endpoint `yaml:"-"`
	EndpointYAML endpoint           `yaml:"endpoint"`
	UpstreamEnv  string             `yaml:"upstream_env"`
	UpstreamPath string             `yaml:"upstream_path"`
	Interactive  interactive        `yaml:"interactive"`
}

// interactive is how the agent is started at a person's terminal.
type interactive struct {
	Command []string `yaml:"command"`
	// Files answer what the agent asks at its first start; by name below the fresh home.
	Files map[string]string `yaml:"files"`
}

// endpoint is sallyport.Endpoint with the names that the file uses.
type endpoint struct {
	Upstream      string   `yaml:"upstream"`
	Paths         []string `yaml:"paths"`
	Listen        int      `yaml:"listen"`
	Header        string   `yaml:"header"`
	Prefix        string   `yaml:"prefix"`
	CredentialEnv string   `yaml:"credential_env"`
}

// load reads the embedded files once. They are part of the program: a wrong one is a fault of the build, and
// the tests read them all.
var load = sync.OnceValues(func() (map[string]preset, error) {
	entries, err := files.ReadDir("presets")
	if err != nil {
		return nil, err
	}
	all := map[string]preset{}
	for _, e := range entries {
		b, err := files.ReadFile("presets/" + e.Name())
		if err != nil {
			return nil, err
		}
		var p preset
		if err := yaml.UnmarshalWithOptions(b, &p, yaml.Strict()); err != nil {
			return nil, &sallyport.Error{Op: "read the agent presets", Code: sallyport.CodeCorrupt, Subject: e.Name(), Message: "not a preset", Err: err}
		}
		p.Endpoint = sallyport.Endpoint(p.EndpointYAML)
		all[p.Name] = p
	}
	return all, nil
})

// Names lists the presets that come with Sallyport, sorted.
func Names() []string {
	all, _ := load()
	return slices.Sorted(maps.Keys(all))
}

// Preset is the agent of that name, still a template: Build fills in what belongs to one Attempt. The result
// is the caller's own copy. Unknown: CodeNotFound with the list. CodeInvalid: a person's own that cannot be used.
func Preset(name string) (sallyport.Agent, error) {
	p, err := find(name)
	if err != nil {
		return sallyport.Agent{}, err
	}
	return p.agent(p.Command), nil
}

// Interactive is Preset with the command for a person's terminal; it needs no task.
func Interactive(name string) (sallyport.Agent, error) {
	p, err := find(name)
	if err != nil {
		return sallyport.Agent{}, err
	}
	if len(p.Interactive.Command) == 0 {
		return sallyport.Agent{}, &sallyport.Error{Op: "choose the agent", Code: sallyport.CodeUnsupported, Subject: name, Message: "this preset has no form for a terminal", Hint: "run it without -it, or add interactive: to its file"}
	}
	return p.agent(p.Interactive.Command), nil
}

func (p preset) agent(command []string) sallyport.Agent {
	a := sallyport.Agent{Name: p.Name, Command: slices.Clone(command), Env: maps.Clone(p.Env)}
	if e := p.Endpoint; e.Upstream != "" {
		e.Paths = slices.Clone(e.Paths)
		a.Endpoint = &e
	}
	if a.Env == nil {
		a.Env = map[string]string{}
	}
	return a
}

func find(name string) (preset, error) {
	all, err := load()
	if err != nil {
		return preset{}, err
	}
	if p, ok := all[name]; ok {
		return p, nil
	}
	p, err := own(name)
	if sallyport.CodeOf(err) == sallyport.CodeNotFound {
		err = &sallyport.Error{Op: "choose the agent", Code: sallyport.CodeNotFound, Subject: fmt.Sprintf("%.40q", name),
			Message: "expected one of: " + strings.Join(slices.Concat(Names(), ownNames()), ", "), Hint: "for any other agent give its command: sallyport run -- COMMAND, or its preset: docs/checklists/add-an-agent.md"}
	}
	return p, err
}
