#!/usr/bin/env bash
# Every fuzz target for FUZZTIME each (default 20s), one after the other; arguments after it are packages (default: all).
# What go finds lands in the package's testdata/fuzz: commit it with the fix, and from then on every `go test` tries it.
set -uo pipefail
cd "$(dirname "$0")/.."
time=${1:-20s}
shift $(($# > 0 ? 1 : 0))
[ $# -gt 0 ] || set -- ./...
# go itself lists them, so that none is forgotten: the names of a package come before its line.
listed=$(go test -list '^Fuzz' "$@") || { printf '%s\n' "$listed" >&2; exit 1; }
targets=$(awk '/^Fuzz/ { names[n++] = $1; next } /^ok/ { for (i = 0; i < n; i++) print $2, names[i]; n = 0 }' <<<"$listed")
[ -n "$targets" ] || { echo "no fuzz target in $*" >&2; exit 1; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
run() {
	# What changed under a cached corpus, or a seed that fails, is a finding like any other.
	go test "$1" -run '^$' -fuzz "^$2\$" -fuzztime "$time" 2>&1 | tee "$log"
	return "${PIPESTATUS[0]}"
}
# late: on a busy machine go can call it a failure that a worker had not ended when the time was over. It then names no input.
late() { grep -q '^ *context deadline exceeded$' "$log" && ! grep -qE 'Failing input|failure while testing|_test.go:' "$log"; }
failed=() count=0
while read -r pkg target; do
	count=$((count + 1))
	echo "== $pkg $target"
	run "$pkg" "$target" || { late && echo "again, as nothing was found" && run "$pkg" "$target"; } || failed+=("$pkg $target")
done <<<"$targets"
echo "$count targets, $time each, ${#failed[@]} failed"
[ ${#failed[@]} = 0 ] || { printf 'failed: %s\n' "${failed[@]}" >&2; exit 1; }
