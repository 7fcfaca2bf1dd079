package sallyport

import "time"

// Credential is a secret that the gateway puts into requests; the sandbox holds a placeholder for it. It is bound to
// its hosts and to one place in a request, and no other Credential of a Manifest has one of its hosts.
type Credential struct {
	Name   string           `json:"name"` // [a-z0-9-]+, unique in a Manifest
	Source CredentialSource `json:"source"`
	Hosts  []string         `json:"hosts"`            // canonical names (internal/egress.Host), exact; never empty
	Header string           `json:"header,omitempty"` // lower-case header name; exactly one of Header, Basic, Query is set
	Prefix string           `json:"prefix,omitempty"` // before the value in Header: "Bearer "
	Basic  string           `json:"basic,omitempty"`  // user name of basic authentication; the secret is the password
	Query  string           `json:"query,omitempty"`  // name of the query parameter
	Env    string           `json:"env,omitempty"`    // variable inside that holds the placeholder
	File   string           `json:"file,omitempty"`   // path inside, "~/..." or absolute and below the home folder: holds the placeholder
	// PlaceholderPrefix begins the placeholder, for tools that look at a token's first characters: "npm_".
	PlaceholderPrefix string `json:"placeholder_prefix,omitempty"`
}

// CredentialSource says where the secret is read, on the trusted side and at the moment it is needed. Exactly one of
// Env, File, Command, GitHubApp and Login is set.
type CredentialSource struct {
	Env       string        `json:"env,omitempty"`        // variable of the process that drives the Attempt
	File      string        `json:"file,omitempty"`       // absolute or "~/...": the user's own, readable by nobody else
	Command   []string      `json:"command,omitempty"`    // program and arguments; the secret is what it prints
	Timeout   time.Duration `json:"timeout_ns,omitempty"` // of Command; always set with it
	GitHubApp *GitHubApp    `json:"github_app,omitempty"`
	Login     string        `json:"login,omitempty"` // "claude-code" or "codex": the tool's own subscription login file
}

// GitHubApp is an installation of a GitHub App of which a read-only token is minted for each Attempt.
type GitHubApp struct {
	App          string            `json:"app"`                // client id or app id
	Installation int64             `json:"installation"`       //
	KeyFile      string            `json:"key_file"`           // absolute or "~/...": the App's private key, PEM
	Repositories []string          `json:"repositories"`       // names without owner; never empty
	Permissions  map[string]string `json:"permissions"`        // by name; every value is "read"; never empty
	BaseURL      string            `json:"base_url,omitempty"` // of the API; empty: https://api.github.com
}
