package inspect

import "sallyport.dev/sallyport"

// Rule is one kind of finding with its default severity and the next step for a person.
type Rule struct {
	ID       string
	Severity sallyport.Severity
	Todo     string
}

const (
	block = sallyport.SeverityBlock
	warn  = sallyport.SeverityWarn
	info  = sallyport.SeverityInfo
)

const (
	todoRename = "give the file another name"
	todoReview = "read this change before you approve"
	todoRotate = "remove the value, revoke it where it was issued, and read it from the environment instead"
	todoAsk    = "leave it out, or make this change by hand"
)

// table lists every rule, by concern. Policy may raise or lower a severity later; the rules stay.
var table = []Rule{
	{"scope.outside", block, "limit the task, or add the path to scope.allow"},
	{"scope.denied", block, "leave it as it is, or make this change by hand"},

	{"link.absolute", block, "use a relative target inside of the repository"},
	{"link.outside", block, "use a target inside of the repository, with .. only at its beginning"},
	{"link.git", block, "let the link point to a file of the tree"},
	{"link.invalid", block, "let the link point to a file of the tree"},
	{"link.added", info, "see where it points"},

	{"name.invalid", block, todoRename},
	{"name.git", block, todoRename},
	{"name.control", block, todoRename},
	{"name.backslash", block, todoRename},
	{"name.bidi", block, todoRename},
	{"name.invisible", block, todoRename},
	{"name.encoding", warn, "use UTF-8"},
	{"name.colon", warn, todoRename},
	{"name.trailing", warn, todoRename},
	{"name.device", warn, todoRename},
	{"name.dash", warn, todoRename},
	{"name.twin", warn, "give one of the two another name"},

	{"mode.unusual", block, "use a plain file, an executable file or a link"},
	{"mode.executable", info, "see that it should be one"},
	{"mode.type", info, todoReview},

	{"submodule.changed", block, todoAsk},
	{"submodule.removed", warn, todoReview},
	{"submodule.config", block, todoAsk},

	{"ci.changed", warn, "read it: it runs with your forge's credentials once it is pushed"},
	{"hook.changed", warn, "read it: it runs on the machines of those who pull it"},
	{"agent.config", warn, "read it: it instructs or configures coding agents"},
	{"editor.config", warn, "read it: editors and shells run it when the folder is opened"},
	{"git.attributes", warn, "read it: it changes how git reads and shows files"},
	{"lock.changed", warn, "rebuild with the new dependencies before you merge"},
	{"runner.config", info, "see that the checks still check"},
	{"runner.script", warn, "read it: installing or building the project runs it"},
	{"runner.replace", warn, "see where the dependency now comes from"},
	{"tests.edited", info, "read the edited tests first"},
	{"tests.removed", info, "see why they are gone"},

	{"size.file", warn, "keep large files out of git"},
	{"size.total", warn, "keep large files out of git"},
	{"binary.added", info, "see where it comes from"},
	{"binary.executable", warn, "build it from source instead"},

	{"text.bidi", block, "write the line without direction controls"},
	{"text.bidi-prose", warn, "see that the text reads as it is stored"},
	{"text.invisible", warn, "remove the invisible characters"},
	{"text.escape", warn, "write terminal escapes as escaped text"},

	{"secret.github-token", block, todoRotate},
	{"secret.gitlab-token", block, todoRotate},
	{"secret.aws-secret-key", block, todoRotate},
	{"secret.aws-access-key-id", warn, "see that its secret half is nowhere, or take it out"},
	{"secret.anthropic-key", block, todoRotate},
	{"secret.openai-key", block, todoRotate},
	{"secret.slack-token", block, todoRotate},
	{"secret.slack-webhook", block, todoRotate},
	{"secret.google-key", block, todoRotate},
	{"secret.stripe-key", block, todoRotate},
	{"secret.npm-token", block, todoRotate},
	{"secret.pypi-token", block, todoRotate},
	{"secret.huggingface-token", block, todoRotate},
	{"secret.sendgrid-key", block, todoRotate},
	{"secret.digitalocean-token", block, todoRotate},
	{"secret.docker-token", block, todoRotate},
	{"secret.vault-token", block, todoRotate},
	{"secret.age-key", block, todoRotate},
	{"secret.azure-key", block, todoRotate},
	{"secret.telegram-token", block, todoRotate},
	{"secret.shopify-token", block, todoRotate},
	{"secret.jwt", warn, todoRotate},
	{"secret.private-key", block, todoRotate},
	{"secret.private-key-in-test", warn, "see that this key protects nothing"},
	{"secret.in-name", block, todoRotate},

	{"scan.incomplete", warn, "read what was not scanned yourself"},
}

var byID = func() map[string]Rule {
	m := make(map[string]Rule, len(table))
	for _, r := range table {
		m[r.ID] = r
	}
	return m
}()

// Rules lists every rule with its default severity. The slice is the caller's.
func Rules() []Rule { return append([]Rule(nil), table...) }

var rank = map[sallyport.Severity]int{info: 1, warn: 2, block: 3}

// Worst is the highest severity among findings; "" if there are none. An unknown severity counts as block.
func Worst(findings []sallyport.Finding) sallyport.Severity {
	worst := sallyport.Severity("")
	for _, f := range findings {
		s := f.Severity
		if rank[s] == 0 {
			s = block
		}
		if rank[s] > rank[worst] {
			worst = s
		}
	}
	return worst
}
