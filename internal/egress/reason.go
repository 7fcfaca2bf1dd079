package egress

// Reason is a stable kebab-case code for a refusal. Codes are only ever added.
type Reason string

const (
	ReasonHost          Reason = "host-not-listed"
	ReasonPort          Reason = "port-not-listed"
	ReasonProtocol      Reason = "protocol-not-listed"
	ReasonMethod        Reason = "method-not-listed"
	ReasonPath          Reason = "path-not-listed"
	ReasonAmbiguousPath Reason = "ambiguous-path"
	ReasonGitPush       Reason = "git-push"
	ReasonGitRead       Reason = "not-a-git-read"
	ReasonGitDumb       Reason = "git-dumb-protocol"

	// The gateway's, for what is refused before there is a Request.
	ReasonMalformedName Reason = "malformed-name" // Host, Target or Authority refused it
	ReasonNameMismatch  Reason = "name-mismatch"  // SNI, Host and dialled name are not the same Name
	ReasonAddress       Reason = "address"        // Address refused it
	ReasonMalformedTLS  Reason = "malformed-tls"  // ClientHello refused it
)

var sentences = map[Reason]string{
	ReasonHost:          "no egress rule names this host",
	ReasonPort:          "the host is listed, but not with this port",
	ReasonProtocol:      "the host is listed, but not with this protocol",
	ReasonMethod:        "the host is listed, but not with this method",
	ReasonPath:          "the host is listed, but not this path",
	ReasonAmbiguousPath: "servers disagree about what this path means (dot segments, empty segments, backslashes, broken or doubled escapes); ask for the plain path",
	ReasonGitPush:       "nothing is pushed from a sandbox: commit, and Sallyport publishes the branch after its checks",
	ReasonGitRead:       "the rule lets git read this repository and nothing else",
	ReasonGitDumb:       "only git's smart protocol is forwarded; this client asked for files of the repository",
	ReasonMalformedName: "this host name can be read in two ways, or in none",
	ReasonNameMismatch:  "the name in TLS, the name in the request and the name of the connection are not the same",
	ReasonAddress:       "the name leads to an address that is not public, and no rule names that address",
	ReasonMalformedTLS:  "this is not a TLS ClientHello that has one meaning",
}

// Sentence says r to a person; "" for a Reason that is not one of these.
func (r Reason) Sentence() string { return sentences[r] }

// final is a refusal that no rule lifts, or that a person has to look at first.
func (r Reason) final() bool {
	switch r {
	case ReasonHost, ReasonPort, ReasonProtocol, ReasonMethod, ReasonPath, ReasonGitRead, ReasonGitDumb:
		return false
	}
	return true
}
