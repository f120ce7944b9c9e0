#!/bin/sh
# Installs edgeagent from this folder, without network: sudo ./install.sh [--venv]
set -eu
cd "$(dirname "$0")"

die() {
    echo "install.sh: $*" >&2
    exit 1
}

case $#${1:-} in
0 | 1--venv) ;;
*) die "usage: sudo ./install.sh [--venv]" ;;
esac
[ "$(id -u)" = 0 ] || die "run it as root"
sha256sum --check --quiet --strict SHA256SUMS || die "the bundle is damaged; copy it again"

if [ $# = 0 ]; then
    command -v dpkg >/dev/null || die "no dpkg here; for a system without it: ./install.sh --venv"
    architecture=$(dpkg --print-architecture)
    for package in edgeagent_*_"$architecture".deb; do
        [ -e "$package" ] || die "no package for $architecture in this bundle"
        dpkg --install "$package"
    done
else
    python3 -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' || die "needs Python 3.10 to 3.13"
    [ ! -e /usr/lib/edgeagent/make-venv ] || die "the package edgeagent is installed here: ./install.sh upgrades it"
    [ ! -e /opt/edgeagent ] || [ -e /opt/edgeagent/pyvenv.cfg ] || die "/opt/edgeagent is something else"
    ./make-venv wheels /opt/edgeagent "$(command -v python3)"
    echo "Made /opt/edgeagent. Next: /opt/edgeagent/bin/edgeagent install"
fi
