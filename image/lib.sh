# Shared by build and pin, which set root to the folder of the repository.
# shellcheck shell=sh
. "$root/scripts/lib.sh"

# A Python with pip, of its own: build runs as root, and .venv is its owner's.
own_venv=${XDG_CACHE_HOME:-$HOME/.cache}/edgeagent/image/venv

# run_module MODULE [ARGUMENT...]
run_module() {
    if ! is_usable "$own_venv/bin/python"; then
        python=$(find_python) || die "no Python 3.10 or newer found"
        need_venv_module "$python"
        "$python" -m venv --clear "$own_venv"
    fi
    PYTHONPATH="$root/image" exec "$own_venv/bin/python" -m "$@"
}
