package inspect

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
)

var update = flag.Bool("update", false, "rewrite docs/findings.md")

// page is docs/findings.md.
func page() string {
	var b strings.Builder
	b.WriteString(`# Findings

Every change is inspected before its checks run. A finding is one sentence about the *tree difference*, made
without git, without a sandbox and without the patch's text. It has a rule, a severity, a path and a next step.

| severity | what it does |
| --- | --- |
| block | the change is rejected; no approval overrides it |
| warn | a person must approve, where policy asks for approval on findings |
| info | worth a reviewer's eye; never changes the decision |

Policy may give a rule another severity, by its name; a name that is not listed here is an error. Rules marked
**floor** cannot be lowered: they protect Sallyport itself and every machine that checks the branch out.

This page is written by the test ` + "`TestFindingsPage`" + ` (with ` + "`-update`" + `) from the table that the program uses.
`)
	last := ""
	for _, r := range Rules() {
		class, _, _ := strings.Cut(r.ID, ".")
		if class != last {
			fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| rule | severity | what it means | what to do |\n| --- | --- | --- | --- |\n", class, aboutClass[class])
			last = class
		}
		floor := ""
		if r.Floor != none {
			floor = ", **floor**"
		}
		fmt.Fprintf(&b, "| `%s` | %s%s | %s | %s |\n", r.ID, r.Severity, floor, r.Explains, r.Todo)
	}
	return b.String()
}

// aboutClass is the sentence above each class's table.
var aboutClass = map[string]string{
	"scope": "What the task was allowed to touch. Both sides of a rename count, and names that differ only in case.", "link": "Symbolic links that the change adds or moves.", "name": "Names that the change brings in. What the base has already is not reported, except where it is dangerous by itself.",
	"repo": "Folders that git takes for repositories.", "mode": "What kinds of entries the change makes.", "submodule": "Submodules and `.gitmodules`, read as git reads it.", "lfs": "Pointers of Git LFS and `.lfsconfig`. Whether an object is there is looked up in the local store; where that is not possible the finding says so.",
	"git": "Files that git obeys.", "attributes": "What a changed `.gitattributes` does to the files below it, compared with its former version. Each file of attributes is judged by itself.",
	"ci": "Files that a CI service runs.", "hook": "Files that git runs.", "agent": "Files that coding agents obey.", "editor": "Files that editors, shells and debuggers obey when a folder is opened.", "container": "Files that images are made from.",
	"lock": "Files that pin dependencies.", "vendored": "Code of others in the tree.", "deps": "Where dependencies come from. Lock files and manifests are read and compared with the base's version.", "runner": "Files that decide what a check does.", "tests": "The tests of the base. Weakened ones are listed with the checks.",
	"size": "Weight, count and depth. The limits are those of `inspect.Limits`.", "binary": "Files that are no text.", "archive": "Files that hold others. Only headers are read; nothing is unpacked, so the sizes are what the archive says of itself.", "generated": "Files that a program wrote.",
	"text": "Added lines that read otherwise than they are.", "secret": "Credentials in added content, in names and in what is published with the change. A finding never repeats the value.", "scan": "What was not looked at.",
}

func TestFindingsPage(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "findings.md")
	if *update {
		if err := os.WriteFile(path, []byte(page()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(path)
	if err != nil || string(b) != page() {
		t.Errorf("docs/findings.md is not what the table says: run this test with -update (%v)", err)
	}
}

// TestRulesTable: the table is complete, its classes hang together, and what the kinds report is in it.
func TestRulesTable(t *testing.T) {
	seen, classes, last := map[string]bool{}, []string{}, ""
	for _, r := range Rules() {
		class, _, _ := strings.Cut(r.ID, ".")
		if class != last && slices.Contains(classes, class) {
			t.Errorf("%s stands apart from its class", r.ID)
		}
		if last = class; !slices.Contains(classes, class) {
			classes = append(classes, class)
		}
		if seen[r.ID] || r.Todo == "" || r.Explains == "" || rank[r.Severity] == 0 || aboutClass[class] == "" || rank[r.Severity] < rank[r.Floor] {
			t.Errorf("rule %+v is twice there or incomplete", r)
		}
		if strings.ContainsAny(r.Explains+r.Todo, "|\n") || strings.HasSuffix(r.Explains, ".") {
			t.Errorf("%s: its sentences do not fit into a table", r.ID)
		}
		seen[r.ID] = true
	}
	for _, k := range kinds {
		if !seen[k.rule] {
			t.Errorf("kind %s has no rule", k.rule)
		}
	}
	for _, n := range nameRules {
		if !seen[n.rule] {
			t.Errorf("name rule %s is not in the table", n.rule)
		}
	}
}

func TestPolicyRaisesAndLowers(t *testing.T) {
	change := func(s map[string]sallyport.Severity) ([]sallyport.Finding, error) {
		tr := newTree("o").add("a:b", modeFile, "x").add("AGENTS.md", modeFile, "x").add("l", modeLink, "/etc")
		tr.in.Severities = s
		return Inspect(t.Context(), tr.in)
	}
	severity := func(found []sallyport.Finding, rule string) sallyport.Severity {
		at := slices.IndexFunc(found, func(f sallyport.Finding) bool { return f.Rule == rule })
		if at < 0 {
			t.Fatalf("%s is not found", rule)
		}
		return found[at].Severity
	}
	plain, err := change(nil)
	if err != nil {
		t.Fatal(err)
	}
	empty, err := change(map[string]sallyport.Severity{})
	if err != nil || !slices.Equal(plain, empty) {
		t.Errorf("an empty map changes findings: %v %v", empty, err)
	}
	found, err := change(map[string]sallyport.Severity{"name.colon": info, "agent.config": block, "link.absolute": block})
	if err != nil {
		t.Fatal(err)
	}
	if severity(plain, "name.colon") != warn || severity(found, "name.colon") != info || severity(found, "agent.config") != block || severity(found, "link.absolute") != block {
		t.Errorf("%+v", found)
	}
	if found[0].Severity != block || found[len(found)-1].Severity != info {
		t.Errorf("findings are not in the order of policy's severities: %+v", found)
	}
	floors := 0
	for _, r := range Rules() {
		for _, s := range []sallyport.Severity{info, warn, block} {
			_, err := change(map[string]sallyport.Severity{r.ID: s})
			if below := rank[s] < rank[r.Floor]; below != (sallyport.CodeOf(err) == sallyport.CodeInvalid) {
				t.Errorf("%s as %s: %v", r.ID, s, err)
			} else if below {
				if floors++; !strings.Contains(err.Error(), "cannot be lowered") || !strings.Contains(err.Error(), r.ID) {
					t.Errorf("%s: the error does not say why: %v", r.ID, err)
				}
			}
		}
	}
	if floors == 0 {
		t.Error("no rule has a floor")
	}
	for _, bad := range []map[string]sallyport.Severity{{"name.colour": warn}, {"": warn}, {"name.colon": ""}, {"name.colon": "off"}, {"name.git": warn}} {
		if found, err := change(bad); sallyport.CodeOf(err) != sallyport.CodeInvalid || found != nil {
			t.Errorf("%v: %v", bad, err)
		}
	}
}
