package egress

import "sallyport.dev/sallyport"

// The vocabulary that a Manifest shares with this room.
type (
	// Protocol is what may be spoken to a host. The zero value is none of them.
	Protocol = sallyport.Protocol
	// Rule lists one thing that may be reached. Everything is said: Parse fills in what a short form leaves out, and
	// an empty list means nothing, not everything. The zero Rule matches nothing.
	Rule = sallyport.EgressRule
	// Limits bound what goes through one rule during one Attempt. Zero: no limit of the rule's own; the gateway's
	// own caps stay.
	Limits = sallyport.EgressLimits
)

// The protocols.
const (
	HTTPS Protocol = "https"
	HTTP  Protocol = "http"
	TCP   Protocol = "tcp" // bytes passed as they are: nothing in them is read
	Git   Protocol = "git" // reads of a repository over https: nothing can be pushed
)

// MethodWebSocket stands for the request that turns a connection into a two-way one (Upgrade, extended CONNECT):
// who may GET may not for that reason open a channel.
const MethodWebSocket = "WEBSOCKET"
