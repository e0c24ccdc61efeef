#!/bin/sh
# Makes .venv with a Python of at least 3.11. Debian and Ubuntu ship Python without ensurepip: as root it is installed
# through apt, otherwise this says what to install. Usage: tools/venv.sh FOLDER [PYTHON]
set -eu
venv=$1
wanted=${2:-}

usable() { command -v "$1" >/dev/null 2>&1 && "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
as_root() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; }
install() {
    # A list that is a day old names package versions that the mirror no longer has, so it is refreshed first.
    log=$(mktemp)
    if { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"; } >"$log" 2>&1
    then rm -f "$log"; return 0; fi
    sed 's|[a-z]*://[^ ]*|(mirror)|g' "$log" | tail -5 >&2
    rm -f "$log"
    return 1
}

python=
for name in $wanted python3 python3.13 python3.12 python3.11 python3.14 python; do
    if usable "$name"; then python=$name; break; fi
done
if [ -z "$python" ]; then
    echo "Magpie needs Python 3.11 or newer, and none was found; set PYTHON=/path/to/python3 to name one." >&2
    exit 1
fi

if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    if as_root; then
        echo "installing python$version-venv"
        install "python$version-venv" || install python3-venv
    else
        echo "Python's venv module is missing: install the package python$version-venv, then run this again." >&2
        exit 1
    fi
fi

"$python" -m venv "$venv"
"$venv/bin/python" -c 'import sys; print("made .venv with Python %d.%d.%d" % sys.version_info[:3])'
