#!/bin/sh
# Installs the Debian packages that a list names, if we are root where apt-get exists and any is missing. The tests that need
# one are skipped without it, so a failure is a warning here. Usage: tools/apt.sh LIST
set -eu
[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || exit 0
missing=
for package in $(sed 's/#.*//' "$1"); do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
echo "installing$missing"
log=$(mktemp)
get() { DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@" >>"$log" 2>&1; }
apt-get update -q >"$log" 2>&1 || true
# shellcheck disable=SC2086  # a list of words
if ! get $missing; then
    # One that this release does not have must not keep the others away.
    failed=
    for package in $missing; do get "$package" || failed="$failed $package"; done
    if [ -n "$failed" ]; then
        grep -E '^E:' "$log" | sed 's|[a-z]*://[^ ]*|(mirror)|g' | sort -u | head -5 >&2 || true
        echo "warning: could not install$failed; tests that need them are skipped" >&2
    fi
fi
rm -f "$log"
