// Package egress decides what may leave a sandbox, and reads the first bytes of what wants to. It is pure: no
// socket, no clock, no resolver, no file but its embedded presets. Everything it is given by a sandbox is hostile.
//
//   - Host, Target, Authority: the one meaning of a name, whatever it stood in (SNI, Host, :authority, CONNECT,
//     SOCKS, DNS). The Name that is decided on is the Name that is dialled.
//   - Rule, Parse, Check: what policy lists. Preset, Presets: lists that have a name.
//   - Listed, Reach, Decide, Address: the decisions, from the coarsest to the finest. Nothing listed, nothing allowed.
//   - Learn, Refusal: the smallest rules for what was refused.
//   - Answer (DNS), ClientHello (TLS), SOCKS, Git: strict, bounded readers.
//
// How a gateway uses it. DNS: Answer with Listed. A connection: Reach on name and port; then Decide with protocol
// tcp, and if that is allowed the bytes are passed as they are. Else the first byte says TLS or not: ClientHello must
// name the very Name of the connection (or nothing, for an address), every request's Authority too, and each
// request goes through Decide. Before a dial every resolved address goes through Address with the rule that
// allowed it, and that address is dialled, not the name again.
//
// Not for: forwarding, limits in time, credentials, spend (internal/gateway); reading sallyport.yaml
// (internal/manifest).
package egress
