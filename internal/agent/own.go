package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/pattern"
)

// presetName is what a preset may be called: it is a file's name, a flag's value and part of a Manifest.
var presetName = pattern.New(`^[a-z0-9][a-z0-9-]{0,39}$`)

// bare is the name that a Manifest gives to a user's own command.
const bare = "command"

// maxPreset bounds a preset's file, in bytes.
const maxPreset = 64 << 10

// ownFolder is where a person keeps presets of their own, NAME.yaml each; "" where there is no home.
func ownFolder() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "sallyport", "agents")
}

// own is the person's preset of that name. CodeNotFound: there is none; CodeInvalid: it cannot be used, with the reason.
func own(name string) (preset, error) {
	dir := ownFolder()
	if dir == "" || !presetName.MatchString(name) {
		return preset{}, &sallyport.Error{Code: sallyport.CodeNotFound}
	}
	path := filepath.Join(dir, name+".yaml")
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return preset{}, &sallyport.Error{Code: sallyport.CodeNotFound}
	}
	bad := func(message string, err error) (preset, error) {
		return preset{}, &sallyport.Error{Op: "read an agent preset", Code: sallyport.CodeInvalid, Subject: path, Message: message, Hint: "the form is that of docs/checklists/add-an-agent.md", Err: err}
	}
	if err != nil || len(b) > maxPreset {
		return bad("expected a file of at most 64 KiB that can be read", err)
	}
	var p preset
	if err := yaml.UnmarshalWithOptions(b, &p, yaml.Strict()); err != nil {
		return bad("not a preset", errors.New(yaml.FormatError(err, false, false)))
	}
	p.Endpoint = sallyport.Endpoint(p.EndpointYAML)
	if why := p.wrong(name); why != "" {
		return bad(why, nil)
	}
	return p, nil
}

// wrong says what a preset lacks, "" if nothing.
func (p preset) wrong(name string) string {
	task := func(command []string) bool {
		n := len(command)
		return n > 2 && command[n-2] == "--" && command[n-1] == "{{task}}" || n > 1 && command[n-1] == "{{task}}" && len(p.Interactive.Command) == 0
	}
	switch {
	case p.Name != name:
		return fmt.Sprintf("name: expected %s, as the file is called, found %.40q", name, p.Name)
	case name == bare:
		return "name: this word stands for a bare command"
	case !task(p.Command):
		return `command: expected a list that ends with the argument "{{task}}" (with "--" before it, where there is an interactive form)`
	case len(p.Interactive.Command) > 0 && !task(p.Interactive.Command):
		return `interactive.command: expected a list that ends with "--" and "{{task}}"`
	case p.Endpoint.Upstream == "" && (p.Endpoint.CredentialEnv != "" || len(p.Endpoint.Paths) > 0 || p.Endpoint.Header != ""):
		return "endpoint: expected upstream beside the rest"
	case p.Endpoint.Upstream != "" && p.Endpoint.CredentialEnv == "":
		return "endpoint.credential_env: expected the variable that holds the credential outside"
	}
	for file := range p.Interactive.Files {
		if !filepath.IsLocal(file) || strings.Contains(file, "\\") {
			return fmt.Sprintf("interactive.files: %.80q: expected a name below the home folder", file)
		}
	}
	return ""
}

// ownNames are the person's presets, sorted, whether they can be used or not.
func ownNames() (names []string) {
	entries, err := os.ReadDir(ownFolder())
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".yaml"); ok && presetName.MatchString(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
