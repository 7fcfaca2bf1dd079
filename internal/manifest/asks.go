package manifest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/egress"
)

// Ask is one thing that a repository's file wants of the host beyond what every run gets.
type Ask struct {
	What string `json:"what"` // one printable line: `env CI="true"`, "deps web/node_modules"
	Why  string `json:"why"`  // what granting it means

	field string // where the file says it
}

// Asks lists what rep asks of the host, in a fixed order; empty when it asks for nothing. `tools: auto` and
// `caches: auto` are the operator's own defaults and ask for nothing.
func Asks(rep Repository) []Ask {
	out := []Ask{}
	for i, p := range rep.Tools.List {
		out = append(out, Ask{"tools " + p, "everything below it can be read in the sandbox", fmt.Sprintf("tools[%d]", i)})
	}
	for i, name := range rep.Caches.List {
		out = append(out, Ask{"caches " + name, "this package cache can be read in the sandbox, whether or not its tool is used", fmt.Sprintf("caches[%d]", i)})
	}
	for i, d := range rep.Deps {
		out = append(out, Ask{"deps " + d, "this git-ignored folder of your work tree can be read in the sandbox; what is written there is thrown away", fmt.Sprintf("deps[%d]", i)})
	}
	for i, f := range rep.Copy {
		out = append(out, Ask{"copy " + f, "the agent is given this file of your work tree, ignored by git or not, and can read what is in it", fmt.Sprintf("copy[%d]", i)})
	}
	if rep.Egress != nil {
		for i, r := range *rep.Egress {
			out = append(out, Ask{"egress " + egress.Line(r), "the agent can exchange anything with it, what it reads here as well", fmt.Sprintf("egress[%d]", i)})
		}
	}
	out = append(out, setupAsks(rep.Setup)...)
	for i, name := range rep.Credentials {
		out = append(out, Ask{"credential " + name, "the agent's requests to the hosts that your config.yaml gives for it carry this secret of yours; the agent itself sees a placeholder", fmt.Sprintf("credentials[%d]", i)})
	}
	for _, name := range slices.Sorted(maps.Keys(rep.Env)) {
		out = append(out, Ask{fmt.Sprintf("env %s=%q", name, rep.Env[name]), "the variable is set for agent and checks", "env." + name})
	}
	return out
}

// AsksDigest names exactly what rep asks for: another path, value or entry is another digest; what does not
// concern the host (checks, scope, comments) leaves it as it is.
func AsksDigest(rep Repository) sallyport.Digest {
	what := []string{}
	for _, a := range Asks(rep) {
		what = append(what, a.What)
	}
	b, err := json.Marshal(what)
	if err != nil {
		// Strings always marshal; a digest of nothing would match something.
		return ""
	}
	return sallyport.Sum(append([]byte("sallyport.dev/asks/v1\x00"), b...))
}
