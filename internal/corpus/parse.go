package corpus

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/txtar"

	"sallyport.dev/sallyport/testdata/attacks"
)

const suffix = ".txtar"

// All is the whole corpus, by class and name.
func All() ([]Case, error) { return Load(attacks.Files) }

// Of are the cases that go to a room.
func Of(room string) ([]Case, error) {
	all, err := All()
	return slices.DeleteFunc(all, func(c Case) bool { return c.Room != room }), err
}

// Load reads CLASS/NAME.txtar.
func Load(files fs.FS) ([]Case, error) {
	var all []Case
	for _, class := range classes {
		names, err := fs.Glob(files, class+"/*"+suffix)
		if err != nil {
			return nil, err
		}
		slices.Sort(names)
		for _, name := range names {
			data, err := fs.ReadFile(files, name)
			if err != nil {
				return nil, err
			}
			c, err := Parse(name, data)
			if err != nil {
				return nil, err
			}
			all = append(all, c)
		}
	}
	return all, nil
}

// Parse reads one case; name is CLASS/NAME.txtar.
func Parse(name string, data []byte) (Case, error) {
	class, base := path.Split(name)
	c := Case{Class: path.Base(class), Name: strings.TrimSuffix(base, suffix), Base: map[string]string{}}
	p := parser{name: name, c: &c}
	if !slices.Contains(classes, c.Class) {
		return c, p.wrong(0, "unknown class %q", c.Class)
	}
	a := txtar.Parse(data)
	line := 0
	for text := range strings.Lines(string(a.Comment)) {
		line++
		if err := p.header(line, strings.TrimSpace(text)); err != nil {
			return c, err
		}
	}
	seen := map[string]bool{}
	for _, f := range a.Files {
		line = 1 + bytes.Count(data[:bytes.Index(data, []byte("-- "+f.Name+" --"))], []byte("\n"))
		if seen[f.Name] {
			return c, p.wrong(line, "file %q twice", f.Name)
		}
		seen[f.Name] = true
		if err := p.file(line, f.Name, f.Data); err != nil {
			return c, err
		}
	}
	return c, p.whole()
}

type parser struct {
	name string
	c    *Case
}

func (p parser) wrong(line int, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", p.name, line, fmt.Sprintf(format, args...))
}

func (p parser) header(line int, text string) error {
	if text == "" || strings.HasPrefix(text, "#") {
		return nil
	}
	key, value, ok := strings.Cut(text, ":")
	value = strings.TrimSpace(value)
	if !ok || value == "" {
		return p.wrong(line, "expected key: value, found %.60q", text)
	}
	c := p.c
	one := map[string]*string{"where": &c.Where, "source": &c.Source, "proves": &c.Proves, "ends": &c.Ends, "room": &c.Room}
	many := map[string]*[]string{"needs": &c.Needs, "says": &c.Says, "log": &c.Log, "silent": &c.Silent, "heard": &c.Heard, "flag": &c.Flags}
	switch {
	case key == "expect":
		return p.expect(line, value)
	case key == "at-most":
		times, what, _ := strings.Cut(value, " ")
		n, err := strconv.Atoi(times)
		if err != nil || what == "" {
			return p.wrong(line, "expected a number and what is heard so many times, found %q", value)
		}
		c.AtMost = append(c.AtMost, Bound{n, what})
	case one[key] != nil:
		if *one[key] != "" {
			return p.wrong(line, "%s twice", key)
		}
		*one[key] = value
	case many[key] != nil:
		*many[key] = append(*many[key], value)
	default:
		return p.wrong(line, "unknown key %q", key)
	}
	return nil
}

var states = []string{"accepted", "rejected", "awaiting-approval", "failed", "cancelled", "refused"}

// expect reads STATE [CODE] [or STATE [CODE]]...
func (p parser) expect(line int, value string) error {
	if len(p.c.Expect) > 0 {
		return p.wrong(line, "expect twice")
	}
	for _, way := range strings.Split(value, " or ") {
		state, code, _ := strings.Cut(strings.TrimSpace(way), " ")
		if !slices.Contains(states, state) || strings.Contains(code, " ") {
			return p.wrong(line, "expected one of %s and a reason's code, found %q", strings.Join(states, ", "), way)
		}
		p.c.Expect = append(p.c.Expect, Outcome{state, code})
	}
	return nil
}

func (p parser) file(line int, name string, data []byte) error {
	c, text := p.c, string(data)
	switch name {
	case "agent":
		c.Agent = text
	case "sallyport.yaml":
		c.Policy = text
	case "config.yaml":
		c.Config = text
	case "change":
		change := strings.TrimSpace(text)
		c.Change = &change
	case "want":
		want := strings.TrimSuffix(text, "\n")
		c.Want = &want
	case "input":
		c.Input = bytes.TrimSuffix(data, []byte("\n"))
	case "input.hex", "input.base64":
		decode := hex.DecodeString
		if name == "input.base64" {
			decode = base64.StdEncoding.DecodeString
		}
		b, err := decode(strings.Join(strings.Fields(text), ""))
		if err != nil {
			return p.wrong(line, "%s: %v", name, err)
		}
		c.Input = b
	default:
		file, ok := strings.CutPrefix(name, "base/")
		if !ok || !fs.ValidPath(file) {
			return p.wrong(line, "unknown file %q", name)
		}
		c.Base[file] = text
	}
	return nil
}

// whole refuses a case that could not be judged.
func (p parser) whole() error {
	c := p.c
	switch {
	case len(c.Expect) == 0 || c.Where == "" || c.Source == "":
		return p.wrong(1, "expected expect:, where: and source:")
	case (c.Agent == "") == (c.Room == ""):
		return p.wrong(1, "expected either a file agent, or room:")
	case c.Room != "" && len(c.Input) == 0:
		return p.wrong(1, "expected a file input, input.hex or input.base64 for room %s", c.Room)
	case c.Room == "" && (c.Input != nil || c.Want != nil):
		return p.wrong(1, "input and want are a room's")
	case c.Room != "" && (c.Want == nil) != (c.Expect[0].State == "refused"):
		return p.wrong(1, "expect: refused, or a file want with what the room must make of it")
	case c.Change != nil && !slices.ContainsFunc(c.Expect, func(o Outcome) bool { return o.State == "accepted" }):
		return p.wrong(1, "a change is an accepted one's")
	}
	return nil
}
