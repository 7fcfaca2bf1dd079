package manifest

import (
	"errors"
	"strings"
	"testing"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/checks"
)

// wrongFiles is what people get wrong in sallyport.yaml, and exactly what they are told.
var wrongFiles = []struct {
	file, subject, message, hint string
	code                         sallyport.Code // zero: CodeInvalid
}{
	{file: "", subject: "sallyport.yaml:1:1", message: `the file is empty; expected at least "version: 1"`, hint: ""},
	{file: "# only a comment\n", subject: "sallyport.yaml:1:1", message: `the file is empty; expected at least "version: 1"`, hint: ""},
	{file: "- a\n", subject: "sallyport.yaml:1:1", message: `expected a mapping with version, scope, tools, caches, deps, copy, env, limits, egress, credentials, history, require, checks, setup, parallel, findings, publish, found a list`, hint: ""},
	{file: "hello\n", subject: "sallyport.yaml:1:1", message: `expected a mapping with version, scope, tools, caches, deps, copy, env, limits, egress, credentials, history, require, checks, setup, parallel, findings, publish, found "hello"`, hint: ""},
	{file: "scope: {}\n", subject: "sallyport.yaml:1:1", message: `"version" is missing; expected the format's version: "version: 1"`, hint: ""},
	{file: "version: 2\n", subject: "sallyport.yaml:1:10", message: `expected version 1, the only one this program knows, found the number 2`, hint: ""},
	{file: "version: \"1\"\n", subject: "sallyport.yaml:1:10", message: `expected version 1, the only one this program knows, found "1"`, hint: ""},
	{file: "version:\n", subject: "sallyport.yaml:1:10", message: `expected version 1, the only one this program knows, found nothing`, hint: ""},
	{file: "version: 1.0\n", subject: "sallyport.yaml:1:10", message: `expected version 1, the only one this program knows, found the number 1.0`, hint: ""},
	{file: "version: 01\n", subject: "sallyport.yaml:1:10", message: `expected version 1, the only one this program knows, found the number 01`, hint: ""},
	{file: "version: 1\ntmeout: 5\n", subject: "sallyport.yaml:2:1", message: `unknown key "tmeout"; expected one of version, scope, tools, caches, deps, copy, env, limits, egress, credentials, history, require, checks, setup, parallel, findings, publish`, hint: ""},
	{file: "version: 1\ncheck: []\n", subject: "sallyport.yaml:2:1", message: `unknown key "check"; expected one of version, scope, tools, caches, deps, copy, env, limits, egress, credentials, history, require, checks, setup, parallel, findings, publish`, hint: "did you mean \"checks\"?"},
	{file: "version: 1\nversion: 1\n", subject: "sallyport.yaml:2:1", message: `key "version" is already set at line 1; expected it once`, hint: ""},
	{file: "version: 1\nlimits: {time: 1h, time: 2h}\n", subject: "sallyport.yaml:2:20", message: `key "time" is already set at line 2; expected it once`, hint: ""},
	{file: "version: 1\n---\nversion: 1\n", subject: "sallyport.yaml:2:1", message: `a second document begins here; expected one document in the file`, hint: ""},
	{file: "version: 1\n---\n", subject: "sallyport.yaml:2:1", message: `a second document begins here; expected one document in the file`, hint: ""},
	{file: "version: 1\n...\nversion: 1\n", subject: "sallyport.yaml:2:1", message: `a second document begins here; expected one document in the file`, hint: ""},
	{file: "version: 1\ndeps: *x\n", subject: "sallyport.yaml:2:7", message: `anchors, aliases and merge keys are refused; expected the value itself`, hint: "text that begins with & or * needs quotes: \"*.go\""},
	{file: "version: 1\ndeps: &x [a]\n", subject: "sallyport.yaml:2:7", message: `anchors, aliases and merge keys are refused; expected the value itself`, hint: "text that begins with & or * needs quotes: \"*.go\""},
	{file: "version: 1\n<<: {deps: []}\n", subject: "sallyport.yaml:2:1", message: `anchors, aliases and merge keys are refused; expected the value itself`, hint: "text that begins with & or * needs quotes: \"*.go\""},
	{file: "version: 1\ndeps: !!seq [a]\n", subject: "sallyport.yaml:2:7", message: `tags are refused; expected the value itself`, hint: "text that begins with ! needs quotes"},
	{file: "%YAML 1.2\n---\nversion: 1\n", subject: "sallyport.yaml:1:1", message: `directives are refused; expected a key`, hint: "text that begins with % needs quotes"},
	{file: "version: 1\nscope:\n\tallow: []\n", subject: "sallyport.yaml:3:1", message: `a tab is used for indentation; expected spaces`, hint: ""},
	{file: "version: 1\nscope:\n  allow:\n  - a\n\t- b\n", subject: "sallyport.yaml:5:1", message: `a tab is used for indentation; expected spaces`, hint: ""},
	{file: "version: 1\nscope: {allow: [*.go]}\n", subject: "sallyport.yaml:2:17", message: `anchors, aliases and merge keys are refused; expected the value itself`, hint: "text that begins with & or * needs quotes: \"*.go\""},
	{file: "version: 1\nscope:\n", subject: "sallyport.yaml:2:8", message: `expected a mapping with allow, deny, found nothing`, hint: "remove the key to get its default"},
	{file: "version: 1\nscope: []\n", subject: "sallyport.yaml:2:8", message: `expected a mapping with allow, deny, found a list`, hint: ""},
	{file: "version: 1\nscope: {alow: []}\n", subject: "sallyport.yaml:2:9", message: `unknown key "alow"; expected one of allow, deny`, hint: "did you mean \"allow\"?"},
	{file: "version: 1\nscope: {allow: all}\n", subject: "sallyport.yaml:2:16", message: `expected a list, found "all"`, hint: ""},
	{file: "version: 1\nscope: {allow: [1]}\n", subject: "sallyport.yaml:2:17", message: `expected a path pattern such as "docs/**" or "**/*.go", found the number 1`, hint: ""},
	{file: "version: 1\nscope: {deny: [\"/etc/**\"]}\n", subject: "sallyport.yaml:2:16", message: `expected a path pattern relative to the repository, without a leading / or ~, found "/etc/**"`, hint: ""},
	{file: "version: 1\nscope: {deny: [\"a/../b\"]}\n", subject: "sallyport.yaml:2:16", message: `expected a path pattern without empty, "." or ".." parts, found "a/../b"`, hint: ""},
	{file: "version: 1\nscope: {deny: [\"[a\"]}\n", subject: "sallyport.yaml:2:16", message: `expected a valid path pattern: a bracket or brace is not closed, found "[a"`, hint: ""},
	{file: "version: 1\nscope: {deny: [\"docs/\"]}\n", subject: "sallyport.yaml:2:16", message: `expected a path pattern that names files: a folder and all below it is "folder/**", found "docs/"`, hint: ""},
	{file: "version: 1\nscope: {deny: [\"src/**.go\"]}\n", subject: "sallyport.yaml:2:16", message: `expected a path pattern where "**" stands alone between slashes, found "src/**.go"`, hint: ""},
	{file: "version: 1\nscope: {deny: [\"!x\"]}\n", subject: "sallyport.yaml:2:16", message: `expected a path pattern without "!": what is excluded stands in a list of its own, found "!x"`, hint: ""},
	{file: "version: 1\nscope: {deny: ['a\\b']}\n", subject: "sallyport.yaml:2:16", message: `expected a path pattern with "/" between folders and without "\", found "a\\b"`, hint: ""},
	{file: "version: 1\nscope: {deny: [\"\"]}\n", subject: "sallyport.yaml:2:16", message: `expected a path pattern such as "docs/**" or "**/*.go", found ""`, hint: ""},
	{file: "version: 1\ntools: all\n", subject: "sallyport.yaml:2:8", message: `expected auto, none or a list of absolute or ~/ paths, found "all"`, hint: ""},
	{file: "version: 1\ntools: [auto, auto]\n", subject: "sallyport.yaml:2:15", message: `expected an absolute path or one below ~/, without .. and without a closing slash, found "auto"`, hint: ""},
	{file: "version: 1\ntools: [bin]\n", subject: "sallyport.yaml:2:9", message: `expected an absolute path or one below ~/, without .. and without a closing slash, found "bin"`, hint: ""},
	{file: "version: 1\ntools: [/]\n", subject: "sallyport.yaml:2:9", message: `expected a smaller path: / would show nearly everything, found "/"`, hint: ""},
	{file: "version: 1\ntools: [\"~/\"]\n", subject: "sallyport.yaml:2:9", message: `expected an absolute path or one below ~/, without .. and without a closing slash, found "~/"`, hint: ""},
	{file: "version: 1\ntools: [/home/ann]\n", subject: "sallyport.yaml:2:9", message: `expected a smaller path: /home/ann would show nearly everything, found "/home/ann"`, hint: ""},
	{file: "version: 1\ntools: [/proc/self]\n", subject: "sallyport.yaml:2:9", message: `expected a path outside /proc, /sys, /dev and /run, found "/proc/self"`, hint: ""},
	{file: "version: 1\ntools: {auto: true}\n", subject: "sallyport.yaml:2:8", message: `expected auto, none or a list of absolute or ~/ paths, found a mapping`, hint: ""},
	{file: "version: 1\ntools: [/opt/x, /opt/x]\n", subject: "sallyport.yaml:2:17", message: `"/opt/x" is in the list already; expected it once`, hint: ""},
	{file: "version: 1\ncaches: [gopher]\n", subject: "sallyport.yaml:2:10", message: `expected one of go, npm, pnpm, pip, uv, cargo, maven, gradle, found "gopher"`, hint: ""},
	{file: "version: 1\ncaches: true\n", subject: "sallyport.yaml:2:9", message: `expected auto, none or a list of cache names, found true`, hint: ""},
	{file: "version: 1\ndeps: [/abs]\n", subject: "sallyport.yaml:2:8", message: `expected a folder below the repository such as web or web/node_modules, without ".." and without a leading or closing slash, found "/abs"`, hint: ""},
	{file: "version: 1\ndeps: [../up]\n", subject: "sallyport.yaml:2:8", message: `expected a folder below the repository such as web or web/node_modules, without ".." and without a leading or closing slash, found "../up"`, hint: ""},
	{file: "version: 1\ndeps: [a, a]\n", subject: "sallyport.yaml:2:11", message: `"a" is in the list already; expected it once`, hint: ""},
	{file: "version: 1\ndeps: [web/.git]\n", subject: "sallyport.yaml:2:8", message: `expected a folder outside .git, found "web/.git"`, hint: ""},
	{file: "version: 1\nenv: {path: x}\n", subject: "sallyport.yaml:2:7", message: `expected a variable name of capital letters, digits and underscores, found "path"`, hint: ""},
	{file: "version: 1\nenv: {LD_PRELOAD: x}\n", subject: "sallyport.yaml:2:7", message: `expected another variable: names that begin with LD_ are refused, found "LD_PRELOAD"`, hint: ""},
	{file: "version: 1\nenv: {GIT_DIR: x}\n", subject: "sallyport.yaml:2:7", message: `expected another variable: names that begin with GIT_ are refused, found "GIT_DIR"`, hint: ""},
	{file: "version: 1\nenv: {PATH: x}\n", subject: "sallyport.yaml:2:7", message: `expected another variable: PATH is set by Sallyport, found "PATH"`, hint: ""},
	{file: "version: 1\nenv: {HOME: /}\n", subject: "sallyport.yaml:2:7", message: `expected another variable: HOME is set by Sallyport, found "HOME"`, hint: ""},
	{file: "version: 1\nenv: {CI: true}\n", subject: "sallyport.yaml:2:11", message: `expected text, found true`, hint: "put it in quotes: \"true\""},
	{file: "version: 1\nenv: {N: 1}\n", subject: "sallyport.yaml:2:10", message: `expected text, found the number 1`, hint: "put it in quotes: \"1\""},
	{file: "version: 1\nenv: [A]\n", subject: "sallyport.yaml:2:6", message: `expected a mapping from variable names to text, found a list`, hint: ""},
	{file: "version: 1\nenv: {A: b, A: c}\n", subject: "sallyport.yaml:2:13", message: `key "A" is already set at line 2; expected it once`, hint: ""},
	{file: "version: 1\nlimits: {time: 2 hours}\n", subject: "sallyport.yaml:2:16", message: `expected a duration such as "45m" or "2h", from 1s to 720h, found "2 hours"`, hint: ""},
	{file: "version: 1\nlimits: {time: 15}\n", subject: "sallyport.yaml:2:16", message: `expected a duration such as "45m" or "2h", from 1s to 720h, found the number 15`, hint: ""},
	{file: "version: 1\nlimits: {time: -1h}\n", subject: "sallyport.yaml:2:16", message: `expected a duration such as "45m" or "2h", from 1s to 720h, found "-1h"`, hint: ""},
	{file: "version: 1\nlimits: {time: 9999h}\n", subject: "sallyport.yaml:2:16", message: `expected a duration such as "45m" or "2h", from 1s to 720h, found "9999h"`, hint: ""},
	{file: "version: 1\nlimits: {time: 1ms}\n", subject: "sallyport.yaml:2:16", message: `expected a duration such as "45m" or "2h", from 1s to 720h, found "1ms"`, hint: ""},
	{file: "version: 1\nlimits: {memory: 8GB}\n", subject: "sallyport.yaml:2:18", message: `expected a size such as 8GiB or 256MiB, from 1MiB to 1024TiB, found "8GB"`, hint: ""},
	{file: "version: 1\nlimits: {memory: 8589934592}\n", subject: "sallyport.yaml:2:18", message: `expected a size such as 8GiB or 256MiB, from 1MiB to 1024TiB, found the number 8589934592`, hint: ""},
	{file: "version: 1\nlimits: {memory: 1.5GiB}\n", subject: "sallyport.yaml:2:18", message: `expected a size such as 8GiB or 256MiB, from 1MiB to 1024TiB, found "1.5GiB"`, hint: ""},
	{file: "version: 1\nlimits: {memory: 9999TiB}\n", subject: "sallyport.yaml:2:18", message: `expected a size such as 8GiB or 256MiB, from 1MiB to 1024TiB, found "9999TiB"`, hint: ""},
	{file: "version: 1\nlimits: {pids: 0}\n", subject: "sallyport.yaml:2:16", message: `expected a number of processes from 1 to 4194304, found the number 0`, hint: ""},
	{file: "version: 1\nlimits: {pids: many}\n", subject: "sallyport.yaml:2:16", message: `expected a number of processes from 1 to 4194304, found "many"`, hint: ""},
	{file: "version: 1\nlimits: {pids: 0x10}\n", subject: "sallyport.yaml:2:16", message: `expected a number of processes from 1 to 4194304, found the number 0x10`, hint: ""},
	{file: "version: 1\nlimits: {cpus: 0}\n", subject: "sallyport.yaml:2:16", message: `expected a number of processors from 0.01 to 4096, such as 2 or 0.5, found the number 0`, hint: ""},
	{file: "version: 1\nlimits: {cpus: .nan}\n", subject: "sallyport.yaml:2:16", message: `expected a number of processors from 0.01 to 4096, such as 2 or 0.5, found a number without a value`, hint: ""},
	{file: "version: 1\negress: all\n", subject: "sallyport.yaml:2:9", message: `expected a list, found "all"`, hint: ""},
	{file: "version: 1\nspend: {usd: 5}\n", subject: "sallyport.yaml:2:1", message: `key "spend" does not belong here: it stands under limits: as limits: {spend: {usd: 5}}`, hint: "remove it"},
	{file: "version: 1\nlimits: {spend: 5}\n", subject: "sallyport.yaml:2:17", message: `expected a mapping with usd, tokens, on-exceeded, found the number 5`, hint: ""},
	{file: "version: 1\nlimits: {spend: {usd: -5}}\n", subject: "sallyport.yaml:2:23", message: `expected US dollars such as 5 or 0.50, from 0.000001 to 1000000, found the number -5`, hint: ""},
	{file: "version: 1\nlimits:\n  spend: {usd: 0}\n", subject: "sallyport.yaml:3:16", message: `expected US dollars such as 5 or 0.50, from 0.000001 to 1000000, found the number 0`, hint: ""},
	{file: "version: 1\nlimits: {spend: {usd: 1e3}}\n", subject: "sallyport.yaml:2:23", message: `expected US dollars such as 5 or 0.50, from 0.000001 to 1000000, found "1e3"`, hint: ""},
	{file: "version: 1\nlimits: {spend: {usd: 5 USD}}\n", subject: "sallyport.yaml:2:23", message: `expected US dollars such as 5 or 0.50, from 0.000001 to 1000000, found "5 USD"`, hint: ""},
	{file: "version: 1\nlimits: {spend: {usd: 0.0000001}}\n", subject: "sallyport.yaml:2:23", message: `expected US dollars such as 5 or 0.50, from 0.000001 to 1000000, found the number 0.0000001`, hint: ""},
	{file: "version: 1\nlimits: {spend: {tokens: 2m}}\n", subject: "sallyport.yaml:2:26", message: `expected a number of tokens such as 2M, 500k or 1000000, at most 1000G, found "2m"`, hint: ""},
	{file: "version: 1\nlimits: {spend: {tokens: 1001G}}\n", subject: "sallyport.yaml:2:26", message: `expected a number of tokens such as 2M, 500k or 1000000, at most 1000G, found "1001G"`, hint: ""},
	{file: "version: 1\nlimits: {spend: {usd: 5, on-exceeded: stop}}\n", subject: "sallyport.yaml:2:39", message: `expected one of refuse, end, found "stop"`, hint: ""},
	{file: "version: 1\nlimits: {spend: {eur: 5}}\n", subject: "sallyport.yaml:2:18", message: `unknown key "eur"; expected one of usd, tokens, on-exceeded`, hint: ""},
	{file: "version: 1\npublish: {to: pr, repository: git@host:a/b}\n", subject: "sallyport.yaml:2:31", message: `expected the address of a repository such as https://forge.example/owner/name, found "git@host:a/b"`, hint: ""},
	{file: "version: 1\npublish: {to: pr, repository: 'https://me:pw@host/a/b'}\n", subject: "sallyport.yaml:2:31", message: `expected the address of a repository such as https://forge.example/owner/name, found "https://me:pw@host/a/b"`, hint: ""},
	{file: "version: 1\npublish: {to: main}\n", subject: "sallyport.yaml:2:15", message: `expected one of none, branch, pr, found "main"`, hint: ""},
	{file: "version: 1\npublish: {approve: maybe}\n", subject: "sallyport.yaml:2:20", message: `expected one of never, on-finding, always, found "maybe"`, hint: ""},
	{file: "version: 1\nhistory: 0\n", subject: "sallyport.yaml:2:10", message: `expected a number of commits from 1 to 1000000, or "full", found the number 0`, hint: ""},
	{file: "version: 1\nhistory: all\n", subject: "sallyport.yaml:2:10", message: `expected a number of commits from 1 to 1000000, or "full", found "all"`, hint: ""},
	{file: "version: 1\nhistory: 1.5\n", subject: "sallyport.yaml:2:10", message: `expected a number of commits from 1 to 1000000, or "full", found the number 1.5`, hint: ""},
	{file: "version: 1\nrequire: [gpu]\n", subject: "sallyport.yaml:2:11", message: `expected one of worktree, process, filesystem, syscalls, network, credentials, cpu, memory, pids, disk, runtime, output, found "gpu"`, hint: ""},
	{file: "version: 1\nrequire: everything\n", subject: "sallyport.yaml:2:10", message: `expected all or a list of layers, found "everything"`, hint: ""},
	{file: "version: 1\nrequire: [cpu, cpu]\n", subject: "sallyport.yaml:2:16", message: `"cpu" is in the list already; expected it once`, hint: ""},
	{file: "version: 1\nchecks: {name: a}\n", subject: "sallyport.yaml:2:9", message: `expected a list, found a mapping`, hint: ""},
	{file: "version: 1\nchecks:\n  - name: test\n", subject: "sallyport.yaml:3:5", message: `"run" is missing; expected text`, hint: ""},
	{file: "version: 1\nchecks:\n  - run: x\n", subject: "sallyport.yaml:3:5", message: `"name" is missing; expected a name of at most 64 lower-case letters, digits and dashes that begins with a letter or digit`, hint: ""},
	{file: "version: 1\nchecks:\n  - {name: Test, run: x}\n", subject: "sallyport.yaml:3:12", message: `expected a name of at most 64 lower-case letters, digits and dashes that begins with a letter or digit, found "Test"`, hint: ""},
	{file: "version: 1\nchecks:\n  - {name: a, run: x}\n  - {name: a, run: y}\n", subject: "sallyport.yaml:4:12", message: `a check named "a" is already defined at sallyport.yaml:3:12; expected another name`, hint: ""},
	{file: "version: 1\nchecks:\n  - {name: a, run: \"\"}\n", subject: "sallyport.yaml:3:20", message: `expected text that is not empty, found ""`, hint: ""},
	{file: "version: 1\nchecks:\n  - {name: a, run: [go, test]}\n", subject: "sallyport.yaml:3:20", message: `expected text, found a list`, hint: ""},
	{file: "version: 1\nchecks:\n  - {name: a, run: x, dir: /web}\n", subject: "sallyport.yaml:3:28", message: `expected a folder below the repository such as web or web/node_modules, without ".." and without a leading or closing slash, found "/web"`, hint: ""},
	{file: "version: 1\nchecks:\n  - {name: a, run: x, dir: .}\n", subject: "sallyport.yaml:3:28", message: `expected a folder below the repository such as web or web/node_modules, without ".." and without a leading or closing slash, found "."`, hint: ""},
	{file: "version: 1\nchecks:\n  - {name: a, run: x, timeout: soon}\n", subject: "sallyport.yaml:3:32", message: `expected a duration such as "45m" or "2h", from 1s to 720h, found "soon"`, hint: ""},
	{file: "version: 1\nchecks:\n  - {name: a, run: x, when: web}\n", subject: "sallyport.yaml:3:29", message: `expected a list, found "web"`, hint: ""},
	{file: "version: 1\nchecks:\n  - {name: a, run: x, Timeout: 1m}\n", subject: "sallyport.yaml:3:23", message: `unknown key "Timeout"; expected one of name, run, dir, when, tests, timeout, base, new-tests-on-base, planted-fault, min-tests, tests-not-fewer, report, retries`, hint: "did you mean \"timeout\"?"},
	{file: "version: 1\nlimits: {time: 2h\n", subject: "sallyport.yaml:2:9", message: `this is not valid YAML: could not find flow mapping end token '}'`, hint: ""},
	{file: "version: 1\ntask: 'x\n", subject: "sallyport.yaml:2:7", message: `this is not valid YAML: could not find end character of single-quoted text`, hint: ""},
	{file: "version: 1\n1: 2\n", subject: "sallyport.yaml:2:1", message: `expected a key that is text, found the number 1`, hint: ""},
	{file: "version: 1\n? [a]\n: b\n", subject: "sallyport.yaml:3:1", message: `this is not valid YAML: found an invalid key for this map`, hint: ""},
	{file: "version: 1\na: b: c\n", subject: "sallyport.yaml:2:4", message: `this is not valid YAML: mapping value is not allowed in this context`, hint: ""},
	{file: "version: 1\ndeps: [a\x00b]\n", subject: "sallyport.yaml:2:9", message: `control character U+0000; expected printable text`, hint: ""},
	{file: "version: 1\ndeps: [a\xff]\n", subject: "sallyport.yaml:2:9", message: `expected UTF-8 text`, hint: ""},
	{file: "version: 1\n  x: 2\n", subject: "sallyport.yaml:1:10", message: `this is not valid YAML: mapping value is not allowed in this context`, hint: ""},
	{file: "version: 1\nnull: 1\n", subject: "sallyport.yaml:2:1", message: `expected a key that is text, found nothing`, hint: ""},
	{file: "version: 1\nchecks:\n- a\n", subject: "sallyport.yaml:3:3", message: `expected a mapping with name, run, dir, when, tests, timeout, base, new-tests-on-base, planted-fault, min-tests, tests-not-fewer, report, retries, found "a"`, hint: ""},
	{file: "version: 1\nchecks:\n  - {name: a, run: x, base: passed}\n", subject: "sallyport.yaml:3:29", message: `expected one of pass, fail, any, found "passed"`, hint: ""},
	{file: "version: 1\nchecks:\n  - {name: a, run: x, base: true}\n", subject: "sallyport.yaml:3:29", message: `expected one of pass, fail, any, found true`, hint: ""},
	{file: "version: 1\nchecks:\n  - {name: a, run: x, base: [pass]}\n", subject: "sallyport.yaml:3:29", message: `expected one of pass, fail, any, found a list`, hint: ""},
	{file: "version: 1\nchecks:\n  - {name: a, run: x, new-tests-on-base: pass}\n", subject: "sallyport.yaml:3:42", message: `expected fail, found "pass"`, hint: ""},
	{file: "version: 1\nchecks:\n  - {name: a, run: x, new-tests-on-base: true}\n", subject: "sallyport.yaml:3:42", message: `expected fail, found true`, hint: ""},
	{file: "version: 1\nchecks:\n  - {name: a, run: x, planted-fault: /etc/x}\n", subject: "sallyport.yaml:3:38", message: `expected auto, or the path of a patch in the repository such as checks/fault.patch, found "/etc/x"`, hint: ""},
	{file: "version: 1\nchecks:\n  - {name: a, run: x, planted-fault: ../x}\n", subject: "sallyport.yaml:3:38", message: `expected auto, or the path of a patch in the repository such as checks/fault.patch, found "../x"`, hint: ""},
	{file: "version: 1\nchecks:\n  - {name: a, run: x, planted-fault: true}\n", subject: "sallyport.yaml:3:38", message: `expected auto, or the path of a patch in the repository such as checks/fault.patch, found true`, hint: ""},
	{file: "version: 1\nchecks:\n  - {name: a, run: x, planted-fault: a/.GIT/x}\n", subject: "sallyport.yaml:3:38", message: `expected a patch outside .git, found "a/.GIT/x"`, hint: ""},
	{file: "version: 1\nchecks:\n  - {name: a, run: x, planted-fault: \"\"}\n", subject: "sallyport.yaml:3:38", message: `expected auto, or the path of a patch in the repository such as checks/fault.patch, found ""`, hint: ""},
	{file: "version: 1\nchecks:\n  - {name: a, run: x, min-tests: 0}\n", subject: "sallyport.yaml:3:34", message: `expected a number of tests from 1 to 1000000, found the number 0`, hint: ""},
	{file: "version: 1\nchecks:\n  - {name: a, run: x, min-tests: -1}\n", subject: "sallyport.yaml:3:34", message: `expected a number of tests from 1 to 1000000, found the number -1`, hint: ""},
	{file: "version: 1\nchecks:\n  - {name: a, run: x, min-tests: many}\n", subject: "sallyport.yaml:3:34", message: `expected a number of tests from 1 to 1000000, found "many"`, hint: ""},
	{file: "version: 1\nchecks:\n  - {name: a, run: x, min-tests: 1.5}\n", subject: "sallyport.yaml:3:34", message: `expected a number of tests from 1 to 1000000, found the number 1.5`, hint: ""},
	{file: "version: 1\nchecks:\n  - {name: a, run: x, tests-not-fewer: yes}\n", subject: "sallyport.yaml:3:40", message: `expected true or false, found "yes"`, hint: ""},
	{file: "version: 1\nchecks:\n  - {name: a, run: x, tests-not-fewer: 1}\n", subject: "sallyport.yaml:3:40", message: `expected true or false, found the number 1`, hint: ""},
	{file: "version: 1\nchecks:\n  - {name: a, run: x, retries: 6}\n", subject: "sallyport.yaml:3:32", message: `expected a number of further runs from 0 to 5, found the number 6`, hint: ""},
	{file: "version: 1\nchecks:\n  - {name: a, run: x, retries: -1}\n", subject: "sallyport.yaml:3:32", message: `expected a number of further runs from 0 to 5, found the number -1`, hint: ""},
	{file: "version: 1\nchecks:\n  - {name: a, run: x, retries: once}\n", subject: "sallyport.yaml:3:32", message: `expected a number of further runs from 0 to 5, found "once"`, hint: ""},
	{file: "version: 1\nchecks:\n  - {name: a, run: x, report: junit}\n", subject: "sallyport.yaml:3:31", message: `expected a mapping with format, path, found "junit"`, hint: ""},
	{file: "version: 1\nchecks:\n  - {name: a, run: x, report: {path: a.xml}}\n", subject: "sallyport.yaml:3:31", message: `"format" is missing; expected one of ` + listed(checks.Formats()), hint: ""},
	{file: "version: 1\nchecks:\n  - {name: a, run: x, report: {format: xml}}\n", subject: "sallyport.yaml:3:40", message: `expected one of ` + listed(checks.Formats()) + `, found "xml"`, hint: ""},
	{file: "version: 1\nchecks:\n  - {name: a, run: x, report: {format: tap, path: /tmp/x}}\n", subject: "sallyport.yaml:3:51", message: `expected a file below the repository such as .env or build/junit.xml, without ".." and without a leading or closing slash, found "/tmp/x"`, hint: ""},
	{file: "version: 1\nchecks:\n  - {name: a, run: x, report: {format: tap, path: ../x}}\n", subject: "sallyport.yaml:3:51", message: `expected a file below the repository such as .env or build/junit.xml, without ".." and without a leading or closing slash, found "../x"`, hint: ""},
	{file: "version: 1\nchecks:\n  - {name: a, run: x, report: {format: tap, file: x}}\n", subject: "sallyport.yaml:3:45", message: `unknown key "file"; expected one of format, path`, hint: ""},
	{file: "version: 1\nchecks:\n  - {name: a, run: x, min_tests: 1}\n", subject: "sallyport.yaml:3:23", message: `unknown key "min_tests"; expected one of name, run, dir, when, tests, timeout, base, new-tests-on-base, planted-fault, min-tests, tests-not-fewer, report, retries`, hint: "did you mean \"min-tests\"?"},
	{file: "version: 1\nparallel: 0\n", subject: "sallyport.yaml:2:11", message: `expected a number of checks from 1 to 64, found the number 0`, hint: ""},
	{file: "version: 1\nparallel: 65\n", subject: "sallyport.yaml:2:11", message: `expected a number of checks from 1 to 64, found the number 65`, hint: ""},
	{file: "version: 1\nparallel: auto\n", subject: "sallyport.yaml:2:11", message: `expected a number of checks from 1 to 64, found "auto"`, hint: ""},
	{file: "version: 1\nfindings: block\n", subject: "sallyport.yaml:2:11", message: `expected a mapping from rules to block, warn or info, found "block"`, hint: ""},
	{file: "version: 1\nfindings: [ci.changed]\n", subject: "sallyport.yaml:2:11", message: `expected a mapping from rules to block, warn or info, found a list`, hint: ""},
	{file: "version: 1\nfindings: {ci.changed: error}\n", subject: "sallyport.yaml:2:24", message: `expected one of info, warn, block, found "error"`, hint: ""},
	{file: "version: 1\nfindings: {ci.changed: off}\n", subject: "sallyport.yaml:2:24", message: `expected one of info, warn, block, found "off"`, hint: ""},
	{file: "version: 1\nfindings: {CI: block}\n", subject: "sallyport.yaml:2:12", message: `expected the name of a rule such as ci.changed, found "CI"`, hint: ""},
	{file: "version: 1\nfindings: {ci.changed: warn, ci.changed: block}\n", subject: "sallyport.yaml:2:30", message: `key "ci.changed" is already set at line 2; expected it once`, hint: ""},
	{file: "version: 1\ncopy: .env\n", subject: "sallyport.yaml:2:7", message: `expected a list, found ".env"`, hint: ""},
	{file: "version: 1\ncopy: [/etc/passwd]\n", subject: "sallyport.yaml:2:8", message: `expected a file below the repository such as .env or build/junit.xml, without ".." and without a leading or closing slash, found "/etc/passwd"`, hint: ""},
	{file: "version: 1\ncopy: [../x]\n", subject: "sallyport.yaml:2:8", message: `expected a file below the repository such as .env or build/junit.xml, without ".." and without a leading or closing slash, found "../x"`, hint: ""},
	{file: "version: 1\ncopy: [.env, .env]\n", subject: "sallyport.yaml:2:14", message: `".env" is in the list already; expected it once`, hint: ""},
	{file: "version: 1\ncopy: [.git/config]\n", subject: "sallyport.yaml:2:8", message: `expected a file outside .git, found ".git/config"`, hint: ""},
}

