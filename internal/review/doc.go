// Package review is one page for the person who has to trust a change: what was asked, what changed, which
// checks ran and what shows that they could fail, what was found, what held the agent, what nobody looked at,
// and how to verify it. The same page as text and as one HTML file that needs nothing from elsewhere.
//
// It is pure and decides nothing. Everything in it that an agent could have written is neutralised here.
package review
