package fault

import (
	"regexp"
	"strings"
)

const module = "sallyport.dev/sallyport"

// helpers are functions that others have write, run and record something for them: who that is says what is done.
var helpers = regexp.MustCompile(`^(change\.(git\.(stream|run|line|command)|ask$|syncDir$|writeDurably$|replaceFile$|lookAround$|Store\.(both|obtain|build|objects|sound)$|Repo\.(Tip|Identity)$)|journal/sqlite\.|control\.((driver|Control)\.(record|append|notice|stage|each|whileCut|standingOn)|writeDurable|writeFile|syncFolder|stateError)$|provider/local\.recorded$|provider/local/keeper\.keeper\.(note|syncFolder)$|wire\.|publisher\.(work\.)?(append|record|intend|note)$)`)

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
	room := strings.LastIndexByte(name, '/') + 1
	room += strings.IndexByte(name[room:], '.')
	parts := strings.Split(name[room+1:], ".")
	for i, p := range parts {
		if strings.HasPrefix(p, "func") && len(p) > 4 || strings.HasPrefix(p, "gowrap") || strings.HasPrefix(p, "deferwrap") {
			parts = made(name[:room+1], parts[:i], known)
			break
		}
	}
	return Short(name[:room+1] + strings.Join(parts, "."))
}

// made finds the function that a closure stands in: the last one that was inlined, if it is of the same room, else the one that
// it was inlined into.
func made(room string, parts []string, known func(string) bool) []string {
	for i := len(parts) - 1; i > 0; i-- {
		if known(room + strings.Join(parts[i:], ".")) {
			return parts[i:]
		}
	}
	for len(parts) > 1 && !known(room+strings.Join(parts, ".")) {
		parts = parts[:len(parts)-1]
	}
	return parts
}

// Short is a function's name without what all have in common.
func Short(name string) string {
	name = strings.TrimPrefix(strings.TrimPrefix(name, module+"/"), "internal/")
	for _, s := range []string{"(*", ")", "-fm"} {
		name = strings.ReplaceAll(name, s, "")
	}
	return name
}
