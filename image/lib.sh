# Shared by build and pin, which set root to the folder of the repository.
# shellcheck shell=sh
. "$root/scripts/lib.sh"

# run_module MODULE [ARGUMENT...]: with the recipe of the packages beside it, which has the wheels.
run_module() {
    python=$(find_python) || die "no Python 3.10 or newer found"
    need_venv_module "$python"
    PYTHONPATH="$root/image:$root/packaging" exec "$python" -m "$@"
}
