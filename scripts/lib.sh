# Shared by scripts/demo and scripts/test, which set root to the folder of the repository.
# shellcheck shell=sh

say() { printf 'edgeagent: %s\n' "$*" >&2; }

die() {
    say "$@"
    exit 1
}

pyenv_root() { pyenv root 2>/dev/null || printf '%s\n' "${PYENV_ROOT:-${HOME:-}/.pyenv}"; }

# Whether $1 starts and is new enough. A pyenv shim of a version that is not selected does not start.
is_usable() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1; }

# Prints the first usable Python.
find_python() {
    for candidate in python3 python3.13 python3.12 python3.11 python3.10 "$(pyenv_root)"/versions/*/bin/python3; do
        if is_usable "$candidate"; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    return 1
}

can_apt() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

apt_get() {
    DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 "$@" </dev/null >/dev/null
}

# Installs Debian packages; a fresh image has no package lists yet.
apt_install() {
    say "installing $* (apt-get)"
    apt_get install --no-install-recommends -y "$@" 2>/dev/null ||
        { apt_get update && apt_get install --no-install-recommends -y "$@"; } ||
        die "apt-get could not install $*"
}

# Debian and Ubuntu ship Python without the module that makes virtual environments.
need_venv_module() {
    "$1" -c 'import ensurepip, venv' 2>/dev/null && return
    package=$("$1" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    if can_apt; then
        apt_install "$package"
    elif command -v apt-get >/dev/null; then
        die "$1 cannot make a virtual environment; install $package: sudo apt-get install $package"
    else
        die "$1 cannot make a virtual environment; install its modules venv and ensurepip (often python3-venv)"
    fi
}

make_venv() {
    python=$(find_python) ||
        die "no Python 3.10 or newer found (tried python3, python3.13 to python3.10, and those of pyenv)"
    need_venv_module "$python"
    "$python" -m venv --clear "$root/.venv"
}

# Puts the package, with the extra $1 if given, into .venv; does nothing when that is as it was left.
install_package() {
    stamp=$root/.venv/edgeagent-installed
    [ ! -e "$root/.venv" ] || [ -w "$root/.venv" ] || die "$root/.venv belongs to another user; use a clone of your own"
    state=$({ printf '%s\n' "$root" && cat "$root/pyproject.toml" "$root/edgeagent/__init__.py"; } | cksum)
    if is_usable "$root/.venv/bin/python" && "$root/.venv/bin/python" -c 'import pip' 2>/dev/null; then
        case $(cat "$stamp" 2>/dev/null) in
        "$state ${1:-}"*) return ;;
        esac
    else
        make_venv
    fi
    say "installing into .venv (once, and after a change of pyproject.toml)"
    "$root/.venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable "$root${1:+[$1]}" ||
        die "the installation failed, see above; it needs a package index (the internet) at its first start"
    printf '%s\n' "$state ${1:-}" >"$stamp"
}
