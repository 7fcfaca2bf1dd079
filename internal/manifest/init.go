package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/pattern"
)

// FileName is the repository's policy file, at its root.
const FileName = "sallyport.yaml"

// WriteInit detects what is in dir and writes a commented sallyport.yaml there. It never overwrites:
// CodeConflict if the name exists, whatever it is. The file appears whole or not at all.
func WriteInit(dir string) (path string, err error) {
	path = filepath.Join(dir, FileName)
	if _, err := os.Lstat(path); err == nil {
		return path, initExists(path)
	}
	data := InitFile(Detect(dir))
	tmp, err := os.CreateTemp(dir, ".sallyport-init-*")
	if err != nil {
		return path, initFailed(path, err)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Chmod(0o644), tmp.Sync(), tmp.Close())
	if err != nil {
		return path, initFailed(path, err)
	}
	// A link, unlike a rename, fails when somebody made the file in between.
	err = os.Link(tmp.Name(), path)
	switch {
	case errors.Is(err, fs.ErrExist):
		return path, initExists(path)
	case err != nil:
		return path, writeNew(path, data)
	}
	return path, nil
}

// writeNew serves file systems without hard links.
func writeNew(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return initExists(path)
	}
	if err != nil {
		return initFailed(path, err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return initFailed(path, errors.Join(err, os.Remove(path)))
	}
	return nil
}

func initExists(path string) error {
	return &sallyport.Error{Op: "init", Code: sallyport.CodeConflict, Subject: path, Message: "the file exists already and is left as it is", Hint: "edit it, or move it away and run `sallyport init` again"}
}

func initFailed(path string, err error) error {
	return &sallyport.Error{Op: "init", Code: sallyport.CodeUnavailable, Subject: path, Message: "the file cannot be written", Err: err}
}

// InitFile renders a detection as sallyport.yaml.
func InitFile(d Detection) []byte {
	var b bytes.Buffer
	found := "nothing known"
	if len(d.Languages) > 0 {
		found = listed(d.Languages)
	}
	fmt.Fprintf(&b, initHead, found)
	if len(d.Deps) > 0 {
		b.WriteString("deps:\n")
		for _, p := range d.Deps {
			fmt.Fprintf(&b, "  - %s\n", yamlText(p))
		}
	} else {
		b.WriteString("# deps: [node_modules]\n")
	}
	b.WriteString(initMiddle)
	writeChecks(&b, d.Checks)
	b.WriteString(initTail)
	return b.Bytes()
}

func writeChecks(b *bytes.Buffer, checks []Detected) {
	if len(checks) == 0 {
		b.WriteString("# No test command was found. Without a check every result awaits a person's approval.\n")
		b.WriteString("# checks:\n#   - {name: test, run: make test, timeout: 15m}\nchecks: []\n")
		return
	}
	b.WriteString("checks:\n")
	for _, c := range checks {
		fmt.Fprintf(b, "  - name: %s\n    run: %s\n", yamlText(c.Name), yamlText(c.Run))
		if c.Dir != "" {
			fmt.Fprintf(b, "    dir: %s\n", yamlText(c.Dir))
			if when := escapeWhen(c.Dir); when != "" {
				fmt.Fprintf(b, "    when: [%s] # add the folders it depends on\n", yamlQuoted(when))
			}
		}
		b.WriteString("    timeout: 15m\n")
		writeControls(b, c.Lang)
	}
}

// writeControls proposes, as comments, what would show that a pass means something. Counts are proposed only
// where the command that was found prints them in a form that is known.
func writeControls(b *bytes.Buffer, lang string) {
	b.WriteString("    # What should be seen besides a pass; uncomment what fits:\n")
	if format, ok := countedBy[lang]; ok {
		fmt.Fprintf(b, "    # min-tests: 1            # a run that collects nothing fails (counted as %s)\n", format)
		b.WriteString("    # tests-not-fewer: true   # nor may it collect fewer than on the base\n")
	}
	b.WriteString("    # base: pass              # it must pass before the change, too\n")
	b.WriteString("    # new-tests-on-base: fail # the change's tests must fail on the base's code\n")
	b.WriteString("    # planted-fault: auto     # it must fail once a changed line is broken\n")
}

