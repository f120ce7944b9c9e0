"""The agent inside the image: a read-only root, no network, nothing of this machine."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from edgeagent import __version__
from tests.fakes.nvml import FakeNvml, build
from tests.image import built
from tests.packages.requirements import ONCE
from tests.unit.host.nvml_documents import T4, document

pytestmark = ONCE

BOARDS = built.REPOSITORY / "tests/boards"
TRIPLET = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[built.NATIVE]
EXTRAS = {"kubernetes", "urllib3", "rich", "jtop"}
"""Modules that optional extras bring, which the agent on a board does without."""
ON_A_BOARD = {"edgeagent.daemon", "edgeagent.demo.play", "edgeagent.snapshot.live", "edgeagent.snapshot.record.board"}
"""Where the commands for a board begin."""

_SEALED = """\
mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && mount -t proc proc "$1/proc" || exit 70
[ -z "$2" ] || mount --rbind "$2" "$1/host" || exit 71
root=$1; shift 2; exec env -i LANG=C.UTF-8 PATH=/usr/bin $ENVIRON /usr/sbin/chroot "$root" "$@"
"""

# Every module of the agent, and every import statement in it wherever it stands; prints what cannot be imported.
_IMPORTS = """\
import ast, importlib, pathlib, sys
import edgeagent
folder = pathlib.Path(edgeagent.__file__).parent
wanted = set()
for file in folder.rglob("*.py"):
    name = ".".join(file.relative_to(folder.parent).with_suffix("").parts).removesuffix(".__init__")
    if not name.endswith("__main__"):
        wanted.add(name)
    def walk(node):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if isinstance(child, ast.If) and "version_info" in ast.unparse(child.test):
                continue
            if isinstance(child, ast.Import):
                wanted.update(alias.name for alias in child.names)
            if isinstance(child, ast.ImportFrom) and child.module and not child.level:
                wanted.add(child.module)
            walk(child)
    walk(ast.parse(file.read_text()))
for name in sorted(wanted):
    try:
        importlib.import_module(name)
    except ImportError as error:
        print(name, error.name)
print("looked at", len(wanted))
"""


def run(root: Path, *command: str, host: Path | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the image: the root is read-only, ``host`` is at /host, and there is no network."""
    variables = " ".join(f"{name}={value}" for name, value in environ.items())
    sealed = ["unshare", "--mount", "--net", "--pid", "--fork", "--propagation=private", "sh", "-c", _SEALED, "sh"]
    return subprocess.run(
        [*sealed, root, host or "", *command],
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "ENVIRON": variables},
        check=False,
        capture_output=True,
        text=True,
    )


def python(root: Path, code: str) -> str:
    done = run(root, "python3.13", "-I", "-c", code)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_command_is_there(root: Path) -> None:
    done = run(root, "edgeagent", "--version")

    assert (done.returncode, done.stdout, done.stderr) == (0, f"edgeagent {__version__}\n", "")


def test_nothing_can_be_written(root: Path) -> None:
    told = python(root, "import pathlib\ntry: pathlib.Path('/tmp/x').touch()\nexcept OSError as error: print(error)")

    assert "Read-only file system" in told


def test_everything_that_the_agent_imports_is_there(root: Path) -> None:
    *missing, looked = python(root, _IMPORTS).splitlines()

    assert {line.split()[1].partition(".")[0] for line in missing} <= EXTRAS
    assert not {line.split()[0] for line in missing} & ON_A_BOARD
    assert int(looked.split()[-1]) > 100


@pytest.mark.parametrize(
    "module",
    [
        *("_ctypes", "_ssl", "_uuid", "aiohttp._http_parser", "aiohttp._websocket.reader_c", "frozenlist._frozenlist"),
        *("multidict._multidict", "propcache._helpers_c", "psutil._psutil_linux", "yaml._yaml", "yarl._quoting_c"),
    ],
)
def test_a_compiled_module_finds_its_libraries(root: Path, module: str) -> None:
    # Several packages fall back to slower Python without a word.
    assert python(root, f"import {module}; print({module}.__file__)").endswith(".so\n")


