// Package pulltext writes title and body of a pull request: what was asked, what changed, which checks ran and what
// shows that they could fail, what was found, what held the agent, what nobody looked at, and how to verify it.
//
// It is pure and decides nothing: what it says is in the evidence, or its caller knows it. The page for the person at
// the keyboard is internal/review; who opens the pull request with this text is the Publisher.
//
// # Foreign text
//
// Task, paths, commands, messages and the agent's words are written by others, and GitHub, GitLab and Gitea act on what
// stands in a body: they mention, close, link, load images and run commands. Two independent means keep them from it:
//
//   - Markdown: foreign text stands only in code spans and fenced blocks, whose fence is longer than any run of
//     backticks inside. A sentence of plain words is the one exception (see quoter.sentence).
//   - letter by letter: a body may become a commit message, which no forge reads as Markdown, and GitLab looks for quick
//     actions before it does. So a space breaks mentions, issue references, addresses and [skip ci] even inside code, a
//     less-than sign is written ‹, and each line of a block begins with a bar, so that none begins with a slash.
//
// What is invisible, reorders text or controls a terminal is spelled out as internal/screen does it: ‹U+202E›.
// The only HTML is the marker in the last line, which ParseMarker reads; foreign text cannot hold one.
package pulltext
