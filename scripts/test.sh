#!/usr/bin/env bash
# All tests. Installs what they need where it can, else says what is missing. With CI=true a test that skips
# for a missing capability is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/need.sh
need git git
need go golang
need setpriv util-linux
need python3 python3
need node nodejs
need npm npm
need gcc gcc
need cargo cargo
need less less
need ssh-keygen openssh-client
need bwrap bubblewrap
need qemu-system-x86_64 qemu-system-x86
need ssh openssh-client
PATH=$PATH:/usr/sbin need sshd openssh-server # the tests start their own, on loopback
scripts/gitea.sh >/dev/null # the forge that the drivers are tried on: minutes the first time, then nothing
want=$(awk '$1=="modernc.org/libc"{print $2}' "$(go list -m -f '{{.Dir}}' modernc.org/sqlite)/go.mod")
have=$(go list -m -f '{{.Version}}' modernc.org/libc)
[ "$want" = "$have" ] || { echo "modernc.org/libc is $have; modernc.org/sqlite needs exactly $want" >&2; exit 1; }
go vet ./...
unformatted=$(gofmt -l .)
[ -z "$unformatted" ] || { echo "not gofmt-ed: $unformatted" >&2; exit 1; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
# The fake provider enforces nothing by nature, so what its suite skips says nothing about this machine.
# Never from the cache: many tests run programs that they build, which go's cache does not see change.
go test -count=1 ./internal/provider/fake || status=$?
go test -count=1 -v -timeout 20m $(go list ./... | grep -v '/internal/provider/fake$') >"$log" 2>&1 || status=$?
grep -E '^(ok|FAIL|---|panic:|\?)|^\s+--- (FAIL|SKIP)' "$log" | grep -vE '^--- PASS|no test files' || true
if [ "$status" != 0 ]; then
	echo "--- output of what failed" >&2
	# Tests run beside one another: "=== NAME" says whose lines follow. A package that failed by no test (a panic, a
	# build, its time) is shown by its end.
	awk '
		FNR == NR { if ($0 ~ /^ *--- FAIL: /) { failed[$3] = 1 } next }
		/^FAIL$/ { next }
		$1 == "===" { now = $3; next }
		/^ *--- (FAIL|PASS|SKIP): / { now = $3; if ($2 == "FAIL:") { text = text $0 "\n"; found = 1 } next }
		/^(ok|\?|FAIL) *\t/ { if (/^FAIL/) { printf "%s%s%s\n", text, found ? "" : rest, $0 } text = rest = now = ""; found = 0; next }
		{ if (now in failed) text = text now ": " $0 "\n"; rest = substr(rest $0 "\n", length(rest) > 20000 ? 4001 : 1) }
	' "$log" "$log" | tail -600 >&2
	exit "$status"
fi
if [ "${CI:-}" = true ] && grep -qE '^\s*--- SKIP' "$log"; then
	echo "skipped in CI, where every capability must be there:" >&2
	grep -E -A2 '^\s*--- SKIP' "$log" >&2
	exit 1
fi
passed=$(grep -cE '^\s*--- PASS' "$log"); skipped=$(grep -cE '^\s*--- SKIP' "$log" || true)
echo "$passed passed, 0 failed, $skipped skipped"
