package sallyport

// Protocol is what may be spoken to a host. The zero value is none of them.
type Protocol string

// EgressRule lists one thing that a sandbox may reach. Everything is said; an empty list means nothing, not
// everything. The zero rule matches nothing. What it means is decided in internal/egress.
type EgressRule struct {
	Host     string       `json:"host"`              // a canonical name or address, or "*." and a name: whatever is below it, not itself
	Port     uint16       `json:"port"`              // 1 to 65535
	Protocol Protocol     `json:"protocol"`          // https, http, tcp or git
	Methods  []string     `json:"methods,omitempty"` // http, https: upper-case tokens, "*" is every one; WEBSOCKET is an upgrade
	Paths    []string     `json:"paths,omitempty"`   // http, https: globs on the path; git: on the repository, without ".git"
	Limits   EgressLimits `json:"limits"`
	OwnAuth  bool         `json:"own_auth,omitempty"` // the sandbox may send authentication of its own
}

// EgressLimits bound what goes through one rule during one Attempt. Zero: no limit of the rule's own; the
// gateway's own caps stay.
type EgressLimits struct {
	Requests int64 `json:"requests,omitempty"`        // requests; tcp: connections
	Up       int64 `json:"up_bytes,omitempty"`        // out of the sandbox, headers not counted
	Down     int64 `json:"down_bytes,omitempty"`      // into the sandbox, headers not counted
	Rate     int64 `json:"rate_per_minute,omitempty"` // requests (tcp: connections) per minute
}

// Refusal is something that a sandbox asked for and did not get. All of it comes from the sandbox: neutralised,
// bounded, still not to be believed.
type Refusal struct {
	Host     string   `json:"host"`            // canonical; empty: what was asked for is no host
	Asked    string   `json:"asked,omitempty"` // as it was written, where it is no host
	Port     uint16   `json:"port"`
	Protocol Protocol `json:"protocol"` // the one that was spoken, or most likely would have been
	Method   string   `json:"method,omitempty"`
	Path     string   `json:"path,omitempty"`
	Reason   string   `json:"reason"` // a stable kebab-case code
	Message  string   `json:"message"`
	Stage    string   `json:"stage,omitempty"`   // who asked: "setup 1"; empty: the agent
	Line     string   `json:"line,omitempty"`    // the entry of `egress:` that would allow it and least else; empty: none can
	Process  string   `json:"process,omitempty"` // which program inside asked, as far as it was seen: a claim
	Count    int64    `json:"count"`
}
