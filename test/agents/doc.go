// Package agents runs the whole of Sallyport with agents as they are: the real Claude Code and Codex against
// a model API on loopback that follows a script, programs at a terminal driven through a pty, and agents that
// flood and attack the screen. It holds tests only.
//
// Not for the presets by themselves (internal/agent), the gateway's rules (internal/gateway) or what does not
// depend on the kind of agent (test/e2e).
package agents
