package corpus

import (
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

func TestAll(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	per, scripts := map[string]int{}, map[string]string{}
	for _, c := range all {
		per[c.Class]++
		// A word that is another is no new attack.
		what := c.Room + "\x00" + c.Agent + string(c.Input) + c.Policy + c.Config
		if other, ok := scripts[what]; ok {
			t.Errorf("%s is %s", c.ID(), other)
		}
		scripts[what] = c.ID()
		if !regexp.MustCompile(`Test|Fuzz`).MatchString(c.Where) {
			t.Errorf("%s: where: names no Go test", c.ID())
		}
	}
	for _, class := range classes {
		if per[class] == 0 {
			t.Errorf("class %s has no case", class)
		}
	}
	if len(all) < 120 {
		t.Errorf("%d cases, want at least 120: %v", len(all), per)
	}
}

const sound = `# a comment
expect: accepted or rejected finding
where: a room: TestX
source: this project
says: one: two
-- agent --
echo x
-- base/dir/file --
base
-- change --
A	new
`

func TestParse(t *testing.T) {
	c, err := Parse("links/some.txtar", []byte(sound))
	if err != nil {
		t.Fatal(err)
	}
	if c.ID() != "links/some" || len(c.Expect) != 2 || c.Expect[1] != (Outcome{"rejected", "finding"}) || c.Says[0] != "one: two" ||
		c.Agent != "echo x\n" || c.Base["dir/file"] != "base\n" || *c.Change != "A\tnew" {
		t.Errorf("%+v", c)
	}
}

// TestParseIsStrict: what a case would say in vain is an error with its line.
func TestParseIsStrict(t *testing.T) {
	for name, wrong := range map[string]struct{ old, new, says string }{
		"an unknown key":       {"says: one: two", "say: x", `:5: unknown key "say"`},
		"no value":             {"says: one: two", "says:", ":5: expected key: value"},
		"a key twice":          {"says: one: two", "source: x", ":5: source twice"},
		"at most of what":      {"says: one: two", "at-most: many", ":5: expected a number"},
		"no source":            {"source: this project\n", "", "expected expect:, where: and source:"},
		"an unknown state":     {"accepted or", "passed or", ":2: expected one of accepted"},
		"an unknown file":      {"-- change --", "-- changes --", `:10: unknown file "changes"`},
		"a file outside":       {"-- base/dir/file --", "-- base/../file --", `:8: unknown file "base/../file"`},
		"a file twice":         {"-- change --", "-- agent --", `file "agent" twice`},
		"a script and a room":  {"says: one: two", "room: stream", "either a file agent, or room:"},
		"a change of nothing":  {"accepted or ", "", "a change is an accepted one's"},
		"input for a script":   {"-- change --", "-- input --", "input and want are a room's"},
		"input that is no hex": {"-- change --", "-- input.hex --", ":10: input.hex"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(sound, wrong.old, wrong.new, 1)
			if text == sound {
				t.Fatal("nothing was replaced")
			}
			if _, err := Parse("links/some.txtar", []byte(text)); err == nil || !strings.Contains(err.Error(), wrong.says) || !strings.HasPrefix(err.Error(), "links/some.txtar:") {
				t.Errorf("%v, want %q", err, wrong.says)
			}
		})
	}
	if _, err := Load(fstest.MapFS{"links/a.txtar": {Data: []byte("x: y\n")}}); err == nil {
		t.Error("a wrong file was loaded")
	}
}
