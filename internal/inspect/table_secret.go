package inspect

const (
	todoRotate    = "remove the value, revoke it where it was issued, and read it from the environment instead"
	explainSecret = "added content holds text in the form of this credential; who can read the branch can use it"
)

// secretRules are the credentials that are looked for in added content and in names.
var secretRules = []Rule{
	{"secret.github-token", block, none, explainSecret, todoRotate},
	{"secret.gitlab-token", block, none, explainSecret, todoRotate},
	{"secret.aws-secret-key", block, none, explainSecret, todoRotate},
	{"secret.aws-access-key-id", warn, none, "an AWS key's public half is added; its secret half may be near", "see that its secret half is nowhere, or take it out"},
	{"secret.anthropic-key", block, none, explainSecret, todoRotate},
	{"secret.openai-key", block, none, explainSecret, todoRotate},
	{"secret.slack-token", block, none, explainSecret, todoRotate},
	{"secret.slack-webhook", block, none, explainSecret, todoRotate},
	{"secret.google-key", block, none, explainSecret, todoRotate},
	{"secret.stripe-key", block, none, explainSecret, todoRotate},
	{"secret.npm-token", block, none, explainSecret, todoRotate},
	{"secret.pypi-token", block, none, explainSecret, todoRotate},
	{"secret.huggingface-token", block, none, explainSecret, todoRotate},
	{"secret.sendgrid-key", block, none, explainSecret, todoRotate},
	{"secret.digitalocean-token", block, none, explainSecret, todoRotate},
	{"secret.docker-token", block, none, explainSecret, todoRotate},
	{"secret.vault-token", block, none, explainSecret, todoRotate},
	{"secret.age-key", block, none, explainSecret, todoRotate},
	{"secret.azure-key", block, none, explainSecret, todoRotate},
	{"secret.telegram-token", block, none, explainSecret, todoRotate},
	{"secret.shopify-token", block, none, explainSecret, todoRotate},
	{"secret.jwt", warn, none, explainSecret, todoRotate},
	{"secret.private-key", block, none, explainSecret, todoRotate},
	{"secret.private-key-in-test", warn, none, "a private key lies among the tests, where many protect nothing", "see that this key protects nothing"},
	{"secret.known-format", block, none, explainSecret, todoRotate},
	{"secret.assigned", warn, none, "added content gives a value that looks random to something named like a credential", "see that the value protects nothing, or read it from the environment instead"},
	{"secret.known-value", block, none, "the change holds the value of a secret that this run was given or started with", todoRotate},
	{"secret.in-name", block, none, "the name of a file holds text in the form of a credential", todoRotate},
}
