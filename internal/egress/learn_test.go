package egress

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func lines(rules []Rule) string {
	var b strings.Builder
	for _, r := range rules {
		fmt.Fprintln(&b, "- "+Line(r))
	}
	return b.String()
}

func TestLearn(t *testing.T) {
	var refused []Refusal
	add := func(q Request, why Reason) { refused = append(refused, Refusal{q, why}) }
	for _, p := range []string{"lodash", "react", "vue", "@babel%2fcore", "zod", "@a%2fb", "@c%2fd", "@e%2ff"} {
		add(get(t, "registry.example", "/"+p), ReasonHost)
	}
	add(get(t, "registry.example", "/-/ping"), ReasonPath)
	for _, dir := range []string{"a", "b", "c", "d"} {
		for i := range enough {
			add(get(t, "files.example", fmt.Sprintf("/%s/%d", dir, i)), ReasonHost)
		}
	}
	add(get(t, "files.example", "/lone/9"), ReasonHost) // nothing like it, and covered all the same
	add(get(t, "forge.example", "/o/r.git/git-receive-pack"), ReasonGitPush)
	q := get(t, "forge.example", "/o/r.git/info/refs")
	q.Query = "service=git-upload-pack"
	add(q, ReasonHost)
	q.Method, q.Path, q.Query = "POST", "/o/r.git/git-upload-pack", ""
	add(q, ReasonHost)
	for _, m := range []string{"POST", "GET", "HEAD", "POST"} {
		q := get(t, "api.example", "/v1/items")
		q.Method = m
		add(q, ReasonMethod)
	}
	add(Request{Name: host(t, "db.example"), Port: 5432, Protocol: TCP}, ReasonHost)
	add(Request{Name: host(t, "seen.example"), Port: 443, Protocol: HTTPS}, ReasonHost)
	add(Request{Name: host(t, "inside.example"), Port: 443, Protocol: TCP}, ReasonAddress)
	const want = `- {host: api.example, methods: [GET, HEAD, POST], paths: [/v1/items]}
- {host: db.example, protocol: tcp, port: 5432}
- {host: files.example, paths: [/*/*]}
- {host: forge.example, protocol: git, paths: [/o/r]}
- {host: registry.example, paths: [/*, /*%2F*, /-/ping]}
- seen.example
`
	got := Learn(refused)
	if lines(got) != want {
		t.Errorf("got\n%swant\n%s", lines(got), want)
	}
	for range 5 {
		rand.Shuffle(len(refused), func(i, j int) { refused[i], refused[j] = refused[j], refused[i] })
		if again := Learn(refused); !reflect.DeepEqual(got, again) {
			t.Errorf("in another order\n%s", lines(again))
		}
	}
	if got := Learn(nil); got == nil || len(got) != 0 {
		t.Errorf("of nothing: %#v", got)
	}
}

// TestLearnLaws: what is learnt allows all that a rule can allow, names no host, port or method that was not seen,
// passes Check, and holds nothing that can be left out in one place.
func TestLearnLaws(t *testing.T) {
	globs := 0
	rapid.Check(t, func(t *rapid.T) {
		var refused []Refusal
		n := rapid.IntRange(0, 60).Draw(t, "n")
		for _, q := range rapid.SliceOfN(rapid.Custom(anyRequest), n, n).Draw(t, "asked") {
			if rapid.Bool().Draw(t, "same place") && q.Protocol != TCP {
				q.Name, q.Port, q.Protocol, q.Method = host(t, "a.example"), 443, HTTPS, "GET"
			}
			if d := Decide(nil, q); !d.Allowed {
				refused = append(refused, Refusal{q, d.Reason})
			}
		}
		learnt := Learn(refused)
		for _, r := range learnt {
			if err := Check(r); err != nil {
				t.Fatalf("%+v: %v", r, err)
			}
			globs += strings.Count(strings.Join(r.Paths, ""), "*")
			holdToSeen(t, r, refused)
		}
		if missed := unallowed(learnt, refused); missed != "" {
			t.Fatalf("%s\ndoes not allow %s", lines(learnt), missed)
		}
		for _, same := range byPlace(refused) {
			learnt := Learn(same)
			for _, less := range smaller(learnt) {
				if unallowed(less, same) == "" {
					t.Fatalf("\n%sis more than is needed; enough is\n%s", lines(learnt), lines(less))
				}
			}
		}
	})
	if globs == 0 {
		t.Error("nothing was ever merged")
	}
}

// unallowed is the first refusal with a line that list does not allow, "" if there is none.
func unallowed(list []Rule, refused []Refusal) string {
	for _, f := range refused {
		if d := Decide(list, f.Request); !d.Allowed && LineFor(f) != "" {
			return fmt.Sprintf("%+v", f)
		}
	}
	return ""
}

func byPlace(refused []Refusal) map[place][]Refusal {
	out := map[place][]Refusal{}
	for _, f := range refused {
		if r, ok := ruleFor(f); ok {
			at := place{r.Host, r.Port, r.Protocol}
			out[at] = append(out[at], f)
		}
	}
	return out
}

func holdToSeen(t *rapid.T, r Rule, refused []Refusal) {
	for _, m := range append([]string{""}, r.Methods...) {
		if !slices.ContainsFunc(refused, func(f Refusal) bool {
			method := f.Method == m || m == "" || slices.Contains(reads, m) && slices.Contains(reads, f.Method)
			return f.Name.String() == r.Host && f.Port == r.Port && method
		}) {
			t.Fatalf("%s was never asked (%q)", Line(r), m)
		}
	}
}

// smaller are all lists with one rule, path or method less; GET and HEAD are one.
func smaller(list []Rule) [][]Rule {
	var out [][]Rule
	for i, r := range list {
		out = append(out, slices.Delete(slices.Clone(list), i, i+1))
		for j := range r.Paths {
			less := slices.Clone(list)
			less[i].Paths = slices.Delete(slices.Clone(r.Paths), j, j+1)
			out = append(out, less)
		}
		for j, m := range r.Methods {
			less := slices.Clone(list)
			if less[i].Methods = slices.Delete(slices.Clone(r.Methods), j, j+1); !slices.Contains(reads, m) {
				out = append(out, less)
			}
		}
	}
	return out
}

func TestLearnKeepsListsBounded(t *testing.T) {
	var refused []Refusal
	for i := range 3 * maxListed {
		// Three segments that all differ: nothing to merge.
		refused = append(refused, Refusal{get(t, "a.example", fmt.Sprintf("/%d/%d/%d", i, i+1, i+2)), ReasonHost})
	}
	learnt := Learn(refused)
	for _, r := range learnt {
		if err := Check(r); err != nil {
			t.Fatal(err)
		}
	}
	if len(learnt) != 3 || len(learnt[0].Paths) != maxListed || unallowed(learnt, refused) != "" {
		t.Errorf("%d rules", len(learnt))
	}
}
