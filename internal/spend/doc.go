// Package spend knows what requests to model APIs cost: what a request can cost at most, read from its body before it
// leaves; what it did cost, read from the answer as it passes; and whether the next one still fits under a limit.
//
// It is pure: no socket, no clock, no file but its embedded price table, so that live operation and tests are the same
// code. Bodies and answers are hostile bytes. What is checked is what is sent: there is one strict parser, and what
// it does not know to be free of charge or bounded is refused with a reason.
//
// Not for: forwarding (internal/gateway), making reservations durable (internal/control), what a run may cost by policy
// (internal/manifest).
//
// What is not promised: the bound rests on what the APIs document (a token is at least one byte of text, an image has a
// most, output ends at the maximum asked for) and on the table's prices. Discounts and surcharges of an account that no
// request shows are not in it.
package spend
