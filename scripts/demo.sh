#!/usr/bin/env bash
# The main job on a small Go repository, in a folder that is removed at the end. The "agent" is a shell
# script that does what careless agents do; give your own with: sallyport run --agent claude-code -m "…".
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/need.sh
need git git
sallyport=$PWD/bin/sallyport
work=$(mktemp -d)
export SALLYPORT_STATE="$work/state"
trap 'chmod -R u+rwX "$work" 2>/dev/null || true; rm -rf "$work"' EXIT
say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
show() { printf '\033[2m$ %s\033[0m\n' "$*"; }

mkdir "$work/shop" && cd "$work/shop"
git init -q -b main
git config user.name Demo && git config user.email demo@example.invalid
cat > go.mod <<'G'
module example.invalid/shop

go 1.22
G
cat > total.go <<'G'
// Package shop adds up invoices.
package shop

// Total is the sum of amounts in cents with a discount in percent, rounded half up.
func Total(cents []int, percent int) int {
	sum := 0
	for _, c := range cents {
		sum += c
	}
	return sum - sum*percent/100 // rounds the discount down
}
G
cat > total_test.go <<'G'
package shop

import "testing"

func TestTotal(t *testing.T) {
	if got := Total([]int{100, 200}, 10); got != 270 {
		t.Fatalf("Total = %d, want 270", got)
	}
}
G
cat > agent.sh <<'G'
#!/bin/sh
# What some agents do: claim first, test never; with feedback in hand, do it properly.
if [ -z "${SALLYPORT_FEEDBACK:-}" ]; then
	sed -i 's|return sum - sum\*percent/100.*|return sum - (sum*percent+50)/10|' total.go
	echo "I fixed the rounding. All tests pass!"
	git commit -qam "fix rounding (all tests pass)"
else
	echo "Reading why the last attempt was not accepted:"
	grep -m1 'FAIL' "$SALLYPORT_FEEDBACK" || true
	sed -i 's|return sum - .*|return sum - (sum*percent+50)/100|' total.go
	go test ./... && echo "Now they really pass."
fi
G
cat > sallyport.yaml <<'G'
version: 1
limits: {time: 5m}
checks:
  - {name: test, run: go test ./..., timeout: 2m}
publish: {to: branch, approve: on-finding}
G
git add -A && git commit -qm "A shop with a rounding fault"

say "0. A repository of yours: it has a test, and a fault that the test does not see."
show 'go test ./...'
env -u CGO_ENABLED go test ./...

say "1. An agent says \"all tests pass\". A fresh sandbox says otherwise, and the next Attempt is told why."
show 'sallyport run --attempts 2 -m "Round totals half up" -- sh agent.sh'
"$sallyport" run --name rounding --attempts 2 -m "Round totals half up" -- sh agent.sh

say "2. Your own toolchain and caches, no daemon, no image, no account. What came out is one commit on a branch:"
show 'git log --stat -1 sallyport/rounding'
git --no-pager log --stat -1 --format='%h %an: %s' sallyport/rounding
show 'git status --short   # your checkout was not touched'
git status --short

say "3. kill -9 in the middle: the sandbox goes on, the next command adopts it."
show "sallyport run -d --name slow -- sh -c 'sleep 3; echo // seen >> total.go'"
id=$("$sallyport" run -d --name slow -m "Add a remark" -- sh -c 'for i in 1 2 3; do echo "working $i"; sleep 1; done; echo "// seen" >> total.go')
sleep 1.5
driver=$(pgrep -f "drive $id" | head -1)
show "kill -9 $driver   # the driver of $id"
kill -9 "$driver"
show "sallyport wait $id"
"$sallyport" wait "$id"

say "4. The evidence, verified offline with a key that you give."
"$sallyport" keys > "$work/key.pem"
show "sallyport verify evidence.json --key key.pem"
evidence=$("$sallyport" show "$id" --json | sed -n 's/.*"evidence": *"\([^"]*\)".*/\1/p' | head -1)
"$sallyport" verify "$evidence" --key "$work/key.pem"
show "sallyport fsck"
"$sallyport" fsck