func TestWrongRepositoryFiles(t *testing.T) {
	for _, w := range wrongFiles {
		_, err := ParseRepository("sallyport.yaml", []byte(w.file))
		if w.code == sallyport.CodeUnknown {
			w.code = sallyport.CodeInvalid
		}
		expect(t, w.file, err, w.code, w.subject, w.message, w.hint)
	}
}

func expect(t *testing.T, file string, err error, code sallyport.Code, subject, message, hint string) {
	t.Helper()
	var e *sallyport.Error
	if !errors.As(err, &e) {
		t.Errorf("%q: got %v, want a *sallyport.Error", file, err)
		return
	}
	if e.Code != code || e.Subject != subject || e.Message != message || e.Hint != hint {
		t.Errorf("%q:\n got %s %s %q hint %q\nwant %s %s %q hint %q", file, e.Code, e.Subject, e.Message, e.Hint, code, subject, message, hint)
	}
}

func TestWrongWorkOrders(t *testing.T) {
	const v = "version: 1\n"
	for _, w := range []struct {
		file, subject, message, hint string
		code                         sallyport.Code
	}{
		{v + "agent: a\nchecks: []\n", "w.yaml:3:1", `key "checks" does not belong here: checks come from sallyport.yaml at the protected ref, so that a work order cannot choose its own judge`, "remove it", sallyport.CodeInvalid},
		{v + "agent: a\ntools: auto\n", "w.yaml:3:1", `key "tools" does not belong here: it is set in sallyport.yaml`, "remove it", sallyport.CodeInvalid},
		{v + "agent: a\ncommand: [sh]\n", "w.yaml:3:10", "agent and command are both set; expected exactly one of them", "", sallyport.CodeInvalid},
		{v + "task: x\n", "w.yaml:1:1", "neither agent nor command is set; expected exactly one of them", "add agent: claude-code, or command: [program, argument]", sallyport.CodeInvalid},
		{v + "command: []\n", "w.yaml:2:10", "expected a program and its arguments", "", sallyport.CodeInvalid},
		{v + "command: sh -c x\n", "w.yaml:2:10", `expected a list, found "sh -c x"`, "", sallyport.CodeInvalid},
		{v + "agent: Claude Code\n", "w.yaml:2:8", `expected the name of an agent such as claude-code, found "Claude Code"`, "", sallyport.CodeInvalid},
		{v + "agent: a\nattempts: 0\n", "w.yaml:3:11", "expected a number of attempts from 1 to 20, found the number 0", "", sallyport.CodeInvalid},
		{v + "agent: a\nattempts: 21\n", "w.yaml:3:11", "expected a number of attempts from 1 to 20, found the number 21", "", sallyport.CodeInvalid},
		{v + "agent: a\nname: a..b\n", "w.yaml:3:7", "expected " + wantName + `, found "a..b"`, "", sallyport.CodeInvalid},
		{v + "agent: a\nname: x.lock\n", "w.yaml:3:7", "expected " + wantName + `, found "x.lock"`, "", sallyport.CodeInvalid},
		{v + "agent: a\nname: a/b\n", "w.yaml:3:7", "expected " + wantName + `, found "a/b"`, "", sallyport.CodeInvalid},
		{v + "agent: a\nname: -x\n", "w.yaml:3:7", "expected " + wantName + `, found "-x"`, "", sallyport.CodeInvalid},
		{v + "agent: a\nbase: --upload-pack=x\n", "w.yaml:3:7", "expected " + wantRevision + `, found "--upload-pack=x"`, "", sallyport.CodeInvalid},
		{v + "agent: a\negress: [a]\n", "w.yaml:3:10", `"a" is no preset; expected one of: anthropic, cargo, debian, github-read, go, google, npm, openai, pypi`, "a host of one label is written {host: NAME}", sallyport.CodeInvalid},
		{v + "agent: a\negress:\n  - {host: a.example, protocol: tcp, port: 70000}\n", "w.yaml:4:44", "port: expected a number from 1 to 65535", "", sallyport.CodeInvalid},
		{v + "agent: a\negress:\n  - {host: a.example, methods: [GET, get]}\n", "w.yaml:4:38", `methods[1]: "get": expected an upper-case method such as GET, WEBSOCKET for an upgrade, or *`, "", sallyport.CodeInvalid},
		{v + "agent: a\negress: [{host: a.example, hots: x}]\n", "w.yaml:3:10", `unknown key "hots"; expected one of: host, limits, methods, own-auth, paths, port, protocol`, "", sallyport.CodeInvalid},
		{v + "agent: a\nresolve: {a.example: 192.0.2.1}\n", "w.yaml:3:1", `unknown key "resolve"; expected one of version, name, task, base, agent, command, scope, limits, attempts, copy, env, history, require, publish, egress, credentials`, "", sallyport.CodeInvalid},
		{v + "agent: a\nspend: {usd: 1}\n", "w.yaml:3:1", `key "spend" does not belong here: it stands under limits: as limits: {spend: {usd: 5}}`, "remove it", sallyport.CodeInvalid},
		{v + "agent: a\npublish: {to: forge}\n", "w.yaml:3:15", `expected one of none, branch, pr, found "forge"`, "", sallyport.CodeInvalid},
		{v + "agent: a\nenv: {SALLYPORT_FEEDBACK: x}\n", "w.yaml:3:7", `expected another variable: names that begin with SALLYPORT_ are refused, found "SALLYPORT_FEEDBACK"`, "", sallyport.CodeInvalid},
	} {
		_, err := ParseWorkOrder("w.yaml", []byte(w.file))
		expect(t, w.file, err, w.code, w.subject, w.message, w.hint)
	}
}

