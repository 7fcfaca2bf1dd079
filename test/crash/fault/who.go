package fault

import (
	"regexp"
	"strings"
)

// helpers are functions that others have write, run and record something for them: who that is says what is done.
var helpers = regexp.MustCompile(`^(change\.(git\.|ask$|syncDir$|writeDurably$|replaceFile$|lookAround$|Store\.(both|obtain|build|objects|sound)$|Repo\.(Tip|Identity)$)|journal/sqlite\.|control\.((driver|Control)\.(record|append|notice|stage|each|whileCut|standingOn)|writeDurable|writeFile|syncFolder|stateError)$|provider/local\.recorded$|provider/local/keeper\.keeper\.(note|syncFolder)$|wire\.|publisher\.(work\.)?(append|record|intend|note)$)`)

// who names those who make a call: the innermost function, and where that only helps, the one that it helps.
func who(names []string) string {
	if len(names) == 0 {
		return ""
	}
	if helpers.MatchString(names[0]) {
		for _, n := range names[1:] {
			if !helpers.MatchString(n) {
				return names[0] + " < " + n
			}
		}
	}
	return names[0]
}

// Function is the one that makes the call.
func (p Point) Function() string {
	f, _, _ := strings.Cut(p.By, " < ")
	return f
}

var shape = regexp.MustCompile(`\[[^\]]*\]?`)

// short is a function's name without what all have in common and without the numbers of closures. One that was made of another,
// inlined, function's closure bears both names: known tells which part is a function.
func short(name string, known func(string) bool) string {
	name = shape.ReplaceAllString(name, "")
	parts := strings.Split(name, ".")
	for i, p := range parts {
		if strings.HasPrefix(p, "func") && len(p) > 4 || strings.HasPrefix(p, "gowrap") || strings.HasPrefix(p, "deferwrap") {
			for parts = parts[:i]; len(parts) > 2 && !known(strings.Join(parts, ".")); {
				parts = parts[:len(parts)-1]
			}
			break
		}
	}
	name = strings.Join(parts, ".")
	name = strings.TrimPrefix(strings.TrimPrefix(name, module+"/"), "internal/")
	for _, s := range []string{"(*", ")", "-fm"} {
		name = strings.ReplaceAll(name, s, "")
	}
	return name
}
