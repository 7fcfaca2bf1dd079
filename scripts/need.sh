# need PROGRAM PACKAGE: installs a Debian package where we are root on Debian, else says exactly what is missing.
need() {
	command -v "$1" >/dev/null 2>&1 && return 0
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
		echo "installing $2 (for $1)" >&2
		if [ -z "${apt_updated:-}" ]; then apt-get update -qq >/dev/null 2>&1 || true; apt_updated=1; fi
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$2" >/dev/null 2>&1 && command -v "$1" >/dev/null 2>&1 && return 0
	fi
	echo "missing: $1. Install it (Debian: apt-get install $2) and call again." >&2
	exit 1
}