func TestWrongOperatorFiles(t *testing.T) {
	const v = "version: 1\n"
	for _, w := range []struct{ file, subject, message string }{
		{v + "checks: []\n", "p.yaml:2:1", `unknown key "checks"; expected one of version, agent, agents, limits, require, protected, publish, scope, grants, tools, caches, copy, parallel, findings, egress, resolve, credentials`},
		{v + "resolve: {A.example: 192.0.2.1}\n", "p.yaml:2:11", `expected a host's name in lower case, found "A.example"`},
		{v + "resolve: {a.example: '192.0.2.1:0'}\n", "p.yaml:2:22", `expected an address such as 192.0.2.1, or one with a port such as 192.0.2.1:8443, found "192.0.2.1:0"`},
		{v + "resolve: {a.example: b.example}\n", "p.yaml:2:22", `expected an address such as 192.0.2.1, or one with a port such as 192.0.2.1:8443, found "b.example"`},
		{v + "scope: {allow: []}\n", "p.yaml:2:9", `unknown key "allow"; expected one of deny`},
		{v + "scope: {}\n", "p.yaml:2:8", `"deny" is missing; expected a list`},
		{v + "grants: never\n", "p.yaml:2:9", `expected one of allow, forbid, found "never"`},
		{v + "tools: auto\n", "p.yaml:2:8", `expected a list, found "auto"`},
	} {
		_, err := ParseOperator("p.yaml", []byte(w.file))
		expect(t, w.file, err, sallyport.CodeInvalid, w.subject, w.message, sallyport.HintOf(err))
	}
}