def is_licence(file: Path) -> bool:
    return file.is_file() and re.match("LICEN[CS]E|COPYING", file.name) is not None


def test_every_debian_package_has_its_licence(root: Path) -> None:
    packages = [file.name for file in (root / "var/lib/dpkg/status.d").iterdir()]

    # Some have a link to another package's folder: what counts is that it leads to a file.
    assert {"libgcc-s1", "libstdc++6", "libpython3.13-stdlib"} <= set(packages)
    assert [name for name in packages if not (root / f"usr/share/doc/{name}/copyright").is_file()] == []


def test_every_wheel_has_its_licence(root: Path) -> None:
    site = root / "usr/lib/python3/dist-packages"
    folders = list(site.glob("*.dist-info"))
    without = [folder.name.split("-")[0] for folder in folders if not any(map(is_licence, folder.rglob("*")))]

    assert len(folders) > 10
    # Its text is at the head of its only module.
    assert without == ["nvidia_ml_py"]
    assert "Redistribution and use in source and binary forms" in (site / "pynvml.py").read_text()[:2000]


def test_a_recorded_board_is_explained_without_network(root: Path) -> None:
    board = BOARDS / "orin-nano-8gb-jp62"
    expected = yaml.safe_load((board / "expected.yaml").read_text())

    done = run(root, "edgeagent", "explain", "--format", "json", "/host", host=board / "snapshot")

    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told["board"]["kind"] == expected["board"]["kind"] == "jetson"
    assert told["node"]["capacity"] == expected["node"]["capacity"]


def test_signs_are_shown(root: Path) -> None:
    done = run(root, "edgeagent", "explain", "/host", host=BOARDS / "orin-nano-8gb-jp62/snapshot")

    assert "− os" in done.stdout


def test_certificates_of_the_public_are_trusted(root: Path) -> None:
    told = python(root, "import ssl; print(len(ssl.create_default_context().get_ca_certs()))")

    assert int(told) > 100


def test_nothing_is_compiled_at_the_start(root: Path) -> None:
    folders = (root / "usr/lib/python3.13", root / "usr/lib/python3/dist-packages")
    sources = [file for folder in folders for file in folder.rglob("*.py")]
    # PEP 552: the second word of a .pyc is 1 when it holds whatever its source's time is.
    flags = {file: _pyc(file).read_bytes()[4:8] for file in sources if _pyc(file).exists()}

    assert {file for file in sources if file not in flags} == set()
    assert set(flags.values()) == {b"\x01\x00\x00\x00"}


def _pyc(source: Path) -> Path:
    return source.parent / "__pycache__" / f"{source.stem}.cpython-313.pyc"


@pytest.fixture
def driver(root: Path, tmp_path: Path) -> tuple[Path, FakeNvml]:
    """The image as NVIDIA's container runtime starts it: with the host's NVML among its libraries."""
    prepared = tmp_path / "root"
    shutil.copytree(root, prepared, symlinks=True)
    fake = build(tmp_path)
    shutil.copy(fake.folder / "libnvidia-ml.so.1", prepared / "usr/lib" / TRIPLET)
    return prepared, fake


def explained(root: Path, host: Path, **environ: str) -> Any:
    done = run(root, "edgeagent", "explain", "--format", "json", "--host-root", "/host", host=host, **environ)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_nvml_is_found_where_nvidias_runtime_puts_it(root: Path, driver: tuple[Path, FakeNvml], tmp_path: Path) -> None:
    prepared, fake = driver
    host = tmp_path / "host"
    (host / "proc").mkdir(parents=True)
    fake.say(document({**T4, "pci_bus_id": "00000000:01:00.0"}))
    shutil.copy(fake.folder / "answers", host / "answers")

    with_driver = explained(prepared, host, FAKE_NVML="/host/answers")
    without = explained(root, host)

    assert [device["name"] for device in with_driver["devices"]] == [T4["name"]]
    assert without["devices"] == []
