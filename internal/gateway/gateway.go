// Package gateway is the only way out of a sandbox. It accepts connections on a listening socket that the sandbox
// handed out, and serves three things on it:
//
//   - The model endpoint: the few requests that the Attempt's Endpoint names, with the real credential put in on the
//     trusted side. No byte of a request ever chooses the host, the scheme, the path or the credential.
//   - The proxy (ProxyConfig): CONNECT, absolute-form HTTP and SOCKS 5 to the hosts that egress rules list. What is
//     decided is decided by internal/egress; the name that was decided on is the name in TLS and in Host, its address
//     is judged, and that very address is dialled. Each refusal says why, and which rule would allow it.
//   - Connections that the sandbox led here from wherever they were meant to go (Redirected), by the same rules. Names
//     are answered from the rules as well, with addresses that stand for them (Questions).
//
// Everything on the sandbox's side is hostile: the socket itself (Listener), its options and flags, each
// request, and the pace of both.
//
// Not for: making the sandbox or its socket (internal/provider), choosing the agent (internal/agent), what rules mean
// (internal/egress), what requests cost (Budget; internal/spend), where secrets come from (internal/credential).
//
// What is not promised: a model API is a channel. An agent can say anything to the model in a body, and ask
// for tools that the API itself runs outside, such as a web search; the gateway bounds and counts bytes, it
// does not read them. So is every host that a rule allows, as far as the rule goes: where a rule lets the agent say all that
// the host understands, its bytes pass unread, a git push with its own password too, unless the host is a known forge.
package gateway

import "time"

// The limits. Each is a constant with its reason, because none of them is a matter of taste.
const (
	// maxConnections bounds descriptors and goroutines that one Attempt can hold outside its own cgroup.
	// Both real agents use fewer than ten.
	maxConnections = 64
	// maxStreams is how many requests may be under way on one HTTP/2 connection, and maxExchanges on all connections
	// together; more wait. Each can hold some buffers outside the sandbox's own cgroup, streamWindow of an answer for one.
	maxStreams   = 32
	maxExchanges = 256
	streamWindow = 1 << 20
	// maxAcceptsPerSecond bounds the processor time that a flood of connections costs outside the sandbox.
	maxAcceptsPerSecond = 500
	// maxBody is what the largest known model API takes in one request.
	maxBody = 32 << 20
	// maxHeader is generous: real agents send less than 4 KiB.
	maxHeader = 64 << 10
	// headerTimeout ends a connection that says nothing, so that it cannot hold a slot for ever.
	headerTimeout = 15 * time.Second
	// idleTimeout is between two requests on one connection; longer than an agent thinks between two turns
	// is of no use, a new connection over loopback costs nothing.
	idleTimeout = 2 * time.Minute
	// stallTimeout ends a body or an answer whose other end stopped moving.
	stallTimeout = 2 * time.Minute
	// answerTimeout is until the first byte of an answer: an unstreamed answer of a large model takes minutes.
	answerTimeout = 15 * time.Minute
	// closeTimeout bounds Server.Close, whatever the sandbox does meanwhile.
	closeTimeout = 5 * time.Second
	// minCredential: a shorter value cannot be told from ordinary text in an answer, so it could not be
	// watched for.
	minCredential = 16
	// maxRefusals bounds what a hostile agent can make the trusted side remember and journal.
	maxRefusals = 64
)