// A file may be at most 1 MiB, and neither its parts nor its depth may cost more than its size.
func TestExpensiveFiles(t *testing.T) {
	for name, w := range map[string]struct{ file, subject, message string }{
		"bytes":    {"version: 1\n#" + strings.Repeat("x", 1<<20), "s:1:1", "the file has 1048588 bytes; expected at most 1 MiB"},
		"keys":     {strings.Repeat("- a\n", 1<<17), "s:1:1", "the file has 262144 parts; expected at most 20000"},
		"brackets": {"a: " + strings.Repeat("[", 5000), "s:1:28", "nested too deeply; expected at most 24 levels"},
		"dashes":   {strings.Repeat("- ", 5000) + "a", "s:1:49", "nested too deeply; expected at most 24 levels"},
		"marks":    {strings.Repeat("? ", 5000) + "a", "s:1:49", "nested too deeply; expected at most 24 levels"},
		"bomb":     {"a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n", "s:1:4", "anchors, aliases and merge keys are refused; expected the value itself"},
	} {
		_, err := ParseRepository("s", []byte(w.file))
		expect(t, name, err, sallyport.CodeInvalid, w.subject, w.message, sallyport.HintOf(err))
	}
}

// No complaint names a Go type or repeats lines of the file.
func TestComplaintsAreForPeople(t *testing.T) {
	for _, w := range wrongFiles {
		_, err := ParseRepository("sallyport.yaml", []byte(w.file))
		for _, bad := range []string{"struct", "manifest.", "int64", "yaml:", "\n", "[]string", "*", "nil"} {
			text := strings.NewReplacer("sallyport.yaml:", "", `"**"`, "", `"folder/**"`, "", `"docs/**" or "**/*.go"`, "", `"/etc/**"`, "", `"src/**.go"`, "").Replace(err.Error())
			if strings.Contains(text, bad) {
				t.Errorf("%q: %q contains %q", w.file, text, bad)
			}
		}
	}
}
