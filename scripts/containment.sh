#!/usr/bin/env bash
# The table of docs/CONTAINMENT.md, made anew: bwrap, codex, srt, docker and sallyport, each as root and as a user. As root;
# minutes. What cannot be installed or started is said in the page. Arguments go to the program: -only sallyport -page ''
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/need.sh
need git git
need go golang
need node nodejs
need npm npm
# A peer that is not there is no failure: its column says so.
for p in "bwrap bubblewrap" "socat socat" "rg ripgrep" "dockerd docker.io"; do
	(PATH=$PATH:/usr/sbin need $p) || true
done
[ -x bin/sallyport ] || { echo "missing: bin/sallyport. Call: make containment" >&2; exit 1; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$dir/" ./tools/containment
PATH=$PATH:/usr/sbin "$dir/containment" -programs bin -page docs/CONTAINMENT.md "$@"