// countedBy: language -> the report format in which the detected command tells of its tests by itself.
// Node's depends on what the test script starts; Gradle is silent about tests that pass.
var countedBy = map[string]string{"go": "go", "python": "pytest", "rust": "cargo", "maven": "maven"}

// escapeWhen is the pattern for all below dir; "" where the folder's name has characters with a meaning in
// patterns, and then the check runs always.
func escapeWhen(dir string) string {
	if strings.ContainsAny(dir, "*?[]{}!") || globRule(dir+"/**") != "" {
		return ""
	}
	return dir + "/**"
}

var plainYAML = pattern.New(`^[A-Za-z./][A-Za-z0-9 ._/-]*[A-Za-z0-9._/-]$`)

// reserved words and what looks like a number would not be read back as text.
var notPlain = pattern.New(`(?i)^(true|false|null|yes|no|on|off|\.(nan|inf)|\.[0-9].*|\.+)$`)

func yamlText(s string) string {
	if plainYAML.MatchString(s) && !notPlain.MatchString(s) {
		return s
	}
	return yamlQuoted(s)
}

// yamlQuoted uses JSON's form, which YAML reads as a double-quoted scalar. Control characters that JSON
// leaves alone are escaped as well: the reader refuses them in a file.
func yamlQuoted(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return `""`
	}
	var out strings.Builder
	for _, c := range strings.TrimSuffix(b.String(), "\n") {
		if c >= 0x7f && c < 0xa0 {
			fmt.Fprintf(&out, `\u%04x`, c)
		} else {
			out.WriteRune(c)
		}
	}
	return out.String()
}

const initHead = `# sallyport.yaml: how this repository lets coding agents work on it.
# Written by "sallyport init"; found: %s.
#
# Sallyport runs an agent in a disposable sandbox, checks its result again in a fresh one, and makes a
# branch only from an accepted change. This file counts as it stands at the protected ref (the default
# branch); a change cannot loosen the rules it is judged by. An omitted key has its default, an empty
# list means nothing.
version: 1

# Which paths a change may touch; deny wins. Omitted: all but this file and the CI's (.github/** and so on).
# scope: {allow: ["src/**", "docs/**"], deny: [".github/**", sallyport.yaml]}

# Programs of your machine, read-only inside. auto: found from PATH. none: the system's only.
# A list of paths needs "sallyport trust".
tools: auto

# Package caches of your machine, copy-on-write inside; there is no network to download from.
caches: auto

# Git-ignored dependency folders, copy-on-write inside. Each needs "sallyport trust".
`

const initMiddle = `
# Files of your work tree that the agent is given, ignored by git or not; never part of a change. They need
# "sallyport trust".
# copy: [.env]

# Environment variables for agent and checks. They need "sallyport trust".
# env: {CI: "true"}

# Bounds of one run. Omitted memory is at most half of the machine's.
limits: {time: 2h, pids: 4096, disk: 20GiB, output: 256MiB}

# What the agent may reach: {host: H, methods: ["*"], own-auth: true} is all of one https host. Rules need
# "sallyport trust"; checks never have network. "sallyport learn -- COMMAND" proposes what is needed.
egress: []

# How much of the base's history the agent sees: 1, N or full.
history: full

# Commands that judge a change: run on the base too, in a fresh sandbox without network.
#   dir: where to run     when: only if the change touches these (omitted: always)
#   tests: which files are tests (omitted: by language); edited tests are also put back and run again
#   retries: N         run it again after a failure; a check that passes then is flaky, and a person decides
#   report: {format: junit, path: build/junit.xml}     where it tells of its tests (omitted: its output)
#   planted-fault: checks/fault.patch     a patch of this repository after which the check must fail
`

const initTail = `
# How many checks run at the same time.
# parallel: 1

# Findings of the inspection that should count for more here: block, warn or info. Only upwards.
# findings: {ci.changed: block}

# Where an accepted change goes, and who must say so first.
#   to: branch | pr (docs/guide-publishing.md) | none     approve: always | on-finding | never
publish: {to: branch, approve: on-finding}
`
